"""Bundled criteria and a rubric with a real model on obvious cases.

Qwen2.5-Coder-1.5B-Instruct in Q4_K_M, in the folder that LOCALJUDGE_TEST_MODELS names.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge import Criterion, Sample
from localjudge.judging import judges
from localjudge.judging.questions import answers_in_order
from localjudge.judging.settings import RunSettings
from localjudge.metrics.criterion import read_criterion
from localjudge.progress import Progress
from localjudge.text import sentences
from localjudge.types import Answer

NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judge() -> Iterator[Any]:
    path = Path(os.environ.get("LOCALJUDGE_TEST_MODELS", "")) / NAME
    if not path.is_file():
        pytest.skip(f"needs a real model: set LOCALJUDGE_TEST_MODELS to a folder with {NAME}")
    with closing(judges.open_judge(str(path), RunSettings(n_ctx=2048))) as opened:
        yield opened


def ask(judge: Any, criterion: Criterion, *responses: str) -> list[Answer]:
    samples = [
        Sample(id="a", user_input="When does the pharmacy open?", response=text)
        for text in responses
    ]
    tasks = [task for sample in samples for task in next(criterion.steps(sample, sentences))]
    answers = answers_in_order(judge.engine, list(map(judge.prompts.request, tasks)), Progress())
    assert len(answers) == len(responses)
    return [answer for answer in answers if isinstance(answer, Answer)]


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
    judge: Any, name: str, yes: tuple[str, ...], no: tuple[str, ...]
) -> None:
    """No case is on the wrong side of the default threshold."""
    right, wrong = (ask(judge, read_criterion(name), *texts) for texts in (yes, no))
    assert min(answer.p_yes for answer in right) >= 0.5 > max(answer.p_yes for answer in wrong)
    assert min(answer.valid_mass for answer in (*right, *wrong)) > 0.5


def test_a_rubric_gives_levels_between_the_digits(judge: Any) -> None:
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
    rude, kind = ask(judge, rubric, "Are you blind? It is on the door, stupid.", kindly)
    assert kind.p_yes - rude.p_yes > 0.25
    assert all(0.001 < (1 + 4 * answer.p_yes) % 1 < 0.999 for answer in (rude, kind))
