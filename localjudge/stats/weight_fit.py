"""Weights for several judges, from what people said: logistic regression on the judges' log odds.

    labels      1     0     1     0    ...        logit P(label = 1) = intercept + w of A x log odds of A + w of B x ...
    A           2.2  -0.4   0.1  -1.0
    B           0.3   0.9   1.5  -2.0             a judge that says nothing new gets a weight near 0

How good the weights are cannot be read off the rows that they were fitted to. So each row also gets the probability by
weights that were fitted without its cluster (its document, its question): clusters are dealt into folds at random, and
each fold is held out once. Figures are to be taken from these probabilities; the weights that are kept are those of all
rows. Neither the order of the rows nor the names of the clusters move anything.

Sources: D. R. Cox (1958), The regression analysis of binary sequences, JRSS B 20, 215-242; M. Stone (1974),
Cross-validatory choice and assessment of statistical predictions, JRSS B 36, 111-147.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats.agreement import logistic_lines
from localjudge.stats.resampling import SEED, Floats, canonical_groups

FOLDS = 5
_LEAST_CURVATURE = 1e-9


class WeightFit(NamedTuple):
    """Weights (judges,) and intercept by all rows, and what each row gets from those fitted without its cluster."""

    weights: Floats
    intercept: float
    held_out: Floats
    """Probabilities of label 1, shape (n,)."""


class _Rows(NamedTuple):
    labels: Floats
    odds: Floats
    """Log odds (n, judges + 1), the last column 1."""


def fit_weights(
    labels: npt.ArrayLike,
    log_odds: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    folds: int = FOLDS,
    seed: int = SEED,
) -> WeightFit:
    """Weights for log odds (n, judges) by labels (n,) of 0 and 1; rows of one cluster are held out together.

    Raises ValueError for unequal lengths or other labels, DataError where too few clusters or labels of one kind leave
    nothing to hold out, and where no weights are best: the judges split the labels without error, or two of them always
    say the same (A. Albert and J. A. Anderson (1984), Biometrika 71, 1-10).
    """
    known, odds = np.asarray(labels, dtype=np.float64), np.asarray(log_odds, dtype=np.float64)
    if known.ndim != 1 or odds.ndim != 2 or len(known) != len(odds) or not odds.shape[1]:  # noqa: PLR2004
        raise ValueError(f"expected labels (n,) and log odds (n, judges), got {known.shape} and {odds.shape}")
    if not ((known == 0) | (known == 1)).all() or not np.isfinite(odds).all():
        raise ValueError("labels must be 0 or 1, and log odds finite")
    groups = canonical_groups([known, *odds.T], clusters)
    if len(groups) < folds:
        raise DataError(f"{len(groups)} groups of rows cannot be dealt into {folds}", hint="label more of them")
    rows = _Rows(known, np.column_stack([odds, np.ones(len(odds))]))
    # Rows are added up in an order of their own, so that the order in which they come moves no bit.
    everything = np.concatenate(groups)
    line = _fitted(rows, everything)
    held_out = np.empty(len(known))
    dealt = np.random.Generator(np.random.PCG64(seed)).permutation(len(groups)) % folds
    for fold in range(folds):
        inside = [group for group, of in zip(groups, dealt, strict=True) if of != fold]
        outside = np.concatenate([group for group, of in zip(groups, dealt, strict=True) if of == fold])
        held_out[outside] = _probability(rows.odds[outside] @ _fitted(rows, np.concatenate(inside)))
    return WeightFit(line[:-1], float(line[-1]), held_out)


def _fitted(rows: _Rows, chosen: npt.NDArray[np.intp]) -> Floats:
    """The line of the greatest likelihood for these rows."""
    labels, columns = rows.labels[chosen], rows.odds[chosen].T
    if labels.min() == labels.max():
        raise DataError(f"rows that weights are fitted to are all labelled {labels[0]:g}", hint="label more of them")
    line: Floats
    try:
        [line] = logistic_lines(columns, labels, np.ones((1, len(labels))), np.zeros(len(columns)))
        fitted = _probability(line @ columns)
        least_curvature = float(np.linalg.eigvalsh((columns * fitted * (1 - fitted)) @ columns.T / len(labels))[0])
    except np.linalg.LinAlgError:
        least_curvature = 0.0
    if not least_curvature >= _LEAST_CURVATURE:
        raise DataError(
            "no weights are best: the judges split the labels without error, or two of them always say the same",
            hint="label more rows, hard ones among them, or leave out a judge",
        )
    return line


def _probability(odds: Floats) -> Floats:
    least = np.exp(-np.abs(odds))
    share: Floats = np.where(odds >= 0, 1, least) / (1 + least)
    return share
