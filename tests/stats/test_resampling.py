import numpy as np

from localjudge.stats.interval import canonical_groups, gamma_weights, quantile


def test_weights_do_not_depend_on_how_they_are_cut_into_blocks() -> None:
    shapes = np.linspace(0.5, 3, 2**18)  # 2^20 numbers a block
    blocks = list(gamma_weights(shapes, 10, seed=7))
    assert [len(block) for block in blocks] == [4, 4, 2]
    assert [len(block) for block in gamma_weights(np.ones(3), 10, seed=7, spread=2**18)] == [4, 4, 2]
    at_once = np.random.Generator(np.random.PCG64(7)).standard_gamma(shapes, size=(10, len(shapes)))
    assert np.array_equal(np.concatenate(blocks), at_once)


def test_quantile_by_hand() -> None:
    # Rank 0.25 * (9 + 1) = 2.5: half way from the second smallest to the third.
    assert quantile(np.array([9.0, 1, 8, 2, 7, 3, 6, 4, 5]), 0.25) == 2.5


def test_groups_stand_in_the_order_of_their_content() -> None:
    # Clusters by content: a = (1, 3), b = (0, 9), c = (1, 2)  ->  b, c, a; rows inside in the order of their content.
    values = np.array([3.0, 9, 2, 1, 0, 1])
    groups = canonical_groups([values], ["a", "b", "c", "a", "b", "c"])
    assert [values[rows].tolist() for rows in groups] == [[0, 9], [1, 2], [1, 3]]
