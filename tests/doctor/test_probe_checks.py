"""The lines that the items make in the doctor's table, and when they warn or fail."""

from collections.abc import Callable

import pytest

from localjudge.doctor.health_check import HealthCheck, Use
from localjudge.doctor.probes import (
    JudgedArrangement,
    JudgedProbe,
    Probe,
    ProbeAnswers,
    admission_check,
    at_most_probes,
    not_fit_check,
    probe_checks,
    probe_figures,
    probes,
    probes_check,
    rearranged,
)

Scripted = Callable[[Probe], float | None]


def knows(item: Probe) -> float:
    return 0.9 if item.answer else 0.1


def says_yes(_item: Probe) -> float:
    return 0.8


def answers(p: Scripted, *, passages: int = 32, mass: float = 1.0, after: float = 0.9) -> ProbeAnswers:
    choice = at_most_probes(12 * passages)
    items = tuple(JudgedProbe(item, p(item)) for item in probes(passages))
    arranged = tuple(JudgedArrangement(one, 0.9, after) for one in rearranged(passages))
    return ProbeAnswers(choice, items, arranged, tuple(mass for item in items if item.p_yes is not None))


def lines(p: Scripted, *, after: float = 0.9) -> dict[str, HealthCheck]:
    return {check.name: check for check in probe_checks(probe_figures(answers(p, after=after)))}


def admission(given: ProbeAnswers, *, passes: bool = True, required: Use | None = None) -> HealthCheck:
    return admission_check(given, probe_figures(given), passes_plain_cases=passes, required=required)


def test_a_judge_that_knows_all_is_fit_for_everything() -> None:
    found = lines(knows)
    assert {name: check.status for name, check in found.items()} == dict.fromkeys(
        ["attribution", "relevance", "bias", "sensitivity", "order"], "ok"
    )
    check = admission(answers(knows))
    assert (check.status, check.figures["uses"]["relevance"]) == ("ok", ["ranking", "means", "thresholds"])
    assert check.found == (
        "attribution: fit for ranking, means and thresholds; relevance: fit for ranking, means and thresholds"
    )
    assert check.advice is not None


def test_a_judge_that_says_yes_to_all_leans_is_blind_to_changes_and_fit_for_nothing() -> None:
    """All of one half is right: balanced accuracy .5, AUC .5, and the share of yes is 1 where a half is so."""
    found = lines(says_yes)
    assert {name for name, check in found.items() if check.status == "warning"} == {
        "attribution",
        "relevance",
        "bias",
        "sensitivity",
    }
    assert found["attribution"].found.startswith(
        "AUC 0.50 [0.50, 0.50], balanced accuracy 0.50 [0.50, 0.50] on 256 items; calibration slope none"
    )
    assert "attribution +0.50 [+0.50, +0.50], relevance +0.50 [+0.50, +0.50]" in found["bias"].found
    assert "lowers p in 0 of 64 minimal pairs" in found["sensitivity"].found
    check = admission(answers(says_yes))
    assert (check.status, check.figures["uses"]) == ("warning", {"attribution": [], "relevance": []})


@pytest.mark.parametrize(("after", "status"), [(0.9, "ok"), (0.6, "ok"), (0.4, "warning")])
def test_verdicts_that_flip_by_order_are_a_warning(after: float, status: str) -> None:
    check = lines(knows, after=after)["order"]
    assert (check.status, check.figures["flipped"]) == (status, float(after < 0.5))
    assert check.figures["others swapped"]["asked"] == 32


@pytest.mark.parametrize(("required", "status"), [(None, "warning"), ("ranking", "failed"), ("thresholds", "failed")])
def test_what_is_required_and_not_there_is_a_failure(required: Use | None, status: str) -> None:
    assert admission(answers(says_yes), required=required).status == status
    assert admission(answers(knows), required=required).status == "ok"


def test_what_is_required_has_to_be_there_in_both_tasks() -> None:
    """It knows statements and guesses relevance."""

    def half(item: Probe) -> float:
        return knows(item) if item.task.unit.kind == "statement" else 0.5

    assert admission(answers(half)).status == "warning"
    assert admission(answers(half), required="ranking").status == "failed"
    assert admission(answers(half)).advice == (
        "do not use its verdicts of relevance: name a larger or better trained model (--judge)"
    )


@pytest.mark.parametrize(("required", "status"), [(None, "warning"), ("means", "failed")])
def test_few_passages_decide_nothing(required: Use | None, status: str) -> None:
    check = admission(answers(knows, passages=7), required=required)
    assert (check.status, check.figures["uses"]) == (status, None)
    assert check.found == "undecided: 7 passages are too few to tell (it takes 8)"
    assert admission(answers(knows, passages=8), required=required).status == "ok"


def test_few_answers_decide_nothing() -> None:
    def no_passages(item: Probe) -> float | None:
        return knows(item) if item.task.unit.kind == "statement" else None

    assert admission(answers(no_passages)).found == "undecided: too few items got an answer"


def test_a_judge_that_fails_the_plain_cases_is_not_fit_whatever_else_it_knows() -> None:
    check = admission(answers(knows), passes=False)
    assert (check.status, check.found.count("not fit (it fails the plain cases)")) == ("warning", 2)
    assert not_fit_check().status == "failed"


def test_all_that_was_asked_is_counted() -> None:
    given = answers(knows, passages=10, mass=0.75)
    check = probes_check(given, probe_figures(given))
    assert (check.status, check.found) == (
        "ok",
        "120 of 384 labelled items, of 10 of 32 passages, as asked for; legal answers get 75 % of its probability in "
        "the median, 75 % at least",
    )


@pytest.mark.parametrize(("mass", "status"), [(0.5, "ok"), (0.49, "warning")])
def test_little_probability_on_legal_answers_is_a_warning(mass: float, status: str) -> None:
    given = answers(knows, mass=mass)
    assert probes_check(given, probe_figures(given)).status == status
    assert admission(given).status == status


def test_items_without_an_answer_are_a_warning_and_none_with_one_a_failure() -> None:
    some = answers(lambda item: None if item.passage == "sourdough" else knows(item))
    check = probes_check(some, probe_figures(some))
    assert (check.status, "12 got no answer" in check.found) == ("warning", True)
    none = answers(lambda _item: None)
    assert probes_check(none, probe_figures(none)).status == "failed"
    assert list(probe_checks(probe_figures(none._replace(arrangements=())))) == []
