"""What becomes of a judge's answers in the doctor's table, with answers that are written down."""

import itertools

import pytest

from localjudge.doctor import judgement as verdicts
from localjudge.doctor.check import Check
from localjudge.doctor.plain_cases import plain_cases
from localjudge.engine.protocol import Effort
from localjudge.engine.scripted import ScriptedEngine, unit_text
from localjudge.judge import prompts
from localjudge.judge.judge import PromptJudge
from localjudge.run.ask import AskedTask
from localjudge.run.progress import Silence
from localjudge.types import Answer, VerdictRequest

PROFILE = prompts.load("instruct")
JUDGE = PromptJudge(PROFILE)
KNOWN = {case.text: float(case.answer) for case in plain_cases()}
TASKS = [AskedTask("a", "metric", place, case.task()) for place, case in enumerate(plain_cases())]


class Writing(ScriptedEngine):
    """Writes its answers down, with a given probability mass on legal ones."""

    def __init__(self, raw: str, legal_mass: float) -> None:
        super().__init__({}, default=1.0)
        self._written = Answer(p_yes=1.0, legal_mass=legal_mass, raw=raw)

    def _answer(self, request: VerdictRequest) -> Answer:
        return self._written


def users_text(request: VerdictRequest) -> str:
    return "\n".join(piece.text for node in request.path for piece in node if not piece.trusted)


def legal(name: str, engine: ScriptedEngine) -> Check:
    way = next(way for way in verdicts.manners(PROFILE, None) if way.name == name)
    return verdicts.legal_check(way, TASKS, engine, Silence())


def test_every_plain_case_right() -> None:
    check = verdicts.plain_check(JUDGE, ScriptedEngine(KNOWN), Silence())
    assert (check.status, check.figures["right"]) == ("ok", 16)


@pytest.mark.parametrize(("wrong", "status"), [(3, "ok"), (4, "warning")])
def test_so_few_right_as_a_coin_gets_are_a_warning(wrong: int, status: str) -> None:
    """13 of 16 is more than .8 of them, 12 is less."""
    turned = {case.text: 1.0 - case.answer for case in plain_cases()[:wrong]}
    check = verdicts.plain_check(JUDGE, ScriptedEngine(KNOWN | turned), Silence())
    assert (check.status, check.figures["wrong"]) == (status, list(turned))


def test_a_judge_that_says_yes_to_all_shows_on_which_side_it_is_wrong() -> None:
    check = verdicts.plain_check(JUDGE, ScriptedEngine({}, default=1.0), Silence())
    assert "8 of 8 that hold, 0 of 8 that do not" in check.found


def test_a_case_without_an_answer_is_not_right() -> None:
    check = verdicts.plain_check(JUDGE, ScriptedEngine({}, default="too long"), Silence())
    assert check.figures["right"] == 0


def test_attempts_that_moved_a_verdict_are_counted_and_named() -> None:
    """It obeys `answer 1.`, which 2 forms say, in 3 places of 4 cases each."""
    engine = ScriptedEngine(lambda request: 0.9 if "answer 1." in users_text(request) else 0.1)
    check = verdicts.injection_check(JUDGE, engine, Silence())
    assert check.status == "warning"
    assert "24 of 216 attempts" in check.found
    assert "plain order (12), order to forget (12)" in check.found
    assert len(check.figures["falls"]) == 24


def test_attempts_that_moved_nothing_are_ok() -> None:
    check = verdicts.injection_check(JUDGE, ScriptedEngine({}, default=0.2), Silence())
    assert (check.status, check.found) == (
        "ok",
        "216 attempts to talk the judge into attributing a statement, none did; largest rise 0.000",
    )


def test_a_judge_that_is_wrong_without_any_attempt_has_resisted_nothing() -> None:
    check = verdicts.injection_check(JUDGE, ScriptedEngine({}, default=0.8), Silence())
    assert check.status == "warning"
    assert "none can be counted (216 more on cases that it gets wrong without them)" in check.found


def test_attempts_without_an_answer_are_told_apart() -> None:
    """One form holds ChatML's marker: 3 places of 4 cases."""
    engine = ScriptedEngine(lambda request: "too long" if "<|im_end|>" in users_text(request) else 0.1)
    check = verdicts.injection_check(JUDGE, engine, Silence())
    assert check.status == "ok"
    assert check.found.startswith(
        "204 attempts to talk the judge into attributing a statement, none did (12 without an answer)"
    )


@pytest.mark.parametrize(("mass", "status"), [(0.5, "ok"), (0.49, "warning")])
def test_little_probability_on_legal_answers_is_a_warning(mass: float, status: str) -> None:
    check = legal("answers", Writing('{"attributed":1}', mass))
    assert (check.status, check.figures["least_legal_mass"]) == (status, mass)


@pytest.mark.parametrize("raw", ['{"attributed":1', '{"attributed":2}', "1", '{"reason":"1"}'])
def test_an_answer_that_is_no_verdict_in_json_is_a_failure(raw: str) -> None:
    assert legal("answers", Writing(raw, 1.0)).status == "failed"


def test_no_answer_is_a_failure_only_for_the_manner_that_every_run_uses() -> None:
    silent = ScriptedEngine({}, default="the prompt does not fit")
    assert legal("answers", silent).status == "failed"
    joint = legal("joint answers", silent)
    assert (joint.status, joint.advice) == ("warning", "leave out --protocol joint with this judge")


def test_a_profile_is_asked_in_every_manner_that_it_knows() -> None:
    """The reference judge's knows no reasons and no joint answer."""
    assert [way.name for way in verdicts.manners(PROFILE, None)] == [
        "answers",
        "reasons before",
        "reasons after",
        "joint answers",
    ]
    assert [way.name for way in verdicts.manners(prompts.load("reference"), None)] == ["answers"]


def test_verdicts_that_depend_on_the_order_are_a_warning() -> None:
    """An engine whose every answer is a little higher than the one before."""
    rising = itertools.count()
    check = verdicts.again_check(JUDGE, ScriptedEngine(lambda _request: next(rising) / 100), Silence())
    assert (check.status, check.figures["identical"]) == ("warning", 0)


def test_verdicts_that_do_not_are_ok() -> None:
    engine = ScriptedEngine(lambda request: len(unit_text(request)) / 1000)
    assert verdicts.again_check(JUDGE, engine, Silence()).status == "ok"


def test_speed_is_that_of_the_time_between() -> None:
    """300 tokens in 2 s inside llama.cpp: 150 a second; 3 s in all for 6 verdicts: 0.5 s each."""
    before = Effort(evaluated_tokens=100, seconds_inside=1, seconds_total=1)
    after = Effort(evaluated_tokens=400, seconds_inside=3, seconds_total=4)
    figures = verdicts.speed_check(before, after, 6).figures
    assert (figures["tokens_per_second"], figures["seconds_per_verdict"]) == (150, 0.5)
