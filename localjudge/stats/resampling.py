"""Random weights for rows: the bootstrap without leaving any row out.

Efron's bootstrap draws n rows with replacement, which weighs row i by how often it was drawn. The Bayesian bootstrap
weighs it by an exponential draw instead; divided by their sum, the weights are uniform on the simplex:

    Efron:     (2, 0, 1, 0, ...) / n           Rubin:     (0.31, 1.20, 0.05, 2.44, ...) / their sum

Both agree for large n. Here the second is used, because it never empties a class, has no lattice for few rows, and
because k equal rows share one Gamma(k) draw: ten thousand scores with thirty distinct values cost thirty draws.

The invariant: a seed and the shapes fix every weight, whatever the block size, so memory can be bounded freely. NumPy
may draw other numbers in another version: its version belongs to what a limit's last digits depend on.

Sources: B. Efron and R. J. Tibshirani (1993), An Introduction to the Bootstrap, chapters 6 and 13;
D. B. Rubin (1981), The Bayesian bootstrap, Annals of Statistics 9, 130-134.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

SEED = 0
RESAMPLES = 10_000
_BLOCK = 2**20


def gamma_weights(shapes: Floats, resamples: int, seed: int, *, spread: int = 1) -> Iterator[Floats]:
    """Yield blocks of weights, each (some rows, len(shapes)), that together have `resamples` rows.

    A block holds about a million numbers (8 MB), or one row where that alone is more; so it does when each of its rows
    is spread over so many numbers.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    block_rows = max(1, _BLOCK // max(len(shapes), spread))
    for start in range(0, resamples, block_rows):
        yield generator.standard_gamma(shapes, size=(min(block_rows, resamples - start), len(shapes)))


def quantile(draws: Floats, probability: float) -> float:
    """Quantile of bootstrap draws at rank probability * (draws + 1), which has no bias for few draws.

    Source: R. J. Hyndman and Y. Fan (1996), Sample quantiles, American Statistician 50, 361-365, definition 6.
    """
    return float(np.quantile(draws, probability, method="weibull"))


def cluster_members(clusters: npt.ArrayLike | None, rows: int) -> list[Indices]:
    """Indices of the rows of each cluster; each row alone where there are no clusters.

    Raises ValueError unless `clusters` has one entry per row.
    """
    if clusters is None:
        return list(np.arange(rows).reshape(-1, 1))
    labels = cluster_numbers(clusters, rows)
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def cluster_numbers(clusters: npt.ArrayLike, rows: int) -> Indices:
    """The number of each row's cluster, from 0 on. Raises ValueError unless `clusters` has one entry per row."""
    names = np.asarray(clusters)
    if names.shape != (rows,):
        raise ValueError(f"clusters has shape {names.shape}, expected ({rows},): one entry per row")
    return np.unique(names, return_inverse=True)[1]


def canonical_groups(columns: Sequence[Floats], clusters: npt.ArrayLike | None) -> list[Indices]:
    """Indices of the rows of each cluster, in an order that neither the rows' order nor the clusters' names move.

    A row is ranked by its content, a cluster by the ranks of its rows: clusters that tie hold equal rows.
    """
    ranks = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1)
    members = (rows[np.argsort(ranks[rows], kind="stable")] for rows in cluster_members(clusters, len(ranks)))
    return sorted(members, key=lambda rows: tuple(ranks[rows]))
