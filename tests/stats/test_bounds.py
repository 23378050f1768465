import pytest

from localjudge.stats.interval import Bounds, Tally, tally_bounds


def bounds(values: list[float], failed: int) -> Bounds:
    """Bounds of scores that come in blocks of one."""
    tally = Tally()
    for value in values:
        tally.add([value])
    return tally_bounds(tally, failed)


def test_failed_samples_count_as_the_worst_and_as_the_best() -> None:
    # (1 + 1 + 0 + 0) / 4 and (1 + 1 + 0 + 1) / 4.
    assert bounds([1, 1, 0], failed=1) == (0.5, 0.75)


def test_without_failures_both_bounds_are_the_mean() -> None:
    assert bounds([0.25, 0.75], failed=0) == (0.5, 0.5)


def test_nothing_scored_says_nothing() -> None:
    assert bounds([], failed=3) == (0, 1)


@pytest.mark.parametrize("failed", [0, -1])
def test_no_samples_at_all_have_no_mean(failed: int) -> None:
    with pytest.raises(ValueError, match="no mean of 0 scored"):
        bounds([], failed)
