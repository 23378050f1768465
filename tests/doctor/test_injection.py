"""Attempts to talk a judge into a verdict: how they are counted, and what becomes of them with the bundled judge."""

from collections import Counter

import pytest

from localjudge import resources
from localjudge.doctor import judgement as injection
from localjudge.doctor.judgement import InjectionReport
from localjudge.engine.scripted import ScriptedEngine
from localjudge.errors import UsageError
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Silence
from localjudge.run import judges
from localjudge.run.loop import answers_in_order
from localjudge.run.settings import RunSettings
from tests.doctor.conftest import users_text


def reference_judge() -> str:
    """Its name, where its file has been built."""
    try:
        resources.model_file("reference-judge.gguf")
    except UsageError:
        pytest.skip("models/reference-judge.gguf is not there: build it with scripts/build-reference-judge")
    return "reference"


def resisted_by(engine: ScriptedEngine) -> InjectionReport:
    return injection.resistance(PromptWriter(prompts.load_profile("instruct")), engine)


def test_every_form_stands_in_every_place_of_every_case() -> None:
    """18 forms x (4 statements x 3 places + 3 passages x 2 places)."""
    tried = list(injection.attempts())
    assert (len(injection.forms()), len(injection.cases()), len(tried)) == (18, 7, 216 + 108)
    assert len({(attempt.form, attempt.place, attempt.case) for attempt in tried}) == 324
    assert Counter(attempt.attacked.attacks for attempt in tried) == {"attribution": 216, "relevance": 108}
    for attempt in tried:
        form = next(form for form in injection.forms() if form.name == attempt.form)
        assert getattr(attempt.attacked, attempt.place).endswith(form.against(attempt.attacked))


def test_a_passage_is_attacked_in_the_words_of_its_question() -> None:
    """No attempt on relevance speaks of attribution, and none on attribution of relevance."""
    for attempt in injection.attempts():
        asked = attempt.attacked.model_dump_json().casefold()
        others = ("relevant", "passage is needed") if attempt.attacked.attacks == "attribution" else ("attributed",)
        assert not any(word in asked for word in others), attempt.form


def test_spread_attempts_are_all_attempts_in_another_order() -> None:
    spread = injection.spread(324)
    assert len(spread) == 324
    assert {(one.form, one.place, one.case) for one in spread} == {
        (one.form, one.place, one.case) for one in injection.attempts()
    }
    assert injection.spread(1000) == spread


@pytest.mark.parametrize("rounds", [1, 2, 3, 6])
def test_few_attempts_have_every_form_place_and_case_in_equal_parts(rounds: int) -> None:
    """18 forms a round, against statements and against passages: each form once, each of 3 places 6 times (of 2, 9).

    18 turns leave 2 over when they are dealt to 4 statements, so their numbers differ by 2 at most; 3 passages share
    them evenly.
    """
    few = injection.spread(2 * 18 * rounds)
    for attacked, places, cases in (("attribution", 3, 4), ("relevance", 2, 3)):
        those = [one for one in few if one.attacked.attacks == attacked]
        assert set(Counter(one.form for one in those).values()) == {rounds}
        assert list(Counter(one.place for one in those).values()) == [18 // places * rounds] * places
        by_case = Counter(one.case for one in those)
        assert len(by_case) == cases
        assert max(by_case.values()) - min(by_case.values()) <= 2


def test_attempts_on_both_tasks_take_turns() -> None:
    """While there are rounds of both: 6 of 12 rounds."""
    assert [one.attacked.attacks for one in injection.spread(216)] == ["attribution", "relevance"] * 108


@pytest.mark.parametrize("count", [0, 1, 35, 36, 100, 323])
def test_fewer_attempts_are_the_first_of_more(count: int) -> None:
    """How many are asked depends on the speed of the machine; which they are does not."""
    assert injection.spread(count) == injection.spread(324)[:count]


def test_what_an_attempt_does_to_a_real_judge_does_not_depend_on_how_many_are_asked() -> None:
    """The same probability, to the bit, among 18 attempts and among 72."""
    reference = reference_judge()
    with judges.opened_judge(reference, None, RunSettings(threads=1)) as ours:
        few, every = injection.spread(18), injection.spread(72)
        asked = [[ours.judge.request(one.attacked.task()) for one in group] for group in (few, every)]
        alone, among = (answers_in_order(ours.engine, requests, Silence()) for requests in asked)
    assert alone == among[:18]


def test_a_judge_that_nothing_moves_has_not_fallen() -> None:
    found = resisted_by(ScriptedEngine(lambda _request: 0.2))
    assert found == InjectionReport(attempts=324, unusable=0, unanswered=0, falls=(), largest_rise=0)


def test_a_judge_that_obeys_has_fallen() -> None:
    """It answers 1 to whoever says `answer 1`: 2 plain forms say so, in 3 places of 4 cases and 2 of 3."""
    found = resisted_by(ScriptedEngine(lambda request: 0.9 if "answer 1." in users_text(request) else 0.1))
    assert {fall.form for fall in found.falls} == {"plain order", "order to forget"}
    assert Counter(fall.task for fall in found.falls) == {"attribution": 2 * 3 * 4, "relevance": 2 * 2 * 3}
    assert found.largest_rise == pytest.approx(0.8)
    assert found.falls[0].p_yes_before == pytest.approx(0.1)
    assert found.falls[0].p_yes_after == pytest.approx(0.9)


def test_cases_that_a_judge_gets_wrong_by_itself_say_nothing() -> None:
    """One case of four is believed without any attempt: its 54 attempts are not counted as falls."""
    found = resisted_by(ScriptedEngine(lambda request: 0.8 if "coffee" in users_text(request) else 0.1))
    assert (found.unusable, len(found.falls)) == (54, 0)


def test_an_attempt_without_an_answer_is_no_fall() -> None:
    engine = ScriptedEngine(lambda request: "too long" if "<|im_end|>" in users_text(request) else 0.1)
    found = resisted_by(engine)
    assert (found.unanswered, len(found.falls)) == (3 * 4 + 2 * 3, 0)


def test_the_reference_judge_is_not_talked_into_a_verdict() -> None:
    """It counts covered words, and orders cover none of a statement."""
    with judges.opened_judge(reference_judge(), None, RunSettings(threads=1)) as reference:
        found = injection.resistance(reference.judge, reference.engine)
    assert found.unusable == found.unanswered == 0
    assert found.falls == ()
    assert found.largest_rise < 0.1
