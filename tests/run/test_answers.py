"""From answers to a verdict: the threshold, the windows, and what is no answer."""

import pytest

from localjudge.run.loop import verdict_of
from localjudge.types import Answer, NoAnswer, Verdict, VerdictRule

RULE = VerdictRule(threshold=0.5, min_legal_mass=0.01)


def answer(p_yes: float, legal_mass: float = 1.0) -> Answer:
    return Answer(p_yes=p_yes, legal_mass=legal_mass, raw="")


def test_the_largest_probability_of_the_windows_decides() -> None:
    windows = [(answer(0.2), 0), (answer(0.7, 0.9), 1), (answer(0.6), 2)]
    assert verdict_of(windows, RULE) == Verdict(label=1, p_yes=0.7, legal_mass=0.9, window=1)


@pytest.mark.parametrize(("legal_mass", "judged"), [(0.01, True), (0.0099, False), (0.0001, False), (0.0, False)])
def test_too_little_on_legal_answers_is_no_answer(legal_mass: float, judged: bool) -> None:
    """Even odds between answers that the model did not consider are no label, whatever the threshold says to .5."""
    found = verdict_of([(answer(0.5, legal_mass), None)], RULE)
    assert isinstance(found, Verdict) == judged
    assert found.legal_mass == legal_mass
    if isinstance(found, NoAnswer):
        assert "the model did not answer" in found.error
        assert "min_legal_mass" in found.error


def test_one_window_without_an_answer_leaves_the_unit_without_one() -> None:
    """The supporting text may stand in the window that the model said nothing of."""
    windows = [(answer(0.2), 0), (answer(0.9, 0.001), 1)]
    assert isinstance(verdict_of(windows, RULE), NoAnswer)


def test_at_0_any_answer_counts() -> None:
    found = verdict_of([(answer(0.5, 0.0), None)], VerdictRule(0.5, 0.0))
    assert found == Verdict(label=1, p_yes=0.5, legal_mass=0.0)


def test_the_first_reason_stands() -> None:
    windows: list[tuple[Answer | NoAnswer, int | None]] = [(answer(0.9), 0), (NoAnswer(error="too long"), 1)]
    assert verdict_of(windows, RULE) == NoAnswer(error="too long")
