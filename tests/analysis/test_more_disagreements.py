"""Draw statements on which the judges of a jury disagree more often, with known probabilities."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import InputError
from localjudge.labels.drawing import (
    Drawing,
    DrawingOptions,
    draw_again,
    draw_statements,
    parse_metrics,
    parse_options,
)
from localjudge.labels.drawing_remarks import disagreement_remark
from localjudge.labels.labelling import Labelling
from localjudge.labels.units import UnitFrame
from localjudge.run_directory.evaluations import Evaluation, JudgedUnit
from localjudge.stats.drawing import inclusion_probabilities
from localjudge.types import Label, Scored, Span, Unit, Verdict
from tests.analysis.conftest import JudgedRun

METRIC = "faithfulness"
AGREED = {"a": 0.5, "b": 0.5}
DIVIDED = {"a": 0.9, "b": 0.1}


def frame_of_samples(
    judges: Sequence[Mapping[str, float]],
    p_yes: Sequence[float] = (),
    values: Mapping[str, str | None] | None = None,
    metric: str = METRIC,
) -> UnitFrame:
    """Return a frame of samples with one statement each, and a column's values by sample."""
    frame = UnitFrame(metric, lambda _column: values or {})
    for number, parts in enumerate(judges):
        probability = p_yes[number] if p_yes else 0.5
        label: Label = 1 if probability >= 0.5 else 0
        verdict = Verdict(label=label, p_yes=probability, judges=dict(parts) or None)
        unit = Unit(kind="statement", index=0, source="response", span=Span.whole("It rains."))
        scored = Scored(value=float(label), numerator=label, denominator=1)
        evaluation = Evaluation(f"s{number}", metric, scored, (JudgedUnit(unit, verdict),))
        frame.add(evaluation, number, [f"{number:032x}"])
    return frame


def map_shares(drawing: Drawing) -> dict[int, float]:
    return {int(drawn.key, 16): drawn.size_share for drawn in drawing.statements}


FOUR = frame_of_samples([AGREED, AGREED, AGREED, DIVIDED])


def test_shares_and_inclusion_probabilities_by_hand() -> None:
    """Four statements of weight 1/4 and uncertainty 1/2: sizes 1/8, 1/8, 1/8 and 2/8, in total 5/8.

    Shares .2, .2, .2 and .4. Two points leave gaps of .381966 and .618034. A share s is hit with
    min(s, .381966) + min(s, .618034): .2 + .2 = .4, and .381966 + .4 = .781966.
    """
    shares = map_shares(draw_statements({METRIC: FOUR}, 4, 0, more_disagreements=True))
    assert shares == pytest.approx({0: 0.2, 1: 0.2, 2: 0.2, 3: 0.4})
    in_order = np.array([shares[number] for number in range(4)])
    chances = inclusion_probabilities(in_order, 2)
    assert chances == pytest.approx([0.4, 0.4, 0.4, 0.781966], abs=1e-6)


def test_statements_are_drawn_with_these_probabilities() -> None:
    """Of 4,000 drawings, the shares that hit each statement by the second point; 4 errors of .0077.

    Weighted by 1 / probability, the labels 1, 0, 0, 1 have the mean 1/2 that all of them have.
    """
    hits = np.zeros(4)
    estimates = []
    chances = np.array([0.4, 0.4, 0.4, 0.781966])
    labels = np.array([1.0, 0.0, 0.0, 1.0])
    for seed in range(4_000):
        drawing = draw_statements({METRIC: FOUR}, 2, seed, more_disagreements=True)
        hit = [int(drawn.key, 16) for drawn in drawing.statements if drawn.draw_index <= 2]
        hits[hit] += 1
        estimates.append(float((labels[hit] / chances[hit] / 4).sum()))
    assert hits / 4_000 == pytest.approx(chances, abs=0.031)
    assert np.mean(estimates) == pytest.approx(0.5, abs=4 * np.std(estimates) / 4_000**0.5)


@st.composite
def frames(draw: st.DrawFn) -> UnitFrame:
    probabilities = st.floats(0.001, 0.999)
    judges = draw(
        st.lists(st.sampled_from([AGREED, DIVIDED, {}]), min_size=1, max_size=12), label="judges"
    )
    p_yes = draw(st.lists(probabilities, min_size=len(judges), max_size=len(judges)))
    values: dict[str, str | None] = {}
    for number in range(len(judges)):
        values[f"s{number}"] = draw(st.sampled_from(["x", "y", None]))
    return frame_of_samples(judges, p_yes, values)


@given(frame=frames(), seed=st.integers(0, 99), count=st.integers(1, 12))
def test_a_disagreement_has_twice_the_share_in_any_drawing(
    frame: UnitFrame, seed: int, count: int
) -> None:
    """The shares add up to 1, and each drawing repeats by its name and begins each longer one."""
    every = {METRIC: frame}
    plain = map_shares(draw_statements(every, 99, seed))
    drawing = draw_statements(every, 99, seed, more_disagreements=True)
    more = map_shares(drawing)
    assert sum(more.values()) == pytest.approx(1)
    factors = {number: more[number] / plain[number] for number in plain}
    smallest = min(factors.values())
    if frame.divided.all():
        smallest /= 2
    for number, is_divided in enumerate(frame.divided):
        assert factors[number] == pytest.approx(smallest * (2 if is_divided else 1))
    start = draw_statements(every, count, seed, more_disagreements=True)
    assert start.statements == drawing.statements[:count]
    assert draw_again(drawing.name, every, count) == start


@given(frame=frames(), by=st.sampled_from([None, "column", 'a " by "b"', " with more"]))
def test_the_name_of_a_drawing_has_its_options(frame: UnitFrame, by: str | None) -> None:
    for more_disagreements in (False, True):
        drawing = draw_statements({METRIC: frame}, 5, 3, by, more_disagreements=more_disagreements)
        options = parse_options(drawing.name)
        assert options is not None
        assert (options.seed, options.metrics, options.by) == (3, [METRIC], by)
        assert options.more_disagreements == more_disagreements
        assert parse_metrics(drawing.name) == [METRIC]
        assert draw_again(drawing.name, {METRIC: frame}, 5) == drawing


def test_slices_still_have_the_same_total() -> None:
    """Ten samples of slice x, three of them divided, and ten of slice y: one half each."""
    values: dict[str, str | None] = {f"s{n}": "x" if n < 10 else "y" for n in range(20)}
    frame = frame_of_samples([DIVIDED] * 3 + [AGREED] * 17, values=values)
    shares = map_shares(draw_statements({METRIC: frame}, 20, 0, "column", more_disagreements=True))
    assert sum(shares[number] for number in range(10)) == pytest.approx(0.5)
    assert shares[0] == pytest.approx(2 * shares[5])
    assert shares[10] == pytest.approx(shares[19])


def test_a_statement_of_two_metrics_counts_as_divided_if_it_is_in_one() -> None:
    """A judge may take part in one of the metrics only."""
    one = frame_of_samples([AGREED, AGREED])
    other = frame_of_samples([DIVIDED, {}], metric="context_recall")
    both = {METRIC: one, "context_recall": other}
    shares = map_shares(draw_statements(both, 2, 0, more_disagreements=True))
    assert shares[0] == pytest.approx(2 * shares[1])


def test_the_remark_counts_disagreements() -> None:
    assert "1 of 4 statements" in disagreement_remark({METRIC: FOUR})
    agreed = frame_of_samples([AGREED, AGREED])
    assert "0 of 2 statements" in disagreement_remark({METRIC: agreed})


def test_a_single_judge_is_refused(judged_run: JudgedRun) -> None:
    run = judged_run(samples=12)
    with pytest.raises(InputError) as refused:
        Labelling(run, "ann", DrawingOptions(more_disagreements=True))
    assert "more_disagreements" in str(refused.value)
    assert "jury" in str(refused.value)


def test_disputed_statements_are_not_drawn(judged_run: JudgedRun) -> None:
    options = DrawingOptions(disputed=True, more_disagreements=True)
    with pytest.raises(InputError, match="more_disagreements exclude each other"):
        Labelling(judged_run(samples=12), "ann", options)
