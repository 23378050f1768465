"""Read verdicts and tokens from the logits of a model."""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.constraints import Choice
from localjudge.errors import SampleError


def read_verdict(choice: Choice, logits: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return p_yes, the expected label, and the probability of valid tokens.

    `logits` (vocabulary,). Raises SampleError if they are not finite.
    """
    scores = logits.astype(np.float64)
    _require_finite(scores.max(), *scores[choice.valid])
    by_label = {label: _log_sum_exp(scores[ids]) for label, ids in choice.labels.items()}
    valid_mass = float(np.exp(reduce(np.logaddexp, by_label.values()) - _log_sum_exp(scores)))
    p_yes = 0.0
    for label, score in by_label.items():
        p_yes += label * _share(score, by_label.values())
    return min(p_yes, 1.0), valid_mass


def nearest_label(p_yes: float, labels: Iterable[float]) -> float:
    """Return the label nearest to `p_yes`, the larger one of two."""
    return min(labels, key=lambda label: (abs(label - p_yes), -label))


def greedy(valid: NDArray[np.bool_], logits: NDArray[np.floating[Any]]) -> int:
    """Return the first of the most likely valid tokens.

    Raises SampleError if the logits are not finite.
    """
    allowed = np.where(valid, logits, -np.inf)
    _require_finite(logits.max(), allowed.max())
    return int(np.argmax(allowed))


def _share(score: float, scores: Iterable[float]) -> float:
    total = 0.0  # not `sum`, which rounds differently between Python versions
    for other in scores:
        total += np.exp(np.clip(other - score, -700, 700))
    return float(1 / total)


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = scores.max()
    return float(peak + np.log(np.exp(scores - peak).sum()))


def _require_finite(*logits: float) -> None:
    if not np.isfinite(logits).all():  # a maximum is NaN if any element is NaN
        raise SampleError(
            "the model gave logits that are not numbers: its file or the build is damaged"
        )
