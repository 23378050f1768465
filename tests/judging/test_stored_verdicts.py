"""From the stored answers of several judges to one verdict."""

import pytest

from localjudge.judging.answers import NOT_YET, decide, jury_verdict
from localjudge.judging.questions import NO_CONTEXT, TaskRef
from localjudge.metrics import Attribution, Span, Unit, Verdict
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow
from localjudge.types import Answer, Combination, NoAnswer, VerdictRule

UNIT = Unit(kind="statement", index=0, source="response", span=Span.whole("It rains."))
TASK = TaskRef("1", "faithfulness", 0, Attribution(unit=UNIT, contexts=("It rains.",)))
NAMES = ["a", "b"]
JUDGES = dict(enumerate(NAMES))
RULE = VerdictRule(0.5, 0.01, combinations={"faithfulness": Combination({"a": 1.0, "b": 1.0})})


def verdict(p_yes: float, **more: object) -> Verdict:
    return Verdict.model_validate({"label": 0, "p_yes": p_yes, "valid_mass": 1.0, **more})


def answer(p_yes: float, mass: float = 1.0) -> Answer:
    return Answer(p_yes=p_yes, valid_mass=mass, raw="")


def test_the_verdict_names_the_probability_of_each_judge() -> None:
    """Log 4 - log 3 = log (4 / 3), so p = 4 / 7."""
    of_jury = jury_verdict(
        {"b": verdict(0.25, valid_mass=0.7), "a": verdict(0.8)}, RULE, "faithfulness"
    )
    assert isinstance(of_jury, Verdict)
    assert of_jury.p_yes == pytest.approx(4 / 7)
    assert (of_jury.label, of_jury.valid_mass, of_jury.judges) == (1, 0.7, {"a": 0.8, "b": 0.25})
    assert (of_jury.window, of_jury.reason) == (None, None)


def test_a_metrics_threshold_decides() -> None:
    rule = RULE._replace(thresholds={"faithfulness": 0.6})
    of_jury = jury_verdict({"a": verdict(0.8), "b": verdict(0.25)}, rule, "faithfulness")
    assert isinstance(of_jury, Verdict)
    assert of_jury.label == 0


@pytest.mark.parametrize(
    ("windows", "expected"),
    [((None, 2), 2), ((2, 2), 2), ((1, 2), None), ((None, None), None)],
)
def test_the_window_of_a_jury_is_that_of_all_judges_with_windows(
    windows: tuple[int | None, int | None], expected: int | None
) -> None:
    parts = {name: verdict(0.5, window=window) for name, window in zip(NAMES, windows, strict=True)}
    of_jury = jury_verdict(parts, RULE, "faithfulness")
    assert isinstance(of_jury, Verdict)
    assert of_jury.window == expected


def test_a_judge_without_an_answer_fails_the_verdict_by_name() -> None:
    of_jury = jury_verdict(
        {"a": verdict(0.9), "b": NoAnswer(error="too long", valid_mass=0.1)},
        RULE,
        "faithfulness",
    )
    assert of_jury == NoAnswer(error="b: too long", valid_mass=0.1)


def test_a_verdict_without_context_is_not_combined() -> None:
    assert jury_verdict({"a": NO_CONTEXT, "b": NO_CONTEXT}, RULE, "faithfulness") == NO_CONTEXT


def test_reasons_are_shown_by_judge() -> None:
    of_jury = jury_verdict(
        {"a": verdict(0.9, reason="so"), "b": verdict(0.9)}, RULE, "faithfulness"
    )
    assert isinstance(of_jury, Verdict)
    assert of_jury.reason == "a: so"


def test_windows_of_each_judge_are_judged_first() -> None:
    """The most probable window of a has .8, that of b .25: p = 4 / 7 as above."""
    answers = {
        AskedUnit("1", "faithfulness", 0, 0): [
            AskedWindow(0, "k0", answer(0.1)),
            AskedWindow(1, "k1", answer(0.8)),
        ],
        AskedUnit("1", "faithfulness", 0, 1): [AskedWindow(None, "k2", answer(0.25))],
    }
    of_jury = decide(TASK, answers, JUDGES, RULE)
    assert isinstance(of_jury, Verdict)
    assert of_jury.p_yes == pytest.approx(4 / 7)
    assert of_jury.window == 1


@pytest.mark.parametrize("number", [None, 0, 3])
def test_the_only_window_of_a_unit_has_its_number(number: int | None) -> None:
    """A sentence is judged in the window where it begins. None stands for the whole text."""
    answers = {
        AskedUnit("1", "faithfulness", 0, 0): [AskedWindow(number, "k0", answer(0.8))],
        AskedUnit("1", "faithfulness", 0, 1): [AskedWindow(None, "k1", answer(0.25))],
    }
    of_jury = decide(TASK, answers, JUDGES, RULE)
    assert isinstance(of_jury, Verdict)
    assert of_jury.window == number


@pytest.mark.parametrize(
    ("windows", "unasked", "expected"),
    [
        ([], {}, NOT_YET),
        ([AskedWindow(0, "k", None)], {}, NOT_YET),
        ([AskedWindow(0, "k", answer(0.5)), AskedWindow(1, "l", None)], {}, NOT_YET),
        ([AskedWindow(0, "k", NoAnswer(error="too long"))], {}, NoAnswer(error="b: too long")),
        (
            [],
            {AskedUnit("1", "faithfulness", 0, 1): NoAnswer(error="no words")},
            NoAnswer(error="b: no words"),
        ),
    ],
)
def test_a_missing_answer_is_waited_for_and_a_failure_is_one(
    windows: list[AskedWindow],
    unasked: dict[AskedUnit, Verdict | NoAnswer],
    expected: NoAnswer,
) -> None:
    answers = {AskedUnit("1", "faithfulness", 0, 0): [AskedWindow(None, "a", answer(0.8))]}
    if windows:
        answers[AskedUnit("1", "faithfulness", 0, 1)] = windows
    of_jury = decide(TASK, {**answers, **unasked}, JUDGES, RULE)
    assert of_jury == expected
    assert (of_jury is NOT_YET) == (expected is NOT_YET)


def test_too_little_valid_mass_of_one_judge_fails() -> None:
    answers = {
        AskedUnit("1", "faithfulness", 0, 0): [AskedWindow(None, "a", answer(0.8))],
        AskedUnit("1", "faithfulness", 0, 1): [AskedWindow(None, "b", answer(0.8, mass=0.001))],
    }
    of_jury = decide(TASK, answers, JUDGES, RULE)
    assert isinstance(of_jury, NoAnswer)
    assert of_jury.error.startswith("b: ")
    assert of_jury.valid_mass == 0.001


def test_a_judge_without_a_weight_for_the_metric_takes_no_part() -> None:
    """Only b has one, and answers 0.8; no judge waits for a."""
    rule = VerdictRule(0.5, 0.01, combinations={"faithfulness": Combination({"b": 1.0})})
    unit_of_b = AskedUnit("1", "faithfulness", 0, 1)
    answers = {unit_of_b: [AskedWindow(None, "key", answer(0.8))]}
    of_jury = decide(TASK, answers, JUDGES, rule)
    assert isinstance(of_jury, Verdict)
    assert of_jury.p_yes == pytest.approx(0.8)
    assert of_jury.judges == {"b": 0.8}
