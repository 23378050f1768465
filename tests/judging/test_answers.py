import pytest

from localjudge.judging.answers import decide_verdict
from localjudge.metrics import Verdict
from localjudge.types import Answer, NoAnswer, VerdictRule

RULE = VerdictRule(threshold=0.5, min_valid_mass=0.01)


def answer(p_yes: float, valid_mass: float = 1.0) -> Answer:
    return Answer(p_yes=p_yes, valid_mass=valid_mass, raw="")


@pytest.mark.parametrize(
    ("p_yes", "valid_mass", "rule", "label"),
    [
        (0.5, 1.0, RULE, 1),
        (0.4999, 1.0, RULE, 0),
        (0.5, 0.01, RULE, 1),
        (0.5, 0.0099, RULE, None),
        (0.5, 0.0, RULE, None),
        (0.5, 0.0, VerdictRule(0.5, 0.0), 1),
    ],
)
def test_a_verdict_needs_the_threshold_and_enough_valid_mass(
    p_yes: float, valid_mass: float, rule: VerdictRule, label: int | None
) -> None:
    verdict = decide_verdict([(answer(p_yes, valid_mass), None)], rule)
    assert (verdict.label if isinstance(verdict, Verdict) else None) == label
    assert verdict.valid_mass == valid_mass


def test_the_largest_probability_of_the_windows_decides() -> None:
    windows = [(answer(0.2), 0), (answer(0.7, 0.9), 1), (answer(0.6), 2)]
    assert decide_verdict(windows, RULE) == Verdict(label=1, p_yes=0.7, valid_mass=0.9, window=1)


@pytest.mark.parametrize("second", [answer(0.9, 0.001), NoAnswer(error="too long")])
def test_one_unanswered_window_leaves_the_unit_unanswered(second: Answer | NoAnswer) -> None:
    """The supporting text may be in the unanswered window."""
    assert isinstance(decide_verdict([(answer(0.9), 0), (second, 1)], RULE), NoAnswer)
