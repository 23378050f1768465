"""A head's arithmetic by hand; it finds what was planted, and nothing where there is nothing."""

from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from localjudge.errors import DataError
from localjudge.stats.agreement import expected_calibration_error, roc_auc
from localjudge.stats.head import READOUT, Head, fit_head, readout_of, readouts
from localjudge.stats.interval import LabelledScores


def weights(*values: float) -> str:
    return b64encode(np.array(values, "<f4").tobytes()).decode()


def readout(*values: float) -> bytes:
    return np.array(values, "<f2").tobytes()


def made(logits: NDArray[Any]) -> bytes:
    values = readout_of(logits.astype(np.float32))
    assert values is not None
    return values


def planted(rows: int, gain: float, seed: int = 1) -> LabelledScores:
    """Readouts of 64 numbers of different spreads; the fifth is `gain` of its spreads higher where the label is 1."""
    rng = np.random.default_rng(seed)
    labels, spreads = rng.integers(0, 2, rows), np.linspace(0.2, 5, 64)
    x = rng.normal(size=(rows, 64)) * spreads
    x[:, 5] += gain * spreads[5] * labels
    return LabelledScores(labels, x.astype("<f2"), None, np.arange(rows) // 2)


def test_p_by_hand() -> None:
    """1 * 0.5 - 2 * 0.25 + 0.1 = 0.1, and 1 / (1 + exp(-0.1)) = 0.52497918747894."""
    assert Head(weights=weights(1, -2), offset=0.1).p_yes(readout(0.5, 0.25)) == pytest.approx(0.52497918747894, abs=0)
    assert Head(weights=weights(1e30), offset=0).p_yes(readout(1)) == 1 / (1 + np.exp(-700.0))
    with pytest.raises(DataError, match="a head of 2 weights cannot read 3 logits"):
        Head(weights=weights(1, -2), offset=0.1).p_yes(readout(1, 2, 3))


def test_a_readout_is_of_logits_that_are_evenly_spaced_less_their_mean() -> None:
    """Of 1,024 every second, 0, 2 ... 1,022, whose mean is 511; of fewer than 512 all."""
    [values] = readouts([made(np.arange(1024))])
    assert values.tolist() == [place - 511 for place in range(0, 1024, 2)]
    assert len(readouts([made(np.ones(100))])[0]) == 100
    with pytest.raises(DataError, match="not of one model"):
        readouts([readout(1), readout(1, 2)])


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=700))
def test_a_readout_is_numbers_whatever_the_logits_are(logits: list[float]) -> None:
    [values] = readouts([made(np.array(logits))])
    assert len(values) == min(READOUT, len(logits))
    assert np.isfinite(values).all()


@pytest.mark.parametrize("unknown", [-np.inf, np.nan])
def test_there_is_no_readout_where_not_all_logits_are_told(unknown: float) -> None:
    """As of a server, which gives the probabilities of some tokens alone."""
    assert readout_of(np.array([0, 1, unknown, 2], np.float32)) is None


@pytest.mark.parametrize("wrong", ["", "AAAA", "not base64", weights(float("nan"))])
def test_weights_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(ValidationError):
        Head(weights=wrong, offset=0)


def test_a_head_finds_what_was_planted() -> None:
    """Two normal distributions two spreads apart: at best AUC = Phi(2 / sqrt 2) = 0.921."""
    rows = planted(1500, 2)
    fitted = fit_head(rows)
    assert float(roc_auc(rows.labels, fitted.held_out)) == pytest.approx(0.921, abs=0.03)
    assert float(expected_calibration_error(rows.labels, fitted.held_out)) < 0.06
    others = planted(500, 2, seed=2)
    read = [fitted.head.p_yes(row.tobytes()) for row in np.asarray(others.scores)]
    assert float(roc_auc(others.labels, read)) == pytest.approx(0.921, abs=0.05)


def test_a_head_finds_nothing_where_there_is_nothing() -> None:
    """Held out, noise is not better than guessing: fitted and judged on the same rows it would be."""
    rows = planted(200, 0)
    fitted = fit_head(rows)
    read = [fitted.head.p_yes(row.tobytes()) for row in np.asarray(rows.scores)]
    assert abs(float(roc_auc(rows.labels, fitted.held_out)) - 0.5) < 0.15
    assert float(roc_auc(rows.labels, read)) >= float(roc_auc(rows.labels, fitted.held_out))


def test_neither_the_order_of_rows_nor_names_of_clusters_move_a_head() -> None:
    rows, order = planted(120, 1), np.random.default_rng(2).permutation(120)
    labels, x, _ = rows.arrays()
    shuffled = LabelledScores(labels[order], x[order], None, [f"c{name}" for name in np.asarray(rows.clusters)[order]])
    first, second = fit_head(rows), fit_head(shuffled)
    assert first.head == second.head
    assert np.array_equal(first.held_out[order], second.held_out)


def test_a_row_that_weighs_two_is_as_good_as_two_rows() -> None:
    labels, x, _ = planted(60, 1).arrays()
    clusters, twice = np.arange(60) // 2, np.concatenate([np.arange(60), np.arange(0, 20)])
    weighed = fit_head(LabelledScores(labels, x, np.where(np.arange(60) < 20, 2.0, 1.0), clusters))
    doubled = fit_head(LabelledScores(labels[twice], x[twice], None, clusters[twice]))
    probe = planted(60, 1, seed=3).arrays()[1].astype("<f2")
    one, two = ([fitted.head.p_yes(row.tobytes()) for row in probe] for fitted in (weighed, doubled))
    assert np.corrcoef(one, two)[0, 1] > 0.9  # folds are drawn by content, which differs


def test_too_few_groups_are_refused() -> None:
    labels, x, _ = planted(40, 1).arrays()
    with pytest.raises(DataError, match="5 groups of labels or more, not 4"):
        fit_head(LabelledScores(labels, x, None, np.arange(40) % 4))
