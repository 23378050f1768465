import pytest
from scipy import stats

from localjudge.stats.interval import binomial_cdf, clopper_pearson


def test_distribution_of_three_coins_by_hand() -> None:
    # P(X <= 1) for 3 fair coins: (1 + 3) / 8.
    assert binomial_cdf(1, 3, 0.5) == pytest.approx(4 / 8)


@pytest.mark.parametrize(("successes", "trials", "probability"), [(0, 5, 0.3), (5, 5, 0.3), (400, 1000, 0.45)])
def test_distribution_equals_scipy(successes: int, trials: int, probability: float) -> None:
    assert binomial_cdf(successes, trials, probability) == pytest.approx(
        stats.binom.cdf(successes, trials, probability), rel=1e-9
    )


def test_far_tail_of_a_million_trials_is_not_lost() -> None:
    expected = stats.binom.cdf(495_000, 1_000_000, 0.5)
    assert expected == pytest.approx(7.7e-24, rel=0.1)
    assert binomial_cdf(495_000, 1_000_000, 0.5) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (997, 1000), (20, 5000)])
def test_interval_equals_scipy(successes: int, trials: int, confidence: float) -> None:
    expected = stats.binomtest(successes, trials).proportion_ci(confidence, method="exact")
    assert clopper_pearson(successes, trials, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_ten_of_ten_by_hand() -> None:
    # All ten hold with probability p^10; that is 0.025 at p = 0.025 ** 0.1 = 0.6915.
    assert clopper_pearson(10, 10, 0.95) == pytest.approx((0.025**0.1, 1.0))
