"""Files that other packages wrote, by their own methods, hold the same samples.

Those of promptfoo were written in their folder by `promptfoo eval -c config.json --no-cache -o results.json -o
results.jsonl -o results.csv`: its provider `echo` answers what it is asked.
"""

from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.dataset import load
from localjudge.errors import DataError
from tests.integrations.example import ALL, EXAMPLE, SCORES, example, said

FILES = Path(__file__).parent / "files"
WITHOUT_REFERENCE = ("user_input", "retrieved_contexts", "response")
WITHOUT_CONTEXTS = ("user_input", "response", "reference")
SEPARATOR = {"context_separator": "|"}


@pytest.mark.parametrize(
    ("name", "fields", "how"),
    [
        ("ragas-0.4.3/samples.jsonl", ALL, {}),
        ("ragas-0.4.3/samples.csv", ALL, {}),
        ("ragas-0.4.3/conversations.jsonl", WITHOUT_CONTEXTS, {}),
        ("datasets-5.0.1/table.csv", ALL, {}),
        ("datasets-5.0.1/saved/data-00000-of-00001.arrow", ALL, {}),
        ("datasets-5.0.1/table.feather", ALL, {}),
        ("deepeval-4.3.1/cases.json", ALL, {}),
        ("deepeval-4.3.1/cases.csv", ALL, SEPARATOR),
        ("deepeval-4.3.1/cases.jsonl", ALL, SEPARATOR),
        ("haystack-ai-3.4.0/answers.jsonl", WITHOUT_REFERENCE, {}),
        ("haystack-ai-3.4.0/results.jsonl", WITHOUT_REFERENCE, {}),
        ("haystack-ai-3.4.0/rows.jsonl", ALL, {}),
        ("langchain-core-1.7.2/dumpd.jsonl", ALL, {}),
        ("langchain-core-1.7.2/model_dump.jsonl", ALL, {}),
        ("llama-index-core-0.14.25/responses.jsonl", ALL, {}),
        ("inspect-ai-0.3.285/log.json", ALL, {}),
        ("promptfoo-0.121.20/results.json", ALL, {}),
        ("promptfoo-0.121.20/results.jsonl", ALL, {}),
        ("promptfoo-0.121.20/results.csv", WITHOUT_CONTEXTS, {}),  # its lists are joined by commas
    ],
)
def test_a_file_that_another_package_wrote_holds_the_example(
    name: str, fields: tuple[str, ...], how: dict[str, Any]
) -> None:
    assert said(load(FILES / name, **how).samples, fields) == example(fields)


@pytest.mark.parametrize("name", ["deepeval-4.3.1/cases.csv", "deepeval-4.3.1/cases.jsonl"])
def test_lists_that_deepeval_joined_are_refused_until_they_are_split(name: str) -> None:
    with pytest.raises(DataError, match=r"found one text with '\|' in it"):
        load(FILES / name)


def test_the_folder_that_datasets_saved_says_which_files_to_name() -> None:
    with pytest.raises(DataError, match=r"saved is a folder\n.*saved/\*\.arrow"):
        load(FILES / "datasets-5.0.1/saved")


def test_samples_of_inspect_keep_their_ids() -> None:
    data = load(FILES / "inspect-ai-0.3.285/log.json")
    assert [sample.id for sample in data.samples] == ["s1", "s2"]


def test_documents_keep_their_ids_scores_and_meta() -> None:
    (node, *_), *_ = (
        sample.retrieved_contexts or () for sample in load(FILES / "llama-index-core-0.14.25/responses.jsonl").samples
    )
    assert (node.id, node.score, node.meta) == ("n0", 0.5, {"page": 0})
    (document, *_), *_ = (
        sample.retrieved_contexts or () for sample in load(FILES / "langchain-core-1.7.2/dumpd.jsonl").samples
    )
    assert document.meta == {"page": 1, "type": "Document"}


def test_the_last_turn_of_a_conversation_is_counted() -> None:
    assert load(FILES / "ragas-0.4.3/conversations.jsonl").conversations == len(EXAMPLE)
    assert load(FILES / "ragas-0.4.3/samples.jsonl").conversations == 0


@pytest.mark.engine
@pytest.mark.parametrize("name", ["inspect-ai-0.3.285/log.json", "promptfoo-0.121.20/results.json"])
def test_the_reference_judge_gives_the_scores_that_the_example_has(name: str, tmp_path: Path) -> None:
    run = localjudge.evaluate(FILES / name, metrics=[*SCORES], out=tmp_path / "run")
    assert {metric: run[metric].mean for metric in SCORES} == pytest.approx(SCORES)
