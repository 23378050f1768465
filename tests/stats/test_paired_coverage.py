"""The interval of a difference covers, is no wider than it need be, and sees what Student's t sees."""

import math

import numpy as np
import pytest
from paired_coverage import SHAPES, measure

REPEATS = 300
# 3.3 standard errors of a share of .95.
TOLERANCE = 3.3 * math.sqrt(0.95 * 0.05 / REPEATS)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("50 % down by 0.35", 25),
        ("10 % up, 30 % down by 0.35", 50),
        ("30 % up, 30 % down of statements", 10),
        ("10 % up, 2 % down of statements", 100),
        ("normal, mean 0.05, sd 0.1", 25),
        ("documents: half move, 50 % of them down", 100),
    ],
)
def test_where_t_covers_so_does_ours_with_its_width_and_power(name: str, size: int) -> None:
    cell = measure(SHAPES[name], size, repeats=REPEATS, seed=1)
    assert cell.held >= 0.95 - TOLERANCE
    assert cell.width <= 1.15 * cell.t_width
    if SHAPES[name].differs:
        assert cell.power >= max(cell.t_power, cell.flip_power) - 0.05


@pytest.mark.parametrize(
    ("name", "size"),
    [("3 % down by 1", 25), ("10 % down by 1/3", 10), ("5 % up, uniform", 50), ("90 % down by 0.2", 10)],
)
def test_where_few_pairs_moved_ours_covers_and_t_does_not(name: str, size: int) -> None:
    cell = measure(SHAPES[name], size, repeats=REPEATS, seed=1)
    assert cell.held >= 0.95 - TOLERANCE
    assert cell.t_held < 0.9
    assert cell.narrowest > 0


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_the_mean_that_it_is_said_to_have(name: str) -> None:
    values = SHAPES[name].draw(np.random.default_rng(1), 50_000).values
    assert values.mean() == pytest.approx(SHAPES[name].mean, abs=4 * max(values.std(), 0.01) / math.sqrt(50_000 / 4))
    assert np.abs(values).max() <= 1
