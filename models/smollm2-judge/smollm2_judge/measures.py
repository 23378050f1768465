"""AUC and the interval of a difference of two AUCs on the same rows. NumPy only."""

from collections.abc import Sequence
from typing import Any

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


def compare(labels: Labels, datasets: Sequence[str], scores: Floats, reference: Floats | None) -> dict[str, Any]:
    """Return AUC for all rows and by data set, balanced accuracy, and the gain over the reference judge's scores.

    Names and numbers are plain ones of Python, as a checkpoint and JSON take them.
    """
    names = np.array(datasets)
    parts = {"all": np.full(len(names), True), **{name: names == name for name in sorted(set(datasets))}}
    entry: dict[str, Any] = {"auc": {name: round(auc(labels[part], scores[part]), 4) for name, part in parts.items()}}
    entry["balanced_accuracy"] = round(balanced_accuracy(labels, scores), 4)
    if reference is not None:
        by_reference = {name: round(auc(labels[part], reference[part]), 4) for name, part in parts.items()}
        interval = [round(end, 4) for end in gain_interval(labels, scores, reference)]
        entry |= {"reference_auc": by_reference, "gain_interval": interval}
    return entry
