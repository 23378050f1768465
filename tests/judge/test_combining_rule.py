"""How several probabilities become one."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from localjudge.judge.combining_rule import MEAN_LOG_ODDS, CombiningRule

PROBABILITY = st.floats(0, 1)


def test_by_hand() -> None:
    """.9 is odds of 9, .4 of 2/3: sqrt(9 * 2/3) = sqrt(6) = 2.449, which is 2.449 / 3.449 = .7101.

    With weights 1/2 and 1 and the intercept log 2: 3 * 2/3 * 2 = 4, which is .8.
    1 counts as 1 - 1e-6, odds of 999,999; against .0001, odds of 1/9999: their root is 10.0.
    """
    assert MEAN_LOG_ODDS.combined({"a": 0.9, "b": 0.4}) == pytest.approx(math.sqrt(6) / (1 + math.sqrt(6)))
    rule = CombiningRule.weighted({"a": 0.5, "b": 1.0}, math.log(2))
    assert rule.combined({"a": 0.9, "b": 0.4}) == pytest.approx(0.8)
    root = math.sqrt(999_999 / 9_999)
    assert MEAN_LOG_ODDS.combined({"a": 1.0, "b": 0.0001}) == pytest.approx(root / (1 + root))


@given(st.dictionaries(st.sampled_from("abcde"), PROBABILITY, min_size=1))
def test_the_order_of_judges_moves_no_bit(given_by: dict[str, float]) -> None:
    orders = itertools.permutations(given_by.items())
    weighted = CombiningRule.weighted({judge: 0.1 * (1 + ord(judge) - ord("a")) for judge in given_by}, 0.3)
    results = {(MEAN_LOG_ODDS.combined(dict(order)), weighted.combined(dict(order))) for order in orders}
    assert len(results) == 1


@given(PROBABILITY, PROBABILITY, PROBABILITY, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_judge_that_becomes_surer_never_lowers_the_result_and_no_weight_leaves_the_unit_interval(
    p_yes: float, other: float, fixed: float, weight: float, intercept: float
) -> None:
    low, high = (MEAN_LOG_ODDS.combined({"a": p, "b": fixed}) for p in sorted((p_yes, other)))
    assert low <= high
    assert 0 <= CombiningRule.weighted({"a": weight}, intercept).combined({"a": p_yes}) <= 1


@pytest.mark.parametrize(
    "fields",
    [
        {"weights": {"a": 1.0}},
        {"intercept": 0.5},
        {"rule": "weighted log odds"},
        {"rule": "weighted log odds", "weights": {"a": math.nan}},
        {"rule": "median"},
        {"clip": 0},
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CombiningRule.model_validate(fields)
