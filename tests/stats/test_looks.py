from statistics import NormalDist

import numpy as np
import pytest

from localjudge.stats.repeated_looks import LOOKS_WITH_PLAN, LOOKS_WITHOUT_PLAN, look_at

CONFIDENCE = 0.95
MAX_ERROR = 0.06


@pytest.mark.parametrize(
    ("labels", "statements", "counted", "following"),
    [
        (0, 300, 0, 20),
        (19, 300, 19, 20),
        (20, 300, 20, 30),
        (63, 300, 50, 100),
        (63, 80, 50, 80),
        (80, 80, 80, None),
        (12, 15, 12, 15),
        (15, 15, 15, None),
        (70_000, 90_000, 10_000, 90_000),
    ],
)
def test_labels_count_at_planned_numbers(
    labels: int, statements: int, counted: int, following: int | None
) -> None:
    look = look_at(labels, statements)
    assert (look.labels, look.next) == (counted, following)
    assert (look.confidence is None) == (labels < min(20, statements))


def test_the_last_look_spends_the_remaining_error() -> None:
    """An ordinary interval up to 50 statements; 80 give the same as 100 without a later look."""
    assert look_at(15, 15).confidence == CONFIDENCE
    assert look_at(80, 80).confidence == 1 - LOOKS_WITHOUT_PLAN[3][2]
    assert (look_at(50, 50).confidence, look_at(50, 300).confidence) == (CONFIDENCE, 1 - 0.03412)


@pytest.mark.parametrize(
    ("labels", "statements", "planned", "counted", "following", "error"),
    [
        (50, 300, 50, 50, 100, 0.05),
        (99, 300, 50, 50, 100, 0.05),
        (100, 300, 50, 100, 200, 0.01407),
        (130, 150, 50, 100, 150, 0.01407),
        (150, 150, 50, 150, None, 0.00561),  # before the third doubling
        (222, 222, 222, 222, None, 0.05),
        (20, 300, 20, 20, 40, 0.05),
    ],
)
def test_a_planned_number_has_an_ordinary_interval(
    labels: int,
    statements: int,
    planned: int,
    counted: int,
    following: int | None,
    error: float,
) -> None:
    look = look_at(labels, statements, planned)
    assert (look.labels, look.next) == (counted, following)
    assert look.confidence == pytest.approx(1 - error, abs=1e-12)


def test_a_plan_of_nineteen_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="20"):
        look_at(19, 300, 19)


@pytest.mark.parametrize("planned", [None, 20, 50, 222])
@pytest.mark.parametrize("last", [None, 50, 80, 300])
def test_all_looks_together_miss_at_most_six_percent(last: int | None, planned: int | None) -> None:
    """200,000 sequences of normal means, with or without a last look at labels of all statements.

    The simulation error is .05 %. Without a plan and a last look, at most 5 % miss.
    """
    numbers = _looks(last, planned)
    steps = np.sqrt(np.diff([0, *numbers])) * np.random.default_rng(1).standard_normal(
        (200_000, len(numbers))
    )
    errors = [1 - (look_at(number, last or 10**9, planned).confidence or 0) for number in numbers]
    limits = [
        -np.sqrt(number) * _normal_quantile(error / 2)
        for number, error in zip(numbers, errors, strict=True)
    ]
    missed = (np.abs(np.cumsum(steps, axis=1)) > limits).any(axis=1).mean()
    budget = 0.05 if planned is None and last is None else MAX_ERROR
    assert missed < budget + 4 * 0.0005
    assert missed > 0.048


def _looks(last: int | None, planned: int | None) -> list[int]:
    """Return the numbers of labels of all looks up to the last one."""
    numbers = [labels for labels, _, _ in LOOKS_WITHOUT_PLAN]
    if planned is not None:
        numbers = [factor * min(planned, last or planned) for factor, _, _ in LOOKS_WITH_PLAN]
    if last is None:
        return numbers
    return [number for number in numbers if number < last] + [last]


def _normal_quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
