import itertools
import re
from collections import Counter

import pytest

from localjudge import ScriptedEngine
from localjudge.doctor.examinee import (
    Examinee,
    check_plain_cases,
    check_repeatability,
    plain_cases,
)
from localjudge.engine.protocol import EngineStats
from localjudge.engine.scripted import unit_text
from localjudge.progress import Progress
from localjudge.types import Answer, VerdictRequest
from tests.doctor.scripted_judges import RIGHT_ANSWERS, WRITER, TimedEngine, examinee

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


def content_words(text: str) -> set[str]:
    function_words = "a and are by each for from in is of the to was where with"
    return set(re.findall(r"\w+", text.casefold())) - set(function_words.split())


def test_plain_cases_are_balanced_and_obvious() -> None:
    """Supported cases are copied; the others share no word with their evidence."""
    assert Counter(case.answer for case in plain_cases()) == {0: 8, 1: 8}
    supported = [case for case in plain_cases() if case.context and case.answer]
    assert [str(case.statement) in str(case.context) for case in supported] == [True] * 5
    for case in plain_cases():
        if not case.answer:
            evidence = content_words(f"{case.context or ''} {case.question}")
            assert not content_words(str(case.statement)) & evidence, case.statement


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (0, "ok"),
        (3, "ok"),
        (4, "warning"),
        (5, "failed"),
        (8, "failed"),
        (13, "failed"),
        (16, "failed"),
    ],
)
def test_chance_level_on_plain_cases_is_a_failure(wrong: int, status: str) -> None:
    """13 of 16 is above .8, 12 below; 11 is within chance.

    Of 16 guesses, 12 are right with p .038 and 11 with .105.
    """
    wrong_answers = {str(case.statement): 1.0 - case.answer for case in plain_cases()[:wrong]}
    check = check_plain_cases(examinee(RIGHT_ANSWERS | wrong_answers))
    assert check.status == status
    assert check.figures["wrong"] == list(wrong_answers)
    assert check.figures["right"] == 16 - wrong
    assert check.figures["min_right_beyond_chance"] == 12


@pytest.mark.parametrize(("mass", "status"), [(0.5, "ok"), (0.49, "warning")])
def test_little_probability_on_valid_answers_is_a_warning(mass: float, status: str) -> None:
    def answer(request: VerdictRequest) -> Answer:
        return Answer(p_yes=RIGHT_ANSWERS[unit_text(request)], valid_mass=mass, raw="")

    engine = ScriptedEngine({})
    engine._answer = answer  # type: ignore[method-assign]
    check = check_plain_cases(Examinee(WRITER, engine, Progress()))
    assert (check.status, check.figures["min_valid_mass"]) == (status, mass)
