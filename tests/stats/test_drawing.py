"""Drawing units: how many, of which strata, and with the probabilities that are stated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.stats.corrected import draw, even_shares, strata_by_score

sizes_and_strata = st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 3)), min_size=1, max_size=60)


@given(sizes_and_strata, st.integers(1, 80), st.integers(0, 5))
def test_as_many_are_drawn_as_were_wanted(rows: list[tuple[float, int]], count: int, seed: int) -> None:
    """No unit twice, and the probabilities are as many in all."""
    sizes = np.array([size for size, _ in rows])
    strata = np.unique([number for _, number in rows], return_inverse=True)[1]
    found = draw(sizes, strata, count, seed)
    assert len(found.taken) == len(set(found.taken.tolist())) == min(count, len(rows))
    assert found.probabilities.sum() == pytest.approx(min(count, len(rows)))
    assert (found.probabilities[found.taken] > 0).all()
    assert (found.probabilities <= 1 + 1e-12).all()


def test_each_unit_is_drawn_as_often_as_is_stated() -> None:
    """Of 4,000 draws of 4 of 12 units; the largest is drawn always."""
    sizes, strata = np.array([1.0, 2, 3, 10, 1, 1, 2, 2, 5, 5, 1, 1]), np.repeat([0, 1], [4, 8])
    times = np.zeros(12)
    for seed in range(4_000):
        times[draw(sizes, strata, 4, seed).taken] += 1
    stated = draw(sizes, strata, 4, 0).probabilities
    assert stated[3] == 1
    assert times / 4_000 == pytest.approx(stated, abs=4 * 0.5 / np.sqrt(4_000))


def test_the_same_seed_draws_the_same_and_another_others() -> None:
    sizes, strata = np.ones(100), np.repeat(np.arange(5), 20)
    first, same, other = (draw(sizes, strata, 20, seed).taken.tolist() for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_what_comes_first_is_no_stratum_before_another() -> None:
    """Whoever labels only the first half has labelled a random half."""
    found = draw(np.ones(1_000), np.repeat(np.arange(5), 200), 200, 0)
    assert len(set((found.taken[:20] // 200).tolist())) > 2


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([10, 10], 5, [3, 2]),
        ([1, 10, 10], 9, [1, 4, 4]),
        ([2, 2], 9, [2, 2]),
        ([0, 4], 2, [0, 2]),
        ([3], 0, [0]),
    ],
)
def test_shares_are_even_as_far_as_there_is_something_to_share(
    sizes: list[int], count: int, expected: list[int]
) -> None:
    assert even_shares(sizes, count) == expected


def test_strata_are_of_equal_size_and_equal_scores_are_together() -> None:
    assert strata_by_score(np.linspace(0, 1, 10)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert strata_by_score(np.array([0.9, 0.9, 0.9, 0.1])).tolist() == [1, 1, 1, 0]
    assert strata_by_score(np.array([0.5, 0.5])).tolist() == [0, 0]
