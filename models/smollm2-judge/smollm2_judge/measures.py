"""AUC and the interval of a difference of two AUCs on the same rows. NumPy only."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def auc(labels: Labels, scores: Floats) -> float:
    """Return the share of pairs of a positive and a negative row that the scores order correctly; ties count half."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    if not len(positive) or not len(negative):
        return float("nan")
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / 2 / len(negative))


def gain_interval(
    labels: Labels, scores: Floats, others: Floats, *, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval, over rows, of the AUC of `scores` minus the AUC of `others`."""
    rng = np.random.default_rng(seed)
    gains = []
    for _ in range(draws):
        drawn = rng.integers(0, len(labels), len(labels))
        gains.append(auc(labels[drawn], scores[drawn]) - auc(labels[drawn], others[drawn]))
    low, high = np.nanpercentile(gains, [2.5, 97.5])
    return float(low), float(high)


def balanced_accuracy(labels: Labels, scores: Floats, threshold: float = 0.0) -> float:
    """Return the mean of sensitivity and specificity at a threshold."""
    called = scores > threshold
    return float((called[labels == 1].mean() + (~called[labels == 0]).mean()) / 2)
