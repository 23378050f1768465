"""Corrected means by hand, and properties for any judge, labels and draw."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from localjudge import DataError
from localjudge.stats.corrected import (
    JudgedUnits,
    corrected_change,
    corrected_difference,
    draw,
    drawing_sizes,
    inclusion_probabilities,
    labels_alone,
    labels_saved,
    prediction_powered,
    strata_by_score,
)
from localjudge.stats.interval import Mean
from localjudge.stats.paired import labels_needed

MIN_CLUSTERS = 10

GOLDEN = (math.sqrt(5) - 1) / 2


def make_units(
    judged: Sequence[float],
    human: Sequence[float | None],
    *,
    probabilities: Sequence[float] = (1,),
    strata: Sequence[int] = (0,),
    samples: Sequence[int] = (),
) -> JudgedUnits:
    """Return units of samples with equal weights, by default one unit per sample."""
    of = np.array(samples or range(len(judged)))
    weights = 1 / (np.bincount(of)[of] * (of.max() + 1))
    labelled = np.array([label is not None for label in human])
    return JudgedUnits(
        judged=np.array(judged, dtype=float),
        weights=weights,
        human=np.array([label or 0 for label in human], dtype=float),
        drawn=np.where(labelled, weights / np.array(probabilities), 0.0),
        strata=np.resize(np.array(strata, dtype=np.intp), len(judged)),
        clusters=of,
        certain=np.zeros(len(judged), dtype=bool),
    )


def with_labels(count: int, labels: Sequence[float], of: int) -> list[float | None]:
    return [*labels[:count], *[None] * (of - count)]


def width(of: Mean) -> float:
    assert of.ci95 is not None
    return of.ci95[1] - of.ci95[0]


def test_the_prediction_powered_mean_by_hand() -> None:
    """Judged 1 1 0 0 1 1 0 0 (p = .5); the first four have labels 1 0 0 0, each with weight 1/4.

    lambda = sum (H - .25)(L - .5) / sum (L - .5)^2 = (.375 - .125 + .125 + .125) / 1 = .5
    theta  = .5 * .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25
    """
    units = make_units([1, 1, 0, 0, 1, 1, 0, 0], with_labels(4, [1, 0, 0, 0], 8))
    powered = prediction_powered(units)
    assert [powered.ppi_lambda, powered.mean] == pytest.approx([0.5, 0.25])
    assert powered.ci95 is None
    assert labels_alone(units).mean == pytest.approx(0.25)


def test_an_interval_by_hand() -> None:
    """Ten samples of one unit, all judged 1 and labelled, eight of them 1: lambda 1, L constant.

    q         = H - L: 0 eight times, -1 twice; its mean is -.2; theta = 1 - .2 = .8, each v is .1
    own       = .1 (1 - .2) - .8 * .1 = 0
    cluster   = sqrt(10/9) .1 (q + .2): .021082 eight times, -.084327 twice;
                squares 8 * .00044444 + 2 * .0071111 = .0177778; times 10/9 = .0197531
    unseen    = .01 / 2; the variance is .0247531, its root .157331
    t         = 2.262157 (9 degrees of freedom): half width .355908,
                on the logit / (.8 * .2) = 2.224423
    limits    = 1 / (1 + exp(-(1.386294 -+ 2.224423))) = .301929, .973679
    """
    powered = prediction_powered(make_units([1] * 10, [1] * 8 + [0] * 2))
    assert powered.ci95 == pytest.approx((0.301929, 0.973679), abs=2e-6)
    assert (powered.ppi_lambda, powered.clusters) == (1, 10)
    assert prediction_powered(make_units([1] * 9, [1] * 7 + [0] * 2)).ci95 is None


@pytest.mark.parametrize(
    ("judged", "human", "how", "mean"),
    [
        # Sample 0 has one unit, sample 1 four: weights 1/2 and 1/8. All are judged 1 and labelled.
        # One is 0: if it is of sample 0 the mean is 0 + 1/2, if it is of sample 1, 1/2 + 3/8.
        ([1] * 5, [0, 1, 1, 1, 1], {"samples": [0, 1, 1, 1, 1]}, 0.5),
        ([1] * 5, [1, 0, 1, 1, 1], {"samples": [0, 1, 1, 1, 1]}, 0.875),
        # No slope, lambda 1. Labels 1 and 0, drawn with 1/4 and 3/4, have weights 4 and 4/3 of
        # 16/3: 1 + 1/4 (0 - 1).
        ([1] * 4, [1, 0, None, None], {"probabilities": [0.25, 0.75, 1, 1]}, 0.75),
        # Stratum 0: 5 of 20 units, all labelled 0; stratum 1: 15, five labelled 1.
        # 5/20 * 0 + 15/20 * 1.
        ([1] * 20, [0] * 5 + [1] * 5 + [None] * 10, {"strata": [0] * 5 + [1] * 15}, 0.75),
        # Four labels in either stratum are too few: together eight, of which half are 1.
        (
            [1] * 40,
            [0] * 4 + [None] * 6 + [1] * 4 + [None] * 26,
            {"strata": [0] * 10 + [1] * 30},
            0.5,
        ),
        # Labels of two people who disagree are .5, and stand as that.
        ([1, 0, 1, 0], [0.5, 0.5, 1, 0], {}, 0.5),
    ],
    ids=[
        "an error in sample 0",
        "in sample 1",
        "rarely drawn",
        "strata are weighed",
        "with its neighbour",
        "halves",
    ],
)
def test_label_weights_by_hand(
    judged: list[float], human: list[Any], how: Any, mean: float
) -> None:
    assert prediction_powered(make_units(judged, human, **how)).mean == pytest.approx(mean)


@given(st.randoms(use_true_random=False), st.integers(2, 60))
def test_correction_properties_for_any_judge_and_labels(random: Random, size: int) -> None:
    """Labels equal to the judge keep its mean; labels of all units give the human mean."""
    judged, human, labelled = (
        [float(random.random() < 0.5) for _ in range(size)] for _ in range(3)
    )
    labelled[random.randrange(size)] = 1
    _, samples = np.unique(sorted(random.choices(range(13), k=size)), return_inverse=True)
    how: dict[str, Any] = {"samples": samples.tolist(), "strata": random.choices(range(4), k=size)}
    seen = [
        [label if known else None for label, known in zip(of, labelled, strict=True)]
        for of in (judged, human)
    ]
    agreeing, units = (make_units(judged, labels, probabilities=[0.5], **how) for labels in seen)
    assert prediction_powered(agreeing).mean == pytest.approx(
        float((units.weights * judged).sum()), abs=1e-12
    )
    assert prediction_powered(agreeing).ppi_lambda == pytest.approx(1)
    everything = make_units(judged, human, **how)
    for of_people in (prediction_powered(everything), labels_alone(everything)):
        assert of_people.mean == pytest.approx(float((units.weights * human).sum()), abs=1e-12)
    corrected = prediction_powered(units)
    alone = labels_alone(units)
    assert (corrected.ci95 is None) == (corrected.clusters < MIN_CLUSTERS) == (alone.ci95 is None)
    low, high = corrected.ci95 or (0, 1)
    assert 0 <= low <= corrected.mean + 1e-9
    assert corrected.mean - 1e-9 <= high <= 1
    assert (labels_saved(corrected, alone, size) is None) == (corrected.ci95 is None)
    order = random.sample(range(size), size)
    columns: list[Any] = [column[order] for column in units]
    turned = prediction_powered(JudgedUnits(*columns))
    assert [turned.mean, *(turned.ci95 or ())] == pytest.approx(
        [corrected.mean, *(corrected.ci95 or ())], abs=1e-9
    )
    same = corrected_difference(units, units, unshared=0.0)
    assert same.mean == 0
    assert same.ci95 in (None, (0, 0))


def test_an_error_free_pilot_still_has_an_interval_width() -> None:
    """Fifty agreeing labels do not prove a perfect judge: the interval is wider by 1/50."""
    human: list[int | None] = [1] * 30 + [None] * 270 + [0] * 20 + [None] * 80
    assert width(prediction_powered(make_units([1] * 300 + [0] * 100, human))) > 2 * 1.96 / 50
    # Ten labels of one sample are one draw.
    units = make_units([1] * 20, [1] * 10 + [None] * 10, samples=[0] * 10 + list(range(1, 11)))
    assert prediction_powered(units).ci95 is None


@given(st.integers(12, 70), st.integers(10, 40), st.sampled_from([0.0, 1.0]))
def test_labels_that_all_agree_give_exactly_0_or_1(size: int, labels: int, answer: float) -> None:
    """50 weights of 1/120, scaled to their strata, once had the sum .9999999999999999."""
    human = with_labels(min(labels, size), [answer] * size, of=size)
    strata = [place % 3 for place in range(size)]
    units = make_units([answer] * size, human, strata=strata)
    for estimate in (prediction_powered(units), labels_alone(units)):
        assert estimate.mean == answer
        assert estimate.ci95 is not None
        assert estimate.ci95[int(answer)] == answer
    assert corrected_difference(units, units).mean == 0


def test_units_without_a_judge_are_neither_corrected_nor_labelled() -> None:
    """Ten units without text are certainly 0; of ten judged 1, four are labelled, one of them 0.

    theta = 10/20 * 0 + 10/20 * 3/4 = .375, with four labels. Labels without the judge give the
    same, as L is always 1.
    """
    human: list[int | None] = [0] * 10 + [1, 1, 1, 0] + [None] * 6
    units = make_units([0] * 10 + [1] * 10, human, strata=[0] * 10 + [1] * 10)._replace(
        certain=np.arange(20) < 10
    )
    powered = prediction_powered(units)
    assert [powered.mean, labels_alone(units).mean] == pytest.approx([0.375] * 2)
    assert (powered.ci95, powered.clusters) == (None, 4)


def test_a_correction_without_any_label_is_refused() -> None:
    for of in (prediction_powered, labels_alone):
        with pytest.raises(DataError, match="no unit"):
            of(make_units([1, 0], [None, None]))


def test_labels_saved_by_hand() -> None:
    """50 labels and (.2 / .1)^2 = 4 times the width need 150 more. A constant judge saves none.

    A perfect judge saves hundreds, with 50 of 1,000 statements labelled.
    """
    halved, wide = (Mean(0.5, limits, "", 50, 50) for limits in ((0.45, 0.55), (0.4, 0.6)))
    assert labels_saved(halved, wide, 50) == 150
    assert labels_saved(wide, halved, 50) == 0
    assert labels_saved(halved._replace(ci95=None), wide, 50) is None
    truth = [float(random < 0.6) for random in np.random.default_rng(1).random(1_000)]
    worth = []
    for judged in ([1.0] * 1_000, truth):
        units = make_units(
            judged, with_labels(50, truth, 1_000), strata=[int(label) for label in judged]
        )
        worth.append(labels_saved(prediction_powered(units), labels_alone(units), 50))
    assert worth[0] == 0
    assert (worth[1] or 0) > 200


def test_a_difference_by_hand() -> None:
    """Twelve labelled samples of one unit; the old judge says always 1, the new one thrice 0.

    The statements and labels are the same, 9/12 in both runs, so the labels cancel and no judge
    error remains. New statements that are better by three labels give a difference of 3/12.
    """
    truth = [1.0] * 9 + [0.0] * 3
    old = make_units([1] * 12, truth)
    new = make_units(truth, truth)
    assert corrected_difference(old, new).mean == pytest.approx(0)
    better = corrected_difference(new, make_units([1] * 12, [1] * 12))
    assert better.mean == pytest.approx(0.25)
    assert better.ci95 is not None
    assert better.ci95[0] < 0.25 < better.ci95[1] <= 1
    assert corrected_difference(old, make_units([1] * 9, [1] * 9)).ci95 is None
    # With other numbers of clusters, those that are only in one of them add to it alone.
    assert corrected_difference(old, make_units([1] * 20, [1] * 20)).mean == pytest.approx(0.25)


def test_a_difference_without_errors_among_the_labels_by_hand() -> None:
    """Fifty of 60 samples are labelled in each run, all 1: v = 1/50, and no contribution.

    Unseen units count as sqrt(2 / 50^2) = .0283; t for 49 degrees of freedom is 2.0096. If a
    hundredth of the statements differs, the difference is at most that.
    """
    units = make_units([1] * 60, with_labels(50, [1.0] * 60, 60))
    change = corrected_difference(units, units)
    assert change.mean == 0
    assert change.ci95 == pytest.approx((-0.05684, 0.05684), abs=1e-5)
    alike = corrected_difference(units, units, unshared=0.01)
    assert alike.ci95 == pytest.approx((-0.01, 0.01))


def test_a_change_drawn_from_both_runs_by_hand() -> None:
    """Two pairs. A: 1 of 2 and 1 of 1 statements right; B: the second of the first pair is another
    one and right, the second pair has one more, which is wrong.

    Weights in B - A: the replaced statement 1/4 (H 0, sign -1), the new one 1/4 (H 1), the one that
    both have 1/2 - 1/4 = 1/4 (H 1, sign -1), the wrong one 1/4 (H 0): 0 + 1/4 - 1/4 + 0 = 0.
    """
    units = make_units([1, 1, 1, 1], [0, 1, 1, 0])
    units = units._replace(weights=np.full(4, 0.25), clusters=np.array([0, 0, 1, 1]))
    signs = np.array([-1.0, 1.0, -1.0, 1.0])
    change = corrected_change(units, signs, np.array([0.25, 0.25, 0.25, 0.25]))
    assert change.mean == pytest.approx(0)
    assert change.ci95 is None  # labels of two clusters
    # Three more pairs with the same answers in both runs make the same weights smaller.
    smaller = units._replace(weights=units.weights / 4, drawn=units.drawn / 4)
    better = smaller._replace(human=np.array([0.0, 1.0, 1.0, 1.0]))
    assert corrected_change(better, signs, np.zeros(4)).mean == pytest.approx(1 / 16)


@given(st.randoms(use_true_random=False), st.integers(10, 60))
def test_properties_of_a_change_for_any_judge_and_labels(random: Random, size: int) -> None:
    """Exchanging the runs mirrors the interval; with all signs 1 it is the corrected mean."""
    judged, human = ([float(random.random() < 0.5) for _ in range(size)] for _ in range(2))
    labels = [label if random.random() < 0.8 else None for label in human]
    labels[0] = human[0]
    units = make_units(judged, labels, probabilities=[0.5])
    signs = np.array([random.choice([-1.0, 1.0]) for _ in range(size)])
    change = corrected_change(units, signs, units.weights)
    mirrored = corrected_change(units, -signs, units.weights)
    assert mirrored.mean == pytest.approx(-change.mean, abs=1e-12)
    if change.ci95 and mirrored.ci95:
        low, high = change.ci95
        assert mirrored.ci95 == pytest.approx((-high, -low), abs=1e-12)
        assert -1 <= low <= high <= 1
    same = corrected_change(units, np.ones(size), units.weights)
    assert min(1, max(0, same.mean)) == pytest.approx(prediction_powered(units).mean)
    everything = make_units(judged, human)
    truth = float((everything.weights * signs * human).sum())
    assert corrected_change(everything, signs, units.weights).mean == pytest.approx(truth)


@pytest.mark.parametrize("turns", [1, 2, 3, 7, 12, 33, 60])
def test_inclusion_frequencies_match_the_stated_probabilities(turns: int) -> None:
    shares = np.array([0.6, 0.2, 0.1, 0.05, 0.03, 0.015, 0.005])
    starts = np.random.default_rng(turns).random(20_000)
    hit = np.searchsorted(
        np.cumsum(shares), (starts[:, None] + GOLDEN * np.arange(turns)) % 1, side="right"
    )
    counted = np.array([(hit == unit).any(axis=1).mean() for unit in range(len(shares))])
    stated = inclusion_probabilities(shares, turns)
    assert np.abs(counted - stated).tolist() == pytest.approx(
        [0] * 7, abs=1e-9 + 4.5 * 0.5 / math.sqrt(20_000)
    )
    assert (np.abs(counted - stated) <= 1e-9 + 4.5 * np.sqrt(stated * (1 - stated) / 20_000)).all()


def test_inclusion_probabilities_by_hand() -> None:
    """One point hits .2 with .2. Two have gaps of .382 and .618: .2 twice, or .382 and .5, or 1."""
    assert inclusion_probabilities(np.array([0.2, 0.6]), 1) == pytest.approx([0.2, 0.6])
    assert inclusion_probabilities(np.array([0.2, 0.5, 0.7]), 2) == pytest.approx(
        [0.4, 0.881966, 1], abs=1e-6
    )


sizes_and_strata = st.lists(
    st.tuples(st.floats(0.001, 1), st.integers(0, 3)), min_size=1, max_size=60
)


@given(sizes_and_strata, st.integers(1, 80), st.integers(0, 5))
def test_draws_are_nested_and_without_repeats(
    rows: list[tuple[float, int]], count: int, seed: int
) -> None:
    sizes = np.array([size for size, _ in rows])
    strata = np.unique([number for _, number in rows], return_inverse=True)[1]
    taken, turns = draw(sizes, strata, count, seed)
    all_taken, all_turns = draw(sizes, strata, len(rows), seed)
    assert sorted(all_taken.tolist()) == list(range(len(rows)))
    assert taken.tolist() == all_taken[: min(count, len(rows))].tolist()
    assert turns.tolist() == all_turns[: min(count, len(rows))].tolist()
    assert (np.diff(all_turns, prepend=0) > 0).all()


def test_draw_frequencies_match_inclusion_probabilities() -> None:
    sizes = np.array([1.0, 2, 3, 10, 1, 1, 2, 2, 5, 5, 1, 1])
    strata = np.repeat([0, 1], [4, 8])
    times = np.zeros(12)
    for seed in range(2_000):
        taken, turns = draw(sizes, strata, 12, seed)
        times[taken[turns <= 6]] += 1
    stated = inclusion_probabilities(sizes / sizes.sum(), 6)
    assert times / 2_000 == pytest.approx(stated, abs=4 * 0.5 / math.sqrt(2_000))


def test_a_seed_determines_the_draw() -> None:
    sizes = np.ones(100)
    strata = np.repeat(np.arange(5), 20)
    some, same, other = (draw(sizes, strata, 20, seed)[0].tolist() for seed in (1, 1, 2))
    assert some == same
    assert some != other
    # The first half alone is a systematic sample of all strata.
    assert np.bincount(np.array(some[:10]) // 20).tolist() == pytest.approx([2] * 5, abs=1)


def test_strata_have_equal_sizes_and_keep_equal_scores_together() -> None:
    assert strata_by_score(np.linspace(0, 1, 10)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert strata_by_score(np.array([0.9, 0.9, 0.9, 0.1])).tolist() == [1, 1, 1, 0]
    assert strata_by_score(np.array([0.5, 0.5])).tolist() == [0, 0]


def test_certain_verdicts_are_shrunk_towards_one_half() -> None:
    """A tenth of the way to 1/2: p of 1 counts as .95, so sqrt(.95 .05) = .218."""
    sizes = drawing_sizes(np.array([1.0, 1.0, 2.0]), np.array([0.0, 0.5, 1.0]))
    assert sizes == pytest.approx([0.217945, 0.5, 2 * 0.217945], abs=1e-6)


class JudgedPool(NamedTuple):
    """Statements with a judge's probability and the human label, each of shape (2000,)."""

    p_yes: NDArray[np.float64]
    human: NDArray[np.float64]


def judged_pool(sensitivity: float, specificity: float, seed: int) -> JudgedPool:
    """Simulate a judge that is somewhat surer where it is right: half of the labels are 1."""
    generator = np.random.default_rng(seed)
    human = np.tile([0.0, 1.0], 1_000)
    is_right = generator.random(2_000) < np.where(human == 1, sensitivity, specificity)
    confidence = np.where(is_right, generator.beta(3, 1.5, 2_000), generator.beta(1.5, 2, 2_000))
    says_yes = (human == 1) == is_right
    return JudgedPool(np.where(says_yes, 0.5 + confidence / 2, 0.5 - confidence / 2), human)


_LENIENT = judged_pool(0.95, 0.6, seed=0)
_STRICT = judged_pool(0.6, 0.95, seed=1)


def judged_units(
    generator: np.random.Generator,
    human: NDArray[np.float64],
    sample: NDArray[np.intp],
    lenient: bool,
    labels: int,
    drawn: NDArray[np.float64] | None,
) -> tuple[JudgedUnits, NDArray[np.float64]]:
    pool = _LENIENT if lenient else _STRICT
    sizes = np.bincount(sample)
    ones = np.flatnonzero(pool.human == 1)
    zeros = np.flatnonzero(pool.human == 0)
    chosen = np.where(
        human == 1, generator.choice(ones, len(human)), generator.choice(zeros, len(human))
    )
    p_yes = pool.p_yes[chosen]
    weights = 1 / (sizes[sample] * len(sizes))
    if drawn is None:
        shares = drawing_sizes(weights, p_yes)
        seed = int(generator.integers(2**31))
        taken, turns = draw(shares, strata_by_score(p_yes, 10), labels, seed)
        drawn = np.zeros(len(human))
        drawn[taken] = 1 / inclusion_probabilities(shares[taken] / shares.sum(), int(turns.max()))
    certain = np.zeros(len(human), dtype=np.bool_)
    labelled = (p_yes >= 0.5).astype(np.float64), weights, human, weights * drawn
    return JudgedUnits(*labelled, strata_by_score(p_yes), sample, certain), drawn


@pytest.mark.parametrize(
    ("samples", "labels", "after", "same"),
    [(100, 40, 0.8, False), (40, 20, 0.7, False), (60, 30, 0.7, True)],
)
def test_the_corrected_difference_covers_the_truth(
    samples: int, labels: int, after: float, same: bool
) -> None:
    """A lenient and a strict judge: verdicts differ by more than .2, the truth does not.

    70 % of the statements are 1 before. Both runs have equally hard samples; the `same` statements
    share one label.
    """
    generator = np.random.Generator(np.random.PCG64(samples))
    held = 0
    missed_by_judges = 0
    for _ in range(150):
        sample = np.repeat(np.arange(samples), generator.integers(1, 5, samples))
        hard = generator.normal(0, 0.15, samples)[sample]
        old = (generator.random(len(sample)) < 0.7 + hard).astype(np.float64)
        new = old if same else (generator.random(len(sample)) < after + hard).astype(np.float64)
        with_labels, drawn = judged_units(generator, old, sample, True, labels, None)
        second, _ = judged_units(generator, new, sample, False, labels, drawn if same else None)
        difference = corrected_difference(with_labels, second)
        assert difference.ci95 is not None
        truth = (
            0.0 if same else np.clip(after + hard, 0, 1).mean() - np.clip(0.7 + hard, 0, 1).mean()
        )
        low, high = difference.ci95
        held += low <= truth <= high
        judges = float(
            (second.weights * second.judged).sum()
            - (with_labels.weights * with_labels.judged).sum()
        )
        missed_by_judges += not low <= judges <= high
    assert 0.9 <= held / 150 <= 1
    assert missed_by_judges > 150 / 2


def interval(mean: float, low: float, high: float) -> Mean:
    return Mean(mean, (low, high), "bootstrap", 100, 100)


def test_labels_needed_excludes_sampling_error() -> None:
    """50 labels, half-widths .1 and .04: a / c = .1 / 2.118 = .0472, s / 1.96 = .0204.

    50 (.0472^2 - .0204^2) = .0905.

    For a threshold .09 away, c'^2 (.0204^2 + .0905 / n') is .0087 at 100 labels (c' = 2.570) and
    .0076 at 150 (2.722), which is below .09^2 = .0081.
    """
    corrected = interval(0.6, 0.5, 0.8)
    judge = interval(0.7, 0.66, 0.9)
    assert labels_needed(corrected, judge, 0.51, 50, 1_000) == 150
    assert labels_needed(corrected, judge, 0.56, 50, 1_000) is None  # .04 away, no farther than s


def test_labels_needed_uses_the_arm_towards_the_threshold() -> None:
    """Upper widths .2 and .05: at 100 labels 2.570 sqrt(.0255^2 + .4133 / 100) = .178 < .19."""
    assert labels_needed(interval(0.6, 0.5, 0.8), interval(0.7, 0.2, 0.75), 0.79, 50, 1_000) == 100


def test_labels_needed_is_at_most_the_number_of_statements() -> None:
    """Of 1,000 statements, 500 labels suffice.

    Of 107, all do: only sampling error remains, .03 2.407 / 1.96 = .037.
    """
    corrected = interval(0.6, 0.52, 0.68)
    judge = interval(0.6, 0.57, 0.63)
    assert labels_needed(corrected, judge, 0.54, 50, 1_000) == 500
    assert labels_needed(corrected, judge, 0.54, 50, 107) == 107
    assert labels_needed(corrected, judge, 0.54, 107, 107) is None
