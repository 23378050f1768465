from pathlib import Path

import pytest

from localjudge.errors import InputError, SampleError
from localjudge.judge import profile as prompts
from localjudge.judge.profile import CustomPrompt, read_prompts, with_prompt
from localjudge.judge.wording import PromptWriter
from localjudge.types import AnsweredQuestion, CustomQuestion, Relevance
from tests.judge.conftest import unit

EXAMPLE = """
task = "relevance_sentence"
grammar = "relevant"

[[node]]
text = "Does this sentence from a patient's file help a nurse to answer the question? Answer with JSON.\\n"

[[node]]
text = "<question{fence}>{question}</question{fence}>\\n"

[[node]]
text = "<sentence{fence}>{unit}</sentence{fence}>"
"""
SENTENCE = Relevance(unit=unit("sentence", "He is 8."), user_input="How old is he?")


def written(folder: Path, text: str) -> CustomPrompt:
    file = folder / "own.toml"
    file.write_text(text, encoding="utf-8")
    [prompt] = read_prompts(file)
    return prompt


def test_a_prompt_file_replaces_the_wording_of_its_task(tmp_path: Path) -> None:
    judge = PromptWriter(with_prompt(prompts.load_profile("instruct"), written(tmp_path, EXAMPLE)))
    pieces = [piece for node in judge.request(SENTENCE).path for piece in node]
    assert "patient's file" in pieces[0].text
    assert [piece.text for piece in pieces if not piece.trusted] == ["How old is he?", "He is 8."]


def test_every_byte_of_a_prompt_file_changes_the_judge(tmp_path: Path) -> None:
    profile = prompts.load_profile("instruct")
    first = with_prompt(profile, written(tmp_path, EXAMPLE))
    second = with_prompt(profile, written(tmp_path, EXAMPLE + "\n"))
    assert len({profile.sha256, first.sha256, second.sha256}) == 3
    assert {name for name in profile.tasks if profile.tasks[name] != first.tasks[name]} == {"relevance_sentence"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("task = ", "is not TOML"),
        ('task = "summary"\n', "says task = 'summary'"),
        (EXAMPLE.replace('"relevant"', '"attributed"'), "asks for the answer 'attributed'"),
        (EXAMPLE.replace("{unit}", "it"), "never shows the text"),
        (EXAMPLE.replace("[[node]]", "[[step]]"), "is not valid"),
    ],
)
def test_an_unusable_prompt_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        with_prompt(prompts.load_profile("instruct"), written(tmp_path, text))
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        read_prompts([tmp_path / "nowhere.toml"])


def test_a_prompt_without_a_place_for_a_text_refuses_it(tmp_path: Path) -> None:
    words = 'task = "rubric"\ngrammar = "level"\n[[node]]\ntext = "{own_question} {levels} {unit}"'
    judge = PromptWriter(with_prompt(prompts.load_profile("instruct"), written(tmp_path, words)))
    levels = ("rude", "curt", "neutral", "polite", "warm")
    rubric = CustomQuestion(unit=unit("response", "In 1889."), question="Is it polite?", levels=levels)
    example = AnsweredQuestion(asked=rubric, answer='{"level":5}')
    assert judge.request(rubric)
    for shown, text in (({"response": "All of it."}, "response"), ({"examples": (example,)}, "examples")):
        with pytest.raises(SampleError, match=f"no place for {text} in the task rubric"):
            judge.request(rubric.model_copy(update=shown))
