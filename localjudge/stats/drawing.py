"""Which units people should label: drawn in strata of what the judge thinks, each with a known probability.

    p_yes     .02 .1 | .3 .4 | .5 .55 | .7 .8 | .9 .97      strata of equally many units, by p_yes
    drawn            one or more of each, in all n           so sure and unsure verdicts are labelled alike

In its stratum a unit is drawn with a probability in proportion to its size, its weight in the mean of its metric: then
every labelled unit stands for equally much of the mean, which makes the intervals narrowest for a given n. (Units of
equal probability would be mostly of samples with many units, each of which counts little.)

The sizes are laid end to end in a random order, and every k-th step hits a unit: systematic sampling, which has exactly
the probabilities that it states. Sources: W. G. Madow (1949), On the theory of systematic sampling II, Annals of
Mathematical Statistics 20, 333-354; C.-E. Sarndal, B. Swensson and J. Wretman (1992), Model Assisted Survey Sampling,
sections 3.6 and 3.7.
"""

from typing import NamedTuple

import numpy as np

from localjudge.stats.resampling import Floats, Indices

STRATA = 5
_ROUNDING = 1e-9


class Drawing(NamedTuple):
    """Indices of the drawn units in a random order, and for every unit (units,) with which probability it was drawn."""

    taken: Indices
    probabilities: Floats


def strata_by_score(scores: Floats, strata: int = STRATA) -> Indices:
    """Number of the stratum of each score (units,), ascending and about equally large; equal scores are together."""
    edges = np.quantile(scores, np.arange(1, strata) / strata)
    return np.unique(np.searchsorted(edges, scores, side="right"), return_inverse=True)[1].reshape(-1)


def draw(sizes: Floats, strata: Indices, count: int, seed: int) -> Drawing:
    """Draw `count` units (all if there are fewer) of these sizes (units,), above 0, about equally many of each stratum.

    The same seed draws the same units.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    probabilities = np.zeros(len(sizes))
    taken = []
    members = [np.flatnonzero(strata == number) for number in range(int(strata.max()) + 1)]
    for rows, share in zip(members, even_shares([len(rows) for rows in members], count), strict=True):
        probabilities[rows] = _probabilities(sizes[rows], share)
        order = generator.permutation(len(rows))
        ends = np.cumsum(probabilities[rows][order]) + generator.random()
        steps = np.floor(np.concatenate([[ends[0] - probabilities[rows[order[0]]]], ends]) + _ROUNDING)
        taken.append(rows[order][np.diff(steps) > 0])
    return Drawing(generator.permutation(np.concatenate(taken)), probabilities)


def even_shares(sizes: list[int], count: int) -> list[int]:
    """Equal shares of the count, none beyond its stratum; what is left over goes to those that have room."""
    shares = [0] * len(sizes)
    left = min(count, sum(sizes))
    while left:
        open_strata = [number for number, size in enumerate(sizes) if shares[number] < size]
        each, more = divmod(left, len(open_strata))
        for place, number in enumerate(open_strata):
            added = min(sizes[number] - shares[number], each + (place < more))
            shares[number] += added
            left -= added
    return shares


def _probabilities(sizes: Floats, count: int) -> Floats:
    """In proportion to the sizes and `count` in all; a unit that would have more than 1 has 1, and the others share."""
    found = np.zeros(len(sizes))
    certain = np.zeros(len(sizes), dtype=bool)
    while True:
        rest = ~certain
        found[certain] = 1.0
        left = count - int(certain.sum())
        found[rest] = left * sizes[rest] / sizes[rest].sum() if rest.any() else 0.0
        beyond = rest & (found >= 1)
        if not beyond.any():
            return found
        certain |= beyond
