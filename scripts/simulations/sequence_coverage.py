"""Measure a confidence sequence: how often it misses the truth, and how soon it decides a gate.

    left out    share of repeats with the true mean outside after any number of draws up to a limit
    decided     draws until the threshold of a gate is outside, next to the sample size at which a
                fixed interval excludes it in 80 % of cases

The interval excludes m as soon as `up(m)` or `down(m)` of `localjudge.stats.repeated_looks` reaches
its target. These products grow draw by draw, here for all repeats at once. Tests compare them with
the intervals themselves.
"""

import json
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from corrected_coverage import UNITS_OF_A_SAMPLE
from interval_coverage import Drawn, any_number, nearly_always_one, yes_or_no
from paired_coverage import SHAPES, Shape, independent, moves, statements

from localjudge.stats.interval import Counts, Floats, clopper_pearson, mean_interval
from localjudge.stats.paired import decide, paired_difference, samples_to_decide
from localjudge.stats.repeated_looks import FRACTIONS, LOG_TARGET, SHARES, sequence_interval

SAMPLES_OF_A_RUN = 300
PILOT = 20
_POWER = 0.8
_NORMAL_SIZE = 7.85  # (z of 97.5 % + z of 80 %)^2
_FIXED_REPEATS = 400
_RESAMPLES = 300
_LARGEST_GROUP = 8
_CONCENTRATION = 2.0

exact = cache(clopper_pearson)


class Population(NamedTuple):
    """A function for draws with their mean, largest group and lowest value."""

    draw: Callable[[np.random.Generator, int], Drawn]
    mean: float
    largest: int = 1
    lowest: float = 0.0


class Decided(NamedTuple):
    """Draws until decided: mean, median, and the median ratio of the estimate after the pilot."""

    mean: float
    median: float
    planned: float


def _beta_binomial(generator: np.random.Generator, counts: Counts, mean: float) -> Floats:
    ease = generator.beta(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION, len(counts))
    return generator.binomial(counts, ease) / counts


def sentences(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Shares of 1 to 6 sentences, as in ClapNQ's reference answers; some samples are harder."""
    counts = generator.choice(np.arange(1, len(UNITS_OF_A_SAMPLE) + 1), size, p=UNITS_OF_A_SAMPLE)
    return Drawn(_beta_binomial(generator, counts, mean))


def contexts(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Shares of 10 contexts, as in HotpotQA."""
    return Drawn(_beta_binomial(generator, np.full(size, 10), mean))


def _harder_groups(generator: np.random.Generator, size: int, few: float, many: float) -> Drawn:
    """Groups of 1 to 8 samples that score 0 or 1, at a rate from `few` (one) to `many` (eight)."""
    sizes = generator.integers(1, _LARGEST_GROUP + 1, size)
    rates = np.interp(sizes, [1, _LARGEST_GROUP], [few, many]) * _CONCENTRATION
    group = np.repeat(np.arange(size), sizes)
    rates_of_groups = generator.beta(rates, _CONCENTRATION - rates)
    return Drawn((generator.random(len(group)) < rates_of_groups[group]).astype(np.float64), group)


def groups(few: float, many: float) -> Population:
    """Population of `_harder_groups`. Its mean is over all samples, so large groups count more."""
    sizes = np.arange(1, _LARGEST_GROUP + 1)
    mean = float(sizes @ np.interp(sizes, [1, _LARGEST_GROUP], [few, many]) / sizes.sum())
    return Population(partial(_harder_groups, few=few, many=many), mean, _LARGEST_GROUP)


def at(draw: Callable[[np.random.Generator, int, float], Drawn], mean: float) -> Population:
    """A population of single values with this mean."""
    return Population(lambda generator, size: draw(generator, size, mean), mean)


def _differing(shape: Shape) -> Population:
    return Population(shape.draw, shape.mean, lowest=-1.0)


POPULATIONS = {
    "0/1, mean 0.05": at(yes_or_no, 0.05),
    "0/1, mean 0.5": at(yes_or_no, 0.5),
    "0/1, mean 0.95": at(yes_or_no, 0.95),
    "shares of 1 to 6 sentences (ClapNQ), mean 0.8": at(sentences, 0.8),
    "shares of 10 contexts (HotpotQA), mean 0.5": at(contexts, 0.5),
    "skewed: any number, mean 0.1": at(any_number, 0.1),
    "skewed: 90 % are 1, mean 0.99": at(nearly_always_one, 0.99),
    "groups of 1 to 8, larger ones score less": groups(0.95, 0.5),
    "groups of 1 to 8, larger ones score more": groups(0.2, 0.6),
    **{
        f"differences: {name}": _differing(SHAPES[name])
        for name in ("3 % down by 1", "1 % up, 1 % down by 0.5")
    },
    "differences: independent shares, .8 and .8": _differing(
        SHAPES["independent shares, .8 and .8"]
    ),
}
GATES: tuple[tuple[str, float, Callable[[float], Population]], ...] = (
    ("0/1", 0.8, partial(at, yes_or_no)),
    ("0/1", 0.5, partial(at, yes_or_no)),
    ("shares of 1 to 6 sentences", 0.75, partial(at, sentences)),
    ("shares of 10 contexts", 0.5, partial(at, contexts)),
    ("differences of shares", 0.0, lambda mean: _differing(independent(0.7, 0.7 + mean))),
    ("differences of statements", 0.0, lambda mean: _differing(statements(0.1 + 2 * mean, 0.1))),
    ("differences, 3 % down by 1", 0.0, lambda mean: _differing(moves({1: 0.03 + mean, -1: 0.03}))),
)


def first_exits(
    population: Population,
    value: float,
    *,
    repeats: int,
    limit: int,
    seed: int,
    block: int = PILOT,
) -> tuple[Counts, Floats]:
    """Return the draws after which the interval excludes `value`, and the first block's values.

    The draws (repeats,) are `limit` + 1 where it never does. It draws in blocks, only for open
    repeats. The values are empty for groups.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    exits = np.full(repeats, limit + 1)
    still = np.arange(repeats)
    values = np.empty((repeats, 0))
    logs = np.tile(
        np.log(SHARES)[:, None, None], (2, 1, repeats, 1)
    )  # up and down, fractions, repeats, last draw
    target = LOG_TARGET
    shift = population.lowest
    scale = 1.0 - population.lowest
    for start in range(0, limit, block):
        shape = len(still), min(block, limit - start)
        drawn = population.draw(generator, shape[0] * shape[1])
        sums, sizes = (
            column.reshape(shape) / population.largest for column in _draws(drawn, shift, scale)
        )
        if not start and drawn.clusters is None:
            values = drawn.values.reshape(shape)
        mean = (value - shift) / scale
        stakes = FRACTIONS[:, None, None]
        sides = sums / mean - sizes, (sizes - sums) / (1.0 - mean) - sizes
        logs = logs + np.cumsum(np.log1p(np.stack([stakes * side for side in sides])), axis=-1)
        left_out = (np.logaddexp.reduce(logs, axis=1) >= target).any(axis=0)
        out = left_out.any(axis=1)
        exits[still[out]] = start + 1 + left_out[out].argmax(axis=1)
        still = still[~out]
        logs = logs[:, :, ~out, -1:]
        if not len(still):
            break
    return exits, values


def _draws(drawn: Drawn, shift: float, scale: float) -> tuple[Floats, Floats]:
    values = (drawn.values - shift) / scale
    if drawn.clusters is None:
        return values, np.ones(len(values))
    sums = np.bincount(drawn.clusters, values)
    sizes = np.bincount(drawn.clusters)
    return sums.astype(np.float64), sizes.astype(np.float64)


def decided(population: Population, gate: float, *, repeats: int, limit: int, seed: int) -> Decided:
    """Measure the number of draws until the gate is decided."""
    exits, pilots = first_exits(population, gate, repeats=repeats, limit=limit, seed=seed)
    ratios = [np.nan]
    for size, pilot in zip(exits, pilots, strict=True):
        if size > PILOT:
            interval = sequence_interval(pilot, lowest=population.lowest)
            needed = None
            if decide(interval, ">=", gate) == "undecided":
                needed = samples_to_decide(interval, gate)
            ratio = np.inf
            if needed is not None:
                ratio = needed / size
            ratios.append(ratio)
    return Decided(
        float(exits.mean()), float(np.median(exits)), float(np.median(ratios[1:] or ratios))
    )


def fixed_size(population: Population, gate: float, *, seed: int) -> int:
    """Return the smallest fixed sample size that excludes the gate in 80 % of cases."""

    def power(size: int) -> float:
        generator = np.random.Generator(np.random.PCG64([seed, size]))
        draws = (population.draw(generator, size).values for _ in range(_FIXED_REPEATS))
        limits = [_fixed(values, population.lowest) for values in draws]
        return float(np.mean([low > gate or high < gate for low, high in limits]))

    variance = population.draw(np.random.Generator(np.random.PCG64(seed)), 100_000).values.var()
    normal = _NORMAL_SIZE * variance / (population.mean - gate) ** 2
    return bisect_left(
        range(round(3 * normal) + 50), _POWER, lo=max(2, round(normal / 2)), key=power
    )


def _fixed(values: Floats, lowest: float) -> tuple[float, float]:
    if lowest:
        interval = paired_difference(np.maximum(-values, 0), np.maximum(values, 0))
    elif np.isin(values, (0, 1)).all():
        return exact(int(values.sum()), len(values))
    else:
        interval = mean_interval(values, resamples=_RESAMPLES)
    return interval.low, interval.high


def read_scores(run: Path) -> dict[str, Floats]:
    """Return the scores of each metric of a run."""
    with (run / "scores.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["score"] is not None]
    metrics = dict.fromkeys(row["metric"] for row in rows)
    return {
        metric: np.array([row["score"] for row in rows if row["metric"] == metric])
        for metric in metrics
    }


def share_asked(scores: Floats, gate: float, *, repeats: int, seed: int) -> float | None:
    """Return the median share of 300 samples that a gate needs, None for a gate outside (0, 1).

    Samples come in random order, with replacement if a run has fewer.
    """

    def draw(generator: np.random.Generator, size: int) -> Drawn:
        if len(scores) < SAMPLES_OF_A_RUN:
            return Drawn(generator.choice(scores, size))
        orders = generator.permuted(np.tile(scores, (size // SAMPLES_OF_A_RUN, 1)), axis=1)
        return Drawn(orders[:, :SAMPLES_OF_A_RUN].ravel())

    if not 0 < gate < 1:
        return None
    limit = SAMPLES_OF_A_RUN
    population = Population(draw, float(scores.mean()))
    exits, _ = first_exits(population, gate, repeats=repeats, limit=limit, seed=seed, block=limit)
    return min(1.0, float(np.median(exits)) / limit)
