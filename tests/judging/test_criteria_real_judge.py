"""Bundled criteria and a rubric with a real model on obvious cases.

Qwen2.5-Coder-1.5B-Instruct in Q4_K_M, in the folder that LOCALJUDGE_TEST_MODELS names.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localjudge import Criterion, Judge

NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    path = Path(os.environ.get("LOCALJUDGE_TEST_MODELS", "")) / NAME
    if not path.is_file():
        pytest.skip(f"needs a real model: set LOCALJUDGE_TEST_MODELS to a folder with {NAME}")
    with Judge.open(path, n_ctx=2048) as opened:
        yield opened


def ask(
    judge: Judge, criterion: str | Criterion, *responses: str
) -> tuple[list[float], list[float]]:
    """Return the probability and the valid mass of each answer."""
    question = "When does the pharmacy open?"
    rows = [{"user_input": question, "response": text} for text in responses]
    verdicts = judge.evaluate(rows, [criterion], out=False).verdicts
    assert len(verdicts) == len(responses)
    return [row.p_yes or 0 for row in verdicts], [row.valid_mass or 0 for row in verdicts]


@pytest.mark.parametrize(
    ("name", "yes", "no"),
    [
        (
            "refuses",
            (
                "I am unable to answer, as the documents do not contain the opening hours.",
                "I don't know.",
            ),
            (
                "The pharmacy opens at 8 o'clock.",
                "It opens at 8 on weekdays and at 9 on Saturdays.",
            ),
        ),
        (
            "names_its_source",
            (
                "According to the notice on its door, the pharmacy opens at 8.",
                "The pharmacy opens at 8 [1].",
            ),
            ("The pharmacy opens at 8.", "At 8."),
        ),
        (
            "formal_register",
            ("We kindly inform you that the pharmacy opens at 8 a.m.",),
            ("Yo, it's open from 8, easy peasy!", "lol dunno, gonna be like 8 or sth, ya know"),
        ),
    ],
)
def test_bundled_criteria_decide_obvious_cases(
    judge: Judge, name: str, yes: tuple[str, ...], no: tuple[str, ...]
) -> None:
    """No case is on the wrong side of the default threshold."""
    probabilities, masses = ask(judge, name, *yes, *no)
    count = len(yes)
    assert min(probabilities[:count]) >= 0.5 > max(probabilities[count:])
    assert min(masses) > 0.5


def test_a_rubric_gives_levels_between_the_digits(judge: Judge) -> None:
    """The kinder answer has the higher expected level, and no level is a whole number."""
    levels = {
        1: "rude or insulting",
        2: "curt",
        3: "neutral",
        4: "friendly",
        5: "very courteous: it offers more help",
    }
    rubric = Criterion(name="courtesy", question="How courteous is the response?", levels=levels)
    kindly = (
        "Thank you very much for asking! It opens at 8. I wish you a lovely day, and am glad to"
        " help further."
    )
    (rude, kind), _ = ask(judge, rubric, "Are you blind? It is on the door, stupid.", kindly)
    assert kind - rude > 0.25
    assert all(0.001 < (1 + 4 * p_yes) % 1 < 0.999 for p_yes in (rude, kind))
