"""Draw units for labelling, in strata and with known probabilities.

    unit     1          2     3             units in random order within their strata,
    arc      |----------|-----|--------|    as long as their sizes, on a circle of length 1
    point          x         x      x       start + 0.618 k, for k = 0, 1, 2 ...

`start` is random. A unit is drawn when a point hits its arc. The gaps between points have few
different lengths, so the probability of a hit is known: the share of starts for which one of the
points lies on the arc. docs/statistics.md explains the sizes.
"""

import math

import numpy as np

from localjudge.stats.interval import Floats, Indices

STRATA = 5
MAX_POINTS = 1 << 22
"""Most points of a drawing: enough to hit every unit with a share above 3e-7."""
_DOUBT = 0.1  # share of the way from a probability to 1/2
_GOLDEN = (math.sqrt(5) - 1) / 2
_GAP_DIGITS = 12


def strata_by_score(scores: Floats, strata: int = STRATA) -> Indices:
    """Return each score's stratum (units,), ascending.

    Strata have about equal sizes; equal scores share one.
    """
    edges = np.quantile(scores, np.arange(1, strata) / strata)
    numbers = np.searchsorted(edges, scores, side="right")
    return np.unique(numbers, return_inverse=True)[1].reshape(-1)


def uncertainty(p_yes: Floats) -> Floats:
    """Return sqrt(p (1 - p)), with p moved from `p_yes` towards 1/2."""
    p = p_yes + _DOUBT * (0.5 - p_yes)
    return np.sqrt(p * (1 - p))


def drawing_sizes(weights: Floats, p_yes: Floats) -> Floats:
    """Return the sizes of units (units,) in a drawing: weight times uncertainty."""
    return weights * uncertainty(p_yes)


def draw(sizes: Floats, strata: Indices, count: int, seed: int) -> tuple[Indices, Indices]:
    """Draw `count` units with these positive sizes (units,).

    Returns their indices (count,) in drawing order, and the number of points (count,) until each
    was hit. Fewer are drawn if `MAX_POINTS` points hit fewer.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    start = generator.random()
    size = len(sizes)
    order = np.lexsort((generator.random(size), strata))
    ends = np.cumsum(sizes[order] / sizes.sum())
    number = min(4 * min(count, size), MAX_POINTS)
    while True:
        points = (start + _GOLDEN * np.arange(number)) % 1
        hit = np.minimum(np.searchsorted(ends, points, side="right"), size - 1)
        units, turns = np.unique(hit, return_index=True)
        if len(units) >= min(count, size) or number == MAX_POINTS:
            break
        number = min(2 * number, MAX_POINTS)
    first = np.argsort(turns)[:count]
    return order[units[first]], turns[first] + 1


def inclusion_probabilities(shares: Floats, turns: int) -> Floats:
    """Return the probabilities (units,) that `turns` points hit units with these shares s (units,)
    of the total size.

        sum over the gaps between points of min(s, gap)

    Two points leave gaps of 0.382 and 0.618: a share of 0.2 is hit with 2 x 0.2, one of 0.5 with
    0.382 + 0.5.
    """
    points = np.sort(_GOLDEN * np.arange(turns) % 1)
    between = np.diff(points, append=points[0] + 1)
    gaps, counts = np.unique(np.round(between, _GAP_DIGITS), return_counts=True)
    probabilities: Floats = (np.minimum(shares[:, None], gaps) * counts).sum(axis=1)
    return np.minimum(1.0, probabilities)
