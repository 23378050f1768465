"""Ridge regression on labels, and its scores as log odds.

    fitted    x standardised ─> ridge regression on the labels ─> score s ─> log odds of s under two normal
              distributions of one width (linear discriminant analysis), from the shares of 1 and 0
    penalty   of eight, the best by AUC on groups that were left out, whose scores give the two distributions

Sources: A. E. Hoerl and R. W. Kennard (1970), Ridge regression, Technometrics 12, 55-67; R. A. Fisher (1936), Annals of
Eugenics 7, 179-188.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.stats.agreement import roc_auc

Floats = NDArray[np.float64]
_PENALTIES = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0)
"""In rows: the weight of each standardised number is pulled to 0 as by so many rows."""
_FOLDS = 5
_LEAST_SPREAD = 1e-6


def fit_ridge(labels: Floats, x: Floats, groups: NDArray[Any]) -> tuple[Floats, Floats]:
    """Weights and offset (k + 1,) of log odds in x (n, k), and log odds of the rows (n,) by those of other groups."""
    names, place = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(0).integers(_FOLDS, size=len(names))[place]
    scores = np.zeros((len(_PENALTIES), len(labels)))
    for number in np.unique(fold):
        inside = fold != number
        lines, middle = _ridge(labels[inside], x[inside], _PENALTIES)
        scores[:, ~inside] = lines @ (x[~inside] - middle).T
    best = int(np.argmax([roc_auc(labels, of_penalty) for of_penalty in scores]))
    slope, start = _log_odds_line(labels, scores[best])
    [line], middle = _ridge(labels, x, (_PENALTIES[best],))
    return np.append(slope * line, start - slope * line @ middle), slope * scores[best] + start


def _ridge(labels: Floats, x: Floats, penalties: tuple[float, ...]) -> tuple[Floats, Floats]:
    """For each penalty the line that predicts the labels from x less its middle, shape (penalties, k); the middle."""
    middle, spread = x.mean(axis=0), x.std(axis=0) + _LEAST_SPREAD
    z = (x - middle) / spread
    moments, pull = z.T @ z, z.T @ (labels - labels.mean())
    lines = [np.linalg.solve(moments + penalty * np.eye(len(pull)), pull) / spread for penalty in penalties]
    return np.array(lines), middle


def _log_odds_line(labels: Floats, scores: Floats) -> tuple[float, float]:
    """Slope and intercept of log odds in the score, (m1 - m0) / v and log(n1 / n0) - slope (m1 + m0) / 2."""
    below, above = scores[labels == 0], scores[labels == 1]
    width = (((below - below.mean()) ** 2).sum() + ((above - above.mean()) ** 2).sum()) / len(scores)
    slope = max(0.0, float(above.mean() - below.mean())) / (width + _LEAST_SPREAD)
    return slope, float(np.log(len(above) / len(below)) - slope * (above.mean() + below.mean()) / 2)
