"""Correlations with people's ratings, with 95 % intervals, and t of two systems.

The bootstrap draws questions: all ratings of a question are drawn together. Source: B. Efron and
R. Tibshirani (1993), An Introduction to the Bootstrap, chapters 8 and 13.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from localjudge.stats.interval import Floats

from .ratings import Rating

REPLICATES = 2000
_SEED = 0
_TAILS = (0.025, 0.975)


class Estimate(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


def ranks(values: Floats, weights: Floats) -> Floats:
    """Return ranks from 1 as if a value stood there as often as its weight says (n,).

    Equal values share the mean of their ranks: 5 5 7 has the ranks 1.5 1.5 3.
    """
    distinct, place = np.unique(values, return_inverse=True)
    total = np.bincount(place, weights, minlength=len(distinct))
    below = np.cumsum(total) - total
    return np.asarray((below + (total + 1) / 2)[place], dtype=np.float64)


def linear_correlation(first: Floats, second: Floats, weights: Floats) -> float:
    """Return Pearson's correlation with weights (n,); NaN if one side has only one value."""
    first = first - np.average(first, weights=weights)
    second = second - np.average(second, weights=weights)
    product = float((weights * first * second).sum())
    squares = float((weights * first**2).sum()) * float((weights * second**2).sum())
    if not squares:
        return float("nan")
    return float(product / np.sqrt(squares))


def rank_correlation(first: Floats, second: Floats, weights: Floats) -> float:
    """Return Spearman's correlation with weights (n,): the linear one of the ranks."""
    return linear_correlation(ranks(first, weights), ranks(second, weights), weights)


class Correlations(NamedTuple):
    """Correlations of scores with ratings, and the number of ratings with a score.

    The gains are those over a baseline, with the same drawings for both.
    """

    rank: Estimate
    linear: Estimate
    rank_gain: Estimate
    linear_gain: Estimate
    ratings: int


def correlate(ratings: Sequence[Rating], scores: Floats, baseline: Floats) -> Correlations:
    """Compare ratings with scores and with a baseline, which belong to them (n,).

    Ratings with a NaN in one of them are left out.
    """
    present = ~(np.isnan(scores) | np.isnan(baseline))
    people = np.array([rating.value for rating in ratings])[present]
    names = np.array([rating.question for rating in ratings])[present]
    questions = np.unique(names, return_inverse=True)[1]
    count = int(questions.max()) + 1
    draws = np.random.default_rng(_SEED).multinomial(
        count, np.full(count, 1 / count), size=REPLICATES
    )
    once = np.ones(len(people))
    weights = [once, *(times[questions].astype(np.float64) for times in draws)]
    found: list[Estimate] = []
    gains: list[Estimate] = []
    for correlation in (rank_correlation, linear_correlation):
        values = np.array([correlation(people, scores[present], each) for each in weights])
        others = np.array([correlation(people, baseline[present], each) for each in weights])
        found.append(_estimate(values))
        gains.append(_estimate(values - others))
    return Correlations(found[0], found[1], gains[0], gains[1], len(people))


def _estimate(values: Floats) -> Estimate:
    """Return the first value with the interval of the others."""
    low, high = np.quantile(values[1:], _TAILS)
    return Estimate(float(values[0]), float(low), float(high))


def paired_t(
    ratings: Sequence[Rating],
    scores: Floats,
    systems: Mapping[str, str],
) -> dict[tuple[str, str], float]:
    """Return t of the mean difference of each two systems over the questions that both answered.

    `scores` (n,) belong to the ratings. A difference is the first system minus the second.
    """
    differences: dict[tuple[str, str], list[float]] = defaultdict(list)
    for by_system in _scores_by_question(ratings, scores, systems):
        for pair, difference in by_system.items():
            differences[pair].append(difference)
    values: dict[tuple[str, str], float] = {}
    for pair, of_pair in sorted(differences.items()):
        spread = float(np.std(of_pair, ddof=1))
        values[pair] = float("nan")
        if spread:
            values[pair] = float(np.mean(of_pair)) / spread * len(of_pair) ** 0.5
    return values


def _scores_by_question(
    ratings: Sequence[Rating], scores: Floats, systems: Mapping[str, str]
) -> list[dict[tuple[str, str], float]]:
    """Return the differences of systems on each question, the pairs in alphabetical order."""
    of_questions: dict[str, list[tuple[Rating, float]]] = defaultdict(list)
    for rating, score in zip(ratings, scores.tolist(), strict=True):
        of_questions[rating.question].append((rating, score))
    found: list[dict[tuple[str, str], float]] = []
    for rated in of_questions.values():
        differences: dict[tuple[str, str], list[float]] = defaultdict(list)
        for rating, score in rated:
            name = systems[rating.answer]
            if rating.compared_with is not None:
                _add(differences, (name, systems[rating.compared_with]), score)
                continue
            for other, other_score in rated:
                if name < systems[other.answer]:
                    _add(differences, (name, systems[other.answer]), score - other_score)
        means = {pair: float(np.mean(each)) for pair, each in differences.items()}
        found.append({pair: mean for pair, mean in means.items() if not np.isnan(mean)})
    return found


def _add(
    differences: dict[tuple[str, str], list[float]], pair: tuple[str, str], value: float
) -> None:
    """Add a difference to its pair, turned so that the names are in alphabetical order."""
    if pair[0] > pair[1]:
        pair = (pair[1], pair[0])
        value = -value
    differences[pair].append(value)
