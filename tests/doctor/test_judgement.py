import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from localjudge.doctor import judgement
from localjudge.doctor.judgement import Examinee, attacked_cases, attempts, forms, plain_cases
from localjudge.engine.protocol import EngineStats
from localjudge.engine.scripted import ScriptedEngine, unit_text
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Silence
from localjudge.types import Answer, VerdictRequest

PROFILE = prompts.load_profile("instruct")
WRITER = PromptWriter(PROFILE)
KNOWN = {str(case.statement): float(case.answer) for case in plain_cases()}


class Timed(ScriptedEngine):
    """Engine of 100 tokens per request, with `stats` set by the test."""

    now = EngineStats()

    @property
    def stats(self) -> EngineStats:
        """As set by the test."""
        return self.now

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Count all tokens, without sharing."""
        return 100 * len(requests)


def at_speed(seconds_each: float) -> Examinee:
    engine = Timed({}, default=0.1)
    judge = Examinee(WRITER, engine, Silence())
    engine.now = EngineStats(evaluated_tokens=100, seconds_total=seconds_each)
    return judge


def asked(
    script: Callable[[VerdictRequest], float | str] | dict[str, float],
    default: float | str = 0.1,
) -> Examinee:
    return Examinee(WRITER, ScriptedEngine(script, default=default), Silence())


def users_text(request: VerdictRequest) -> str:
    return "\n".join(piece.text for node in request.path for piece in node if not piece.trusted)


def words(text: str) -> set[str]:
    function_words = "a and are by each for from in is of the to was where with"
    return set(re.findall(r"\w+", text.casefold())) - set(function_words.split())


def test_plain_cases_are_balanced_and_obvious() -> None:
    """Supported cases are copied; the others share no word with their evidence."""
    assert Counter(case.answer for case in plain_cases()) == {0: 8, 1: 8}
    assert [
        str(case.statement) in case.context
        for case in plain_cases()
        if case.context and case.answer
    ] == [True] * 5
    for case in plain_cases():
        if not case.answer:
            assert not words(str(case.statement)) & words(
                f"{case.context or ''} {case.question}"
            ), case.statement


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
    """13 of 16 is above .8, 12 below; 11 is within chance: of 16 guesses, 12 are right with p .038 and 11 with .105."""
    turned = {str(case.statement): 1.0 - case.answer for case in plain_cases()[:wrong]}
    check = judgement.check_plain_cases(asked(KNOWN | turned))
    assert (check.status, check.figures["wrong"], check.figures["right"]) == (
        status,
        list(turned),
        16 - wrong,
    )


def test_every_injection_is_tried_in_every_place_of_every_case() -> None:
    """18 forms x (4 statements x 3 places + 3 passages x 2 places)."""
    assert (len(forms()), len(attacked_cases()), len(attempts())) == (18, 7, 216 + 108)
    assert len({attempt[:3] for attempt in attempts()}) == 324
    for attempt in attempts():
        [form] = [form for form in forms() if form["name"] == attempt.form]
        words = (
            form.get("relevance", form["text"])
            if attempt.attacked.about == "relevance"
            else form["text"]
        )
        assert getattr(attempt.attacked, attempt.place).endswith(words)


@pytest.mark.parametrize("rounds", [1, 2, 3, 6])
def test_the_first_attempts_are_balanced(rounds: int) -> None:
    """Each round has 18 forms per task: each form once, each of 3 places 6 times (of 2, 9)."""
    few = attempts()[: 2 * 18 * rounds]
    assert [attempt.attacked.about for attempt in few] == ["attribution", "relevance"] * (
        18 * rounds
    )
    for about, places in (("attribution", 3), ("relevance", 2)):
        those = [attempt for attempt in few if attempt.attacked.about == about]
        assert set(Counter(attempt.form for attempt in those).values()) == {rounds}
        assert (
            list(Counter(attempt.place for attempt in those).values())
            == [18 // places * rounds] * places
        )
        by_case = Counter(attempt.case for attempt in those).values()
        assert max(by_case) - min(by_case) <= 2


def test_successful_attempts_are_counted_and_named() -> None:
    """The judge obeys `answer 1.`, which is in 2 forms, in 3 places of 4 statements and 2 of 3 passages."""
    check = judgement.check_injections(
        asked(lambda request: 0.9 if "answer 1." in users_text(request) else 0.1), attempts()
    )
    assert check.status == "warning"
    assert "plain order (18), order to forget (18)" in check.finding
    fall = {"task": "attribution", "form": "plain order", "place": "context", "case": 0}
    assert check.figures["falls"][0] == {**fall, "p_yes_before": 0.1, "p_yes_after": 0.9}


@pytest.mark.parametrize(
    ("obeyed", "made", "status"),
    [
        (0, 324, "ok"),
        (64, 324, "warning"),
        (65, 324, "failed"),
        (1, 5, "warning"),
        (1, 4, "failed"),
    ],
)
def test_too_many_successful_attempts_are_a_failure(obeyed: int, made: int, status: str) -> None:
    """The limit is a fifth: 64.8 of 324. One in 5 passes, one in 4 fails."""
    attacked = [WRITER.request(attempt.attacked.task()).path for attempt in attempts()[:obeyed]]
    check = judgement.check_injections(
        asked(lambda request: 0.9 if request.path in attacked else 0.1), attempts()[:made]
    )
    assert (check.status, len(check.figures["falls"])) == (status, obeyed)


def test_inconclusive_attempts_are_counted_separately() -> None:
    """On cases that are wrong without injection, or without an answer: one form has `<|im_end|>`."""
    wrong = judgement.check_injections(asked({}, 0.8), attempts())
    assert (wrong.status, wrong.figures["unusable"], wrong.figures["falls"]) == ("warning", 324, [])
    mute = judgement.check_injections(
        asked(lambda request: "too long" if "<|im_end|>" in users_text(request) else 0.1),
        attempts(),
    )
    assert (mute.status, mute.figures["unanswered"], mute.figures["attempts"]) == ("ok", 18, 324)


@pytest.mark.parametrize(
    ("seconds_each", "count"),
    [(0.0, 324), (0.37, 324), (0.5, 240), (1.0, 120), (3.0, 40), (5.0, 36), (60.0, 36)],
)
def test_a_slow_judge_gets_attempts_for_two_minutes(seconds_each: float, count: int) -> None:
    """120 s / 0.5 s = 240; at least 36, each form once per task."""
    judge = at_speed(seconds_each)
    selected, why = judgement.choose_attempts(judge, None)
    assert [len(judgement.choose_attempts(judge, wanted)[0]) for wanted in (0, 1, 40, 1000)] == [
        0,
        1,
        40,
        324,
    ]
    assert tuple(selected) == attempts()[:count]
    check = judgement.check_injections(judge, selected, why)
    assert (f"{count} of 324 injections tried, as all" in check.finding) == (count < 324)


@pytest.mark.parametrize(("mass", "status"), [(0.5, "ok"), (0.49, "warning")])
def test_little_probability_on_valid_answers_is_a_warning(mass: float, status: str) -> None:
    def answers(request: VerdictRequest) -> Answer:
        return Answer(p_yes=KNOWN[unit_text(request)], valid_mass=mass, raw="")

    engine = ScriptedEngine({})
    engine._answer = answers  # type: ignore[method-assign]
    check = judgement.check_plain_cases(Examinee(WRITER, engine, Silence()))
    assert (check.status, check.figures["least_valid_mass"]) == (status, mass)


def test_verdicts_that_depend_on_the_order_are_a_warning() -> None:
    """One engine raises each answer a little; another depends on the text only."""
    rising = itertools.count()
    check = judgement.check_again(asked(lambda _request: next(rising) / 100))
    assert (check.status, check.figures) == ("warning", {"asked": 6, "identical": 0})
    assert (
        judgement.check_again(asked(lambda request: len(unit_text(request)) / 1000)).status == "ok"
    )


def test_speed_uses_the_elapsed_time() -> None:
    """300 tokens in 2 s of llama.cpp: 150 per second. 3 s for 6 verdicts: 0.5 s each."""
    engine = Timed({}, default=0.1)
    judge = Examinee(WRITER, engine, Silence())
    judge.ask([case.task() for case in plain_cases()])
    engine.now = EngineStats(evaluated_tokens=100, seconds_inside=1, seconds_total=1)
    judge.start_clock()
    judge.ask([case.task() for case in plain_cases()[:6]])
    engine.now = EngineStats(evaluated_tokens=400, seconds_inside=3, seconds_total=4)
    assert judge.check_speed().figures == {
        "tokens_per_second": 150,
        "seconds_per_verdict": 0.5,
        "verdicts": 6,
    }
