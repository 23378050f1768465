"""From the answers about the windows of a unit to its verdict, by one judge or by several."""

import pytest

from localjudge.judging.evaluate import Answers
from localjudge.judging.questions import TaskRef
from localjudge.metrics import Attribution, Span, Unit, Verdict
from localjudge.run_directory.store_reader import AskedWindow
from localjudge.types import Answer, Combination, NoAnswer, VerdictRule

UNIT = Unit(kind="statement", index=0, source="response", span=Span.whole("It rains."))
TASK = TaskRef("1", "faithfulness", 0, Attribution(unit=UNIT, contexts=("It rains.",)))
NAMES = {0: "a", 1: "b"}
RULE = VerdictRule(0.5, 0.01)
JURY = VerdictRule(0.5, 0.01, combinations={"faithfulness": Combination({"a": 1.0, "b": 1.0})})
NOT_YET = Answers({0: "a"}, RULE).decide(TASK, {})
NO_CONTEXT = Verdict(label=0)
TOO_LONG = NoAnswer(error="too long", valid_mass=0.1)
Result = Verdict | NoAnswer
"""A result without a question."""


def window(
    p_yes: float, mass: float = 1.0, number: int | None = None, reason: str | None = None
) -> AskedWindow:
    return AskedWindow(number, "k", Answer(p_yes=p_yes, valid_mass=mass, raw="", reason=reason))


def alone(*windows: AskedWindow, rule: VerdictRule = RULE) -> Result:
    """Return the verdict of one judge."""
    return Answers({0: "a"}, rule).decide(TASK, {TASK.asked(0): windows})


def jury(
    a: list[AskedWindow] | Result, b: list[AskedWindow] | Result, rule: VerdictRule = JURY
) -> Result:
    """Return the verdict of the judges a and b."""
    return Answers(NAMES, rule).decide(TASK, {TASK.asked(0): a, TASK.asked(1): b})


@pytest.mark.parametrize(
    ("p_yes", "valid_mass", "rule", "label"),
    [
        (0.5, 1.0, RULE, 1),
        (0.4999, 1.0, RULE, 0),
        (0.5, 0.01, RULE, 1),
        (0.5, 0.0099, RULE, None),
        (0.5, 0.0, RULE, None),
        (0.5, 0.0, VerdictRule(0.5, 0.0), 1),
        (0.5, 1.0, RULE._replace(thresholds={"faithfulness": 0.6}), 0),
    ],
)
def test_a_verdict_needs_the_threshold_and_enough_valid_mass(
    p_yes: float, valid_mass: float, rule: VerdictRule, label: int | None
) -> None:
    verdict = alone(window(p_yes, valid_mass), rule=rule)
    assert getattr(verdict, "label", None) == label
    assert verdict.valid_mass == valid_mass


def test_the_largest_probability_of_the_windows_decides() -> None:
    windows = [window(0.2, number=0), window(0.7, 0.9, number=1), window(0.6, number=2)]
    assert alone(*windows) == Verdict(label=1, p_yes=0.7, valid_mass=0.9, window=1)


@pytest.mark.parametrize("second", [window(0.9, 0.001), AskedWindow(1, "l", TOO_LONG)])
def test_one_unanswered_window_leaves_the_unit_unanswered(second: AskedWindow) -> None:
    """The supporting text may be in the unanswered window."""
    assert isinstance(alone(window(0.9, number=0), second), NoAnswer)


def test_the_verdict_names_the_probability_of_each_judge() -> None:
    """Log 4 - log 3 = log (4 / 3), so p = 4 / 7. The smaller mass is the jury's."""
    of_jury = jury([window(0.8)], [window(0.25, 0.7)])
    assert isinstance(of_jury, Verdict)
    assert of_jury.p_yes == pytest.approx(4 / 7)
    assert (of_jury.label, of_jury.valid_mass, of_jury.judges) == (1, 0.7, {"a": 0.8, "b": 0.25})
    assert (of_jury.window, of_jury.reason) == (None, None)


def test_a_metrics_threshold_decides() -> None:
    """4 / 7 is below 0.6."""
    rule = JURY._replace(thresholds={"faithfulness": 0.6})
    assert getattr(jury([window(0.8)], [window(0.25)], rule), "label", None) == 0


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(None, 2, 2), (2, 2, 2), (1, 2, None), (None, None, None), (0, None, 0), (3, None, 3)],
)
def test_the_window_of_a_jury_is_that_of_all_judges_with_windows(
    first: int | None, second: int | None, expected: int | None
) -> None:
    """None stands for the whole text. The only window of a unit has its number, too."""
    of_jury = jury([window(0.8, number=first)], [window(0.25, number=second)])
    assert isinstance(of_jury, Verdict)
    assert of_jury.window == expected


def test_windows_of_each_judge_are_judged_first() -> None:
    """The most probable window of a has .8, that of b .25: p = 4 / 7 as above."""
    of_jury = jury([window(0.1, number=0), window(0.8, number=1)], [window(0.25)])
    assert isinstance(of_jury, Verdict)
    assert of_jury.p_yes == pytest.approx(4 / 7)
    assert of_jury.window == 1


def test_reasons_are_shown_by_judge() -> None:
    of_jury = jury([window(0.9, reason="so")], [window(0.9)])
    assert isinstance(of_jury, Verdict)
    assert of_jury.reason == "a: so"


def test_a_verdict_without_context_is_not_combined() -> None:
    assert jury(NO_CONTEXT, NO_CONTEXT) == NO_CONTEXT


@pytest.mark.parametrize(
    ("of_b", "expected"),
    [
        ([], NOT_YET),
        ([AskedWindow(0, "k", None)], NOT_YET),
        ([window(0.5, number=0), AskedWindow(1, "l", None)], NOT_YET),
        ([AskedWindow(0, "k", TOO_LONG)], NoAnswer(error="b: too long", valid_mass=0.1)),
        (TOO_LONG, NoAnswer(error="b: too long", valid_mass=0.1)),
    ],
)
def test_a_missing_answer_is_waited_for_and_a_failure_is_one(
    of_b: list[AskedWindow] | Result, expected: NoAnswer
) -> None:
    assert jury([window(0.8)], of_b) == expected


def test_too_little_valid_mass_of_one_judge_fails() -> None:
    of_jury = jury([window(0.8)], [window(0.8, 0.001)])
    assert isinstance(of_jury, NoAnswer)
    assert of_jury.error.startswith("b: ")
    assert of_jury.valid_mass == 0.001


def test_a_judge_without_a_weight_for_the_metric_takes_no_part() -> None:
    """Only b has one, and answers 0.8; no judge waits for a."""
    rule = VerdictRule(0.5, 0.01, combinations={"faithfulness": Combination({"b": 1.0})})
    of_jury = jury([], [window(0.8)], rule)
    assert isinstance(of_jury, Verdict)
    assert of_jury.p_yes == pytest.approx(0.8)
    assert of_jury.judges == {"b": 0.8}
