"""Read verdicts and tokens from the logits of a model."""

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.constraints import Choice
from localjudge.errors import SampleError


class Reading(NamedTuple):
    """Verdict from the logits.

    `label` is the value nearest to `p_yes`, `valid_mass` the share of valid tokens.
    """

    label: float
    p_yes: float
    valid_mass: float


def read_verdict(choice: Choice, logits: NDArray[np.floating[Any]]) -> Reading:
    """Read the verdict from logits (vocabulary,). Raises SampleError if they are not finite."""
    scores = logits.astype(np.float64)
    _require_finite(scores.max(), *scores[choice.valid])
    by_label = {label: _log_sum_exp(scores[ids]) for label, ids in choice.labels.items()}
    valid_mass = float(np.exp(reduce(np.logaddexp, by_label.values()) - _log_sum_exp(scores)))
    p_yes = 0.0
    for label, score in by_label.items():
        p_yes += label * _share(score, by_label.values())
    p_yes = min(p_yes, 1.0)
    nearest = min(by_label, key=lambda label: (abs(label - p_yes), -label))
    return Reading(nearest, p_yes, valid_mass)


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
