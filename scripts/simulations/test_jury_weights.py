"""The fitted weights of a jury are not worse than its best judge, on labels that were held out."""

import math

import numpy as np
import pytest

from localjudge.stats import stacking
from localjudge.stats.agreement import LabelledScores

pytestmark = pytest.mark.engine

DRAWINGS = 200


def draw_odds(count: int, signals: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log odds (count, 2) and labels (count,): noise shifted by each judge's signal."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(count) < 0.5).astype(np.float64)
    odds = generator.standard_normal((count, 2)) + np.outer(2 * labels - 1, signals) / 2
    return odds, labels


def held_out_loss(odds: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean log loss (nats) on held-out labels."""
    rows = LabelledScores(labels, labels, None, np.arange(len(labels)))
    probabilities = stacking.held_out(odds, rows)
    return float(stacking.log_loss(labels, probabilities, np.ones((1, len(labels))))[0])


@pytest.mark.parametrize("count", [60, 200])
@pytest.mark.parametrize("signals", [(1.0, 1.0), (1.0, 0.3), (1.5, 0.0)])
def test_a_jury_is_not_worse_than_its_best_judge(count: int, signals: tuple[float, float]) -> None:
    """Mean of 200 drawings at most the noise or .01; below 0 for judges of equal strength."""
    differences = []
    for seed in range(DRAWINGS):
        odds, labels = draw_odds(count, signals, seed)
        best_judge = odds[:, :1]  # the first signal is the stronger one
        differences.append(held_out_loss(odds, labels) - held_out_loss(best_judge, labels))
    mean = float(np.mean(differences))
    noise = 2 * float(np.std(differences)) / math.sqrt(DRAWINGS)
    assert mean <= max(noise, 0.01)
    if signals[0] == signals[1]:
        assert mean < 0
