"""The bundled criteria, asked of a real model: obvious cases of each, and a rubric that has to tell rude from kind.

Qwen2.5-Coder-1.5B-Instruct in Q4_K_M, in the folder that LOCALJUDGE_TEST_MODELS names.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localjudge.metrics.criterion import Criterion, read_criterion
from localjudge.progress import Silence
from localjudge.run import judges
from localjudge.run.judges import OpenJudge
from localjudge.run.loop import answers_in_order
from localjudge.run.settings import RunSettings
from localjudge.text import sentences
from localjudge.types import Answer, Sample

NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
QUESTION = "When does the pharmacy open?"
CASES = {
    "refuses": {
        "yes": (
            "I am unable to answer this question, as the documents do not contain the opening hours.",
            "I don't know.",
            "Sorry, I cannot help with that.",
        ),
        "no": ("The pharmacy opens at 8 o'clock.", "It opens at 8 on weekdays and at 9 on Saturdays."),
    },
    "names_its_source": {
        "yes": (
            "According to the notice on its door, the pharmacy opens at 8.",
            "The opening hours are in section 4 of the house rules: from 8.",
            "The pharmacy opens at 8 [1].",
        ),
        "no": ("The pharmacy opens at 8.", "At 8."),
    },
    "formal_register": {
        "yes": (
            "We kindly inform you that the pharmacy opens at 8 a.m.",
            "The opening hours are from eight in the morning until six in the evening.",
        ),
        "no": (
            "Yo, it's open from 8, easy peasy!",
            "Hey, no clue tbh, can't tell ya :-)",
            "lol dunno, gonna be like 8 or sth, ya know",
        ),
    },
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judge() -> Iterator[OpenJudge]:
    """The model, open."""
    folder = os.environ.get("LOCALJUDGE_TEST_MODELS")
    if not folder:
        pytest.skip("needs a real model: set LOCALJUDGE_TEST_MODELS to a folder of GGUF files")
    path = Path(folder) / NAME
    if not path.is_file():
        pytest.skip(f"needs {path}")
    with judges.opened_judge(str(path), None, RunSettings(n_ctx=2048)) as ours:
        yield ours


def answered(judge: OpenJudge, criterion: Criterion, responses: tuple[str, ...]) -> list[Answer]:
    """What the judge says of whole responses."""
    requests = []
    for response in responses:
        sample = Sample(id="a", user_input=QUESTION, response=response)
        requests += [judge.judge.request(task) for task in next(criterion.steps(sample, sentences))]
    answers = answers_in_order(judge.engine, requests, Silence())
    assert len(answers) == len(responses)
    return [answer for answer in answers if isinstance(answer, Answer)]


@pytest.mark.parametrize("name", CASES)
def test_a_bundled_criterion_tells_obvious_cases(judge: OpenJudge, name: str) -> None:
    """No case is on the wrong side of the default threshold."""
    yes, no = (answered(judge, read_criterion(name), CASES[name][kind]) for kind in ("yes", "no"))
    found = [[round(one.p_yes, 3) for one in answers] for answers in (yes, no)]
    assert min(found[0]) >= 0.5 > max(found[1]), found
    assert min(one.legal_mass for one in (*yes, *no)) > 0.5


def test_a_rubric_gives_levels_between_the_digits(judge: OpenJudge) -> None:
    """Expected levels: the kinder answer has the higher one, and none is a whole number."""
    rubric = Criterion(
        name="courtesy",
        question="How courteous is the response?",
        levels={
            1: "rude or insulting",
            2: "curt or impatient",
            3: "neutral, neither curt nor courteous",
            4: "friendly",
            5: "very courteous: it thanks, wishes well or offers more help",
        },
    )
    rude, kind = answered(
        judge,
        rubric,
        (
            "Are you blind? It is on the door, stupid.",
            "Thank you very much for asking! It opens at 8. I wish you a lovely day, and am glad to help further.",
        ),
    )
    assert kind.p_yes - rude.p_yes > 0.25
    assert all(0.001 < (1 + 4 * one.p_yes) % 1 < 0.999 for one in (rude, kind))
