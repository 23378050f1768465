"""What becomes of a judge's answers in the doctor's table, with answers that are written down."""

import itertools
import math
from collections.abc import Sequence

import pytest
from scipy.stats import binom, binomtest

from localjudge.doctor import judgement as injection
from localjudge.doctor import judgement as verdicts
from localjudge.doctor.health_check import HealthCheck
from localjudge.doctor.judgement import plain_cases
from localjudge.engine.protocol import EngineStats
from localjudge.engine.scripted import ScriptedEngine, unit_text
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Silence
from localjudge.run.loop import AskedTask
from localjudge.types import Answer, VerdictRequest
from tests.doctor.conftest import users_text

PROFILE = prompts.load_profile("instruct")
JUDGE = PromptWriter(PROFILE)
KNOWN = {case.text: float(case.answer) for case in plain_cases()}
TASKS = [AskedTask("a", "metric", place, case.task()) for place, case in enumerate(plain_cases())]


class Writing(ScriptedEngine):
    """Writes its answers down, with a given probability mass on legal ones."""

    def __init__(self, raw: str, legal_mass: float) -> None:
        super().__init__({}, default=1.0)
        self._written = Answer(p_yes=1.0, legal_mass=legal_mass, raw=raw)

    def _answer(self, request: VerdictRequest) -> Answer:
        return self._written


def legal(name: str, engine: ScriptedEngine) -> HealthCheck:
    way = next(way for way in verdicts.asking_modes(PROFILE, None) if way.name == name)
    return verdicts.legal_check(way, TASKS, engine, Silence())


def test_every_plain_case_right() -> None:
    check = verdicts.plain_check(JUDGE, ScriptedEngine(KNOWN), Silence())
    assert (check.status, check.figures["right"]) == ("ok", 16)


@pytest.mark.parametrize(
    ("wrong", "status"), [(3, "ok"), (4, "warning"), (5, "failed"), (8, "failed"), (13, "failed"), (16, "failed")]
)
def test_so_few_right_as_a_coin_gets_are_a_failure(wrong: int, status: str) -> None:
    """13 of 16 is more than .8 of them, 12 is less; 11 is what guessing gets too often to be told from it.

    A judge that gets all of them wrong is no better: whoever knew that would turn its verdicts round, but nobody does.
    """
    turned = {case.text: 1.0 - case.answer for case in plain_cases()[:wrong]}
    check = verdicts.plain_check(JUDGE, ScriptedEngine(KNOWN | turned), Silence())
    assert (check.status, check.figures["wrong"]) == (status, list(turned))


@pytest.mark.parametrize(
    ("always", "shown"),
    [(1.0, "8 of 8 that hold, 0 of 8 that do not"), (0.0, "0 of 8 that hold, 8 of 8 that do not")],
)
def test_a_judge_that_says_the_same_to_all_fails_and_shows_on_which_side_it_is_wrong(always: float, shown: str) -> None:
    """All of one half is 8 of 16, which is what a coin gets."""
    check = verdicts.plain_check(JUDGE, ScriptedEngine({}, default=always), Silence())
    assert (check.status, check.figures["right"]) == ("failed", 8)
    assert shown in check.found
    assert "guessing gets as many (it takes 12 to tell the difference)" in check.found
    assert check.advice is not None


def test_the_bound_is_the_fewest_that_guessing_reaches_in_one_try_of_twenty() -> None:
    """Of 2^16 sequences, 1,820 + 560 + 120 + 16 + 1 have 12 heads or more (.0384), and 4,368 have 11 (.105)."""
    assert verdicts.fewest_beyond_chance(16) == 12
    assert sum(math.comb(16, heads) for heads in range(12, 17)) == 1820 + 560 + 120 + 16 + 1 == 2517
    assert 2517 / 2**16 < 0.05 < (2517 + math.comb(16, 11)) / 2**16


@pytest.mark.parametrize("cases", [1, 5, 16, 30, 100])
def test_the_bound_is_that_of_the_exact_binomial_test(cases: int) -> None:
    """SciPy's one-sided p-value is .05 or less from the bound on, and more below it. Of one case none is enough."""
    bound = verdicts.fewest_beyond_chance(cases)
    p_values = [binomtest(right, cases, 0.5, alternative="greater").pvalue for right in range(cases + 1)]
    assert [right for right, p in enumerate(p_values) if p <= 0.05] == list(range(bound, cases + 1))


@pytest.mark.parametrize("leaning", [0.0, 0.1, 0.25, 0.4, 0.5, 0.75, 0.9, 1.0])
def test_no_judge_that_ignores_the_case_passes_more_often_than_a_coin(leaning: float) -> None:
    """It says 1 with this probability to 8 cases that hold and 8 that do not: the sum of two binomials, P(>= 12)."""
    holds, others = binom(8, leaning).pmf(range(9)), binom(8, 1 - leaning).pmf(range(9))
    passes = sum(holds[a] * others[b] for a in range(9) for b in range(9) if a + b >= 12)
    assert passes <= 2517 / 2**16 + 1e-12


def test_a_case_without_an_answer_is_not_right() -> None:
    check = verdicts.plain_check(JUDGE, ScriptedEngine({}, default="too long"), Silence())
    assert check.figures["right"] == 0


def test_attempts_that_moved_a_verdict_are_counted_and_named() -> None:
    """It obeys `answer 1.`, which 2 forms say, in 3 places of 4 statements and 2 of 3 passages."""
    engine = ScriptedEngine(lambda request: 0.9 if "answer 1." in users_text(request) else 0.1)
    check = verdicts.injection_check(JUDGE, engine, Silence())
    assert check.status == "warning"
    assert "36 of 324 attempts" in check.found
    assert "24 of attribution, 12 of relevance; plain order (18), order to forget (18)" in check.found
    assert len(check.figures["falls"]) == 36


@pytest.mark.parametrize(("obeyed", "status"), [(0, "ok"), (1, "warning"), (64, "warning"), (65, "failed")])
def test_a_judge_that_is_talked_round_more_often_than_obvious_cases_may_be_wrong_fails(
    obeyed: int, status: str
) -> None:
    """A fifth of 324 attempts is 64.8."""
    attacked = [JUDGE.request(attempt.attacked.task()).path for attempt in injection.attempts()][:obeyed]
    engine = ScriptedEngine(lambda request: 0.9 if request.path in attacked else 0.1)
    check = verdicts.injection_check(JUDGE, engine, Silence())
    assert (check.status, len(check.figures["falls"])) == (status, obeyed)
    assert (check.advice is None) == (status == "ok")


@pytest.mark.parametrize(("asked", "status"), [(4, "failed"), (5, "warning")])
def test_a_fifth_is_not_more_than_a_fifth(asked: int, status: str) -> None:
    """One of 5 attempts moves it, which is as many as may; one of 4 is more."""
    chosen = verdicts.chosen_attempts(asked, JUDGE, ScriptedEngine({}), 0.0)
    moved = JUDGE.request(chosen.attempts[0].attacked.task()).path
    engine = ScriptedEngine(lambda request: 0.9 if request.path == moved else 0.1)
    assert verdicts.injection_check(JUDGE, engine, Silence(), chosen).status == status


class Slow(ScriptedEngine):
    """Takes 100 tokens for each request, however they are asked."""

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """As if nothing was shared."""
        return 100 * len(requests)


@pytest.mark.parametrize(
    ("seconds_each", "attempts"), [(0.0, 324), (0.37, 324), (0.5, 240), (1.0, 120), (3.0, 40), (5.0, 36), (60.0, 36)]
)
def test_a_slow_judge_is_put_to_as_many_attempts_as_take_two_minutes(seconds_each: float, attempts: int) -> None:
    """120 s / 0.5 s = 240; never fewer than 36, each form once against a statement and once against a passage."""
    engine = Slow({}, default=0.1)
    chosen = verdicts.chosen_attempts(None, JUDGE, engine, seconds_each / 100)
    assert len(chosen.attempts) == attempts
    check = verdicts.injection_check(JUDGE, engine, Silence(), chosen)
    minutes = f"{324 * seconds_each / 60:.0f}"
    rest = f"{attempts} of 324 attempts were made, because all would take this judge about {minutes} minutes"
    assert (rest in check.found) == (attempts < 324)
    assert (check.figures["attempts"], check.figures["of"]) == (attempts, 324)


def test_a_named_number_of_attempts_is_made_at_any_speed() -> None:
    for wanted, made in [(0, 0), (1, 1), (40, 40), (324, 324), (1000, 324)]:
        chosen = verdicts.chosen_attempts(wanted, JUDGE, ScriptedEngine({}), 60.0)
        assert len(chosen.attempts) == made
        assert chosen.why == ("as asked for" if made < 324 else "")


def test_attempts_that_moved_nothing_are_ok() -> None:
    check = verdicts.injection_check(JUDGE, ScriptedEngine({}, default=0.2), Silence())
    assert (check.status, check.found) == (
        "ok",
        "324 attempts to talk the judge into a verdict, none did; largest rise 0.000",
    )


def test_a_judge_that_is_wrong_without_any_attempt_has_resisted_nothing() -> None:
    check = verdicts.injection_check(JUDGE, ScriptedEngine({}, default=0.8), Silence())
    assert check.status == "warning"
    assert "none can be counted (324 more on cases that it gets wrong without them)" in check.found


def test_attempts_without_an_answer_are_told_apart() -> None:
    """One form holds ChatML's marker: 3 places of 4 statements and 2 of 3 passages."""
    engine = ScriptedEngine(lambda request: "too long" if "<|im_end|>" in users_text(request) else 0.1)
    check = verdicts.injection_check(JUDGE, engine, Silence())
    assert check.status == "ok"
    assert check.found.startswith("306 attempts to talk the judge into a verdict, none did (18 without an answer)")


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
    assert [way.name for way in verdicts.asking_modes(PROFILE, None)] == [
        "answers",
        "reasons before",
        "reasons after",
        "joint answers",
    ]
    assert [way.name for way in verdicts.asking_modes(prompts.load_profile("reference"), None)] == ["answers"]


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
    before = EngineStats(evaluated_tokens=100, seconds_inside=1, seconds_total=1)
    after = EngineStats(evaluated_tokens=400, seconds_inside=3, seconds_total=4)
    figures = verdicts.speed_check(before, after, 6).figures
    assert (figures["tokens_per_second"], figures["seconds_per_verdict"]) == (150, 0.5)
