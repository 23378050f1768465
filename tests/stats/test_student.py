"""Quantiles of Student's t against tables and SciPy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.stats.interval import two_sided_quantile, within

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(
    ("dof", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (9, 2.262), (10, 2.228), (30, 2.042)]
)
def test_quantiles_are_those_of_every_printed_table(dof: int, expected: float) -> None:
    """The column of 95 %, two-sided."""
    assert two_sided_quantile(0.95, dof) == pytest.approx(expected, abs=5e-4)


@given(st.integers(1, 3_000), st.floats(0.5, 0.999))
def test_quantiles_are_those_of_scipy(dof: int, confidence: float) -> None:
    expected = scipy_stats.t.ppf((1 + confidence) / 2, dof)
    assert two_sided_quantile(confidence, dof) == pytest.approx(expected, rel=1e-9)
    assert within(expected, dof) == pytest.approx(confidence, rel=1e-9)


def test_where_the_normal_distribution_takes_over_hardly_anything_jumps() -> None:
    """(1.96^2 + 1) / (4 * 10,000) = 1.2e-4 of the quantile."""
    before, after = two_sided_quantile(0.95, 9_999), two_sided_quantile(0.95, 10_000)
    assert 0 < before - after < 1.3e-4 * after


def test_no_degree_of_freedom_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        two_sided_quantile(0.95, 0)
