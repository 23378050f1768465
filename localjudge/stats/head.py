"""Reads a judge instead of asking it: p from its logits at a verdict, by weights that were fitted on labels.

    logits (vocabulary,) ──512 of them, evenly spaced, less their mean──> readout x (512,), kept with each answer
    p = 1 / (1 + exp(-(weights . x + offset)))

The logits are a linear map of the model's last hidden state, which knows more than the two tokens that are asked for
tell. Some of them hold as much as the state itself, take nothing to compute, and every engine in process has them.

    fitted    x standardised ─> ridge regression on the labels ─> score s ─> log odds of s under two normal
              distributions of one width (linear discriminant analysis), from the shares of 1 and 0
    penalty   of eight, the best by AUC on clusters that were left out, whose scores give the two distributions
    held out  each fold of clusters by a head for which all of this was done on the others

Sources: J. Li et al. (2026), Representation-as-a-Judge, arXiv:2601.22588 (a small model's states judge better than its
answers); B. Radharapu et al. (2025), arXiv:2512.22245 (linear probes are calibrated); A. E. Hoerl and R. W. Kennard
(1970), Ridge regression, Technometrics 12, 55-67; R. A. Fisher (1936), Annals of Eugenics 7, 179-188.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from localjudge.errors import DataError
from localjudge.stats.agreement import roc_auc
from localjudge.stats.interval import SEED, Floats, LabelledScores, canonical_groups
from localjudge.types import Record

READOUT = 512
"""Logits that are kept of each verdict: fewer tell less, and with more the weights fit noise."""
_LARGEST = 6e4  # that float16 holds
_PENALTIES = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0)
"""In rows: the weight of each standardised logit is pulled to 0 as by so many rows."""
_FOLDS = 5
_LEAST_SPREAD = 1e-6
_FARTHEST = 700.0  # of log odds whose exponential is a number


def readout_of(logits: NDArray[np.floating[Any]]) -> bytes | None:
    """Some of the logits (vocabulary,), as an answer keeps them: float16, little-endian, shape (512,) or fewer.

    None where one of them is no number: a server tells those of valid answers alone.
    """
    count = min(READOUT, len(logits))
    some = logits[np.arange(count) * len(logits) // count].astype(np.float64)
    if not np.isfinite(some).all():
        return None
    return bytes(np.clip(some - some.mean(), -_LARGEST, _LARGEST).astype("<f2"))


def readouts(rows: Sequence[bytes]) -> Floats:
    """Readouts as numbers, shape (rows, 512) or fewer. Raises DataError where they are not of one length."""
    if len({len(row) for row in rows}) > 1 or any(len(row) % 2 for row in rows):
        raise DataError("the readouts are not of one model", hint="was a file of the run changed by hand?")
    return np.stack([np.frombuffer(row, "<f2") for row in rows]).astype(np.float64)


class Head(Record):
    """One weight for each logit of a readout, float32 in base64, and an offset."""

    weights: str
    offset: float = Field(allow_inf_nan=False)

    @field_validator("weights")
    @classmethod
    def _are_numbers(cls, weights: str) -> str:
        numbers = np.frombuffer(b64decode(weights, validate=True), "<f4")
        if not numbers.size or not np.isfinite(numbers).all():
            raise ValueError("the weights are not numbers")
        return weights

    def p_yes(self, readout: bytes) -> float:
        """The probability of yes; the same bits on every machine. Raises DataError for another model's readout."""
        weights = np.frombuffer(b64decode(self.weights), "<f4").astype(np.float64)
        [values] = readouts([readout])
        if len(values) != len(weights):
            raise DataError(f"a head of {len(weights)} weights cannot read {len(values)} logits")
        odds = math.fsum([*(weights * values), self.offset])
        return 1 / (1 + math.exp(-max(-_FARTHEST, min(odds, _FARTHEST))))


class FittedHead(NamedTuple):
    """A head, and the probability of each row (n,) by heads that saw nothing of its cluster's fold."""

    head: Head
    held_out: Floats


def fit_head(rows: LabelledScores) -> FittedHead:
    """A head for labels (n,) and, as scores, readouts (n, k). Neither the rows' order nor clusters' names move it.

    Raises DataError for fewer than five clusters, and where all labels of four fifths of them are equal.
    """
    labels, x, weights = rows.arrays()
    groups = canonical_groups([labels, x, weights], rows.clusters)
    if len(groups) < _FOLDS:
        hint = "label statements of other contexts"
        raise DataError(f"a head is fitted on {_FOLDS} groups of labels or more, not {len(groups)}", hint=hint)
    order, fold = np.concatenate(groups), np.zeros(len(labels), dtype=np.intp)
    shuffled = np.random.Generator(np.random.PCG64(SEED)).permutation(len(groups))
    for place, group in enumerate(shuffled):
        fold[groups[group]] = place % _FOLDS
    labels, x, weights = (values[order] for values in (labels, x, weights))
    fold = fold[order]
    held_out = np.zeros(len(labels))
    for number in range(_FOLDS):
        inside = fold != number
        head = _fitted(labels[inside], x[inside], weights[inside], fold[inside])
        held_out[order[~inside]] = [head.p_yes(row.astype("<f2").tobytes()) for row in x[~inside]]
    return FittedHead(_fitted(labels, x, weights, fold), held_out)


def _fitted(labels: Floats, x: Floats, weights: Floats, fold: NDArray[np.intp]) -> Head:
    scores = np.zeros((len(_PENALTIES), len(labels)))
    for number in np.unique(fold):
        inside = fold != number
        lines, middle = _ridge(labels[inside], x[inside], weights[inside], _PENALTIES)
        scores[:, ~inside] = lines @ (x[~inside] - middle).T
    best = int(np.argmax([roc_auc(labels, of_penalty, weights) for of_penalty in scores]))
    slope, start = _log_odds_line(labels, scores[best], weights)
    lines, middle = _ridge(labels, x, weights, _PENALTIES[best : best + 1])
    line = (slope * lines[0]).astype("<f4")
    return Head(weights=b64encode(line.tobytes()).decode(), offset=start - float(line.astype(np.float64) @ middle))


def _ridge(labels: Floats, x: Floats, weights: Floats, penalties: Sequence[float]) -> tuple[Floats, Floats]:
    """For each penalty the line that predicts the labels from x less its middle, shape (penalties, k); the middle."""
    middle = np.average(x, axis=0, weights=weights)
    spread = np.sqrt(np.average((x - middle) ** 2, axis=0, weights=weights)) + _LEAST_SPREAD
    z, share = (x - middle) / spread, weights / weights.mean()
    moments, pull = z.T @ (share[:, None] * z), z.T @ (share * (labels - np.average(labels, weights=weights)))
    lines = [np.linalg.solve(moments + penalty * np.eye(len(pull)), pull) / spread for penalty in penalties]
    return np.array(lines), middle


def _log_odds_line(labels: Floats, scores: Floats, weights: Floats) -> tuple[float, float]:
    """Slope and intercept of log odds in the score, (m1 - m0) / v and log(n1 / n0) - slope (m1 + m0) / 2."""
    sides = [(scores[labels == kind], weights[labels == kind]) for kind in (0, 1)]
    (low, high), (n0, n1) = (np.average(s, weights=w) for s, w in sides), (w.sum() for _, w in sides)
    width = sum(float(w @ (s - np.average(s, weights=w)) ** 2) for s, w in sides) / (n0 + n1)
    slope = max(0.0, float(high - low)) / (width + _LEAST_SPREAD)
    return slope, float(np.log(n1 / n0) - slope * (high + low) / 2)
