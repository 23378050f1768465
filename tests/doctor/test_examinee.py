import itertools

import pytest

from localjudge.doctor.examinee import Examinee, check_repeatability, plain_cases
from localjudge.engine.protocol import EngineStats
from localjudge.engine.scripted import unit_text
from localjudge.progress import Progress
from tests.doctor.scripted_judges import WRITER, TimedEngine, examinee

TASKS = [case.task for case in plain_cases()]


def test_verdicts_that_depend_on_the_order_are_a_warning() -> None:
    """One engine raises each answer a little; another depends on the text only."""
    rising = itertools.count()
    changing = examinee(lambda _request: next(rising) / 100)
    check = check_repeatability(changing, TASKS[::3])
    assert (check.status, check.figures) == ("warning", {"asked": 6, "identical": 0})
    steady = examinee(lambda request: len(unit_text(request)) / 1000)
    assert check_repeatability(steady, TASKS[::3]).status == "ok"


@pytest.mark.parametrize(("shares_prefixes", "status"), [(True, "ok"), (False, "warning")])
def test_speed_is_of_the_elapsed_time_and_a_warning_if_prompts_are_not_shared(
    shares_prefixes: bool, status: str
) -> None:
    """300 tokens in 2 s of llama.cpp: 150 per second. 3 s for 6 verdicts: 0.5 s each."""
    engine = TimedEngine({}, default=0.1)
    engine.shares_prefixes = shares_prefixes
    judge = Examinee(WRITER, engine, Progress())
    judge.ask(TASKS)
    engine.now = EngineStats(evaluated_tokens=100, seconds_inside=1, seconds_total=1)
    judge.start_clock()
    judge.ask(TASKS[:6])
    engine.now = EngineStats(evaluated_tokens=400, seconds_inside=3, seconds_total=4)
    check = judge.check_speed()
    assert check.status == status
    assert check.figures == {
        "tokens_per_second": 150,
        "seconds_per_verdict": 0.5,
        "verdicts": 6,
        "shares_prefixes": shares_prefixes,
    }
