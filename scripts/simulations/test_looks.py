"""The planned looks at labels equal the looks of `label_looks.py`, and keep their error."""

import pytest
from corrected_coverage import AS_PLANNED, JUDGES, ORDINARY, Setting, looked_at, made_up_pool
from label_looks import SPENT, SPENT_FROM_PLAN, compute_looks

from localjudge.stats.interval import CONFIDENCE
from localjudge.stats.repeated_looks import LOOKS_WITH_PLAN, LOOKS_WITHOUT_PLAN, MAX_ERROR


def test_look_errors_follow_the_spending_functions() -> None:
    assert list(compute_looks(SPENT)) == list(LOOKS_WITHOUT_PLAN)
    assert list(compute_looks(SPENT_FROM_PLAN)) == list(LOOKS_WITH_PLAN)
    assert SPENT[max(SPENT)] == pytest.approx(1 - CONFIDENCE)
    assert SPENT_FROM_PLAN[max(SPENT_FROM_PLAN)] == MAX_ERROR
    assert [labels for labels, _, _ in LOOKS_WITHOUT_PLAN] == list(SPENT)


def test_at_most_six_percent_of_runs_miss_at_any_look() -> None:
    """200 runs, looks from 15 to 150 labels: at most 6 % miss, over 10 % with ordinary intervals.

    At 50 labels the interval is at most 1.15 times as wide as the ordinary one.
    """
    setting = Setting(300, 0.8, False, 150)
    pool = made_up_pool(*JUDGES["noisy"])
    planned, ordinary = (
        looked_at(setting, pool, looks, repeats=200, seed=7) for looks in (AS_PLANNED, ORDINARY)
    )
    assert planned.share <= 0.06
    assert ordinary.share > 0.1
    assert planned.width <= 1.15 * ordinary.width
