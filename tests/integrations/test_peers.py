"""Files and objects of other packages contain the same samples.

The promptfoo files were written by `promptfoo eval -c config.json --no-cache -o results.json -o
results.jsonl -o results.csv`, with its provider `echo`.
"""

from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import DataError, InputError
from localjudge.dataset import load
from tests.integrations import peers
from tests.integrations.example import ALL, EXAMPLE, SCORES, example, said

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


FILES = Path(__file__).parent / "files"
WITHOUT_REFERENCE = ("user_input", "retrieved_contexts", "response")
WITHOUT_CONTEXTS = ("user_input", "response", "reference")
SEPARATOR = {"context_separator": "|"}
LESS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "ragas-0.4.3/conversations.jsonl": (WITHOUT_CONTEXTS, {}),
    "deepeval-4.3.1/cases.csv": (ALL, SEPARATOR),
    "deepeval-4.3.1/cases.jsonl": (ALL, SEPARATOR),
    "haystack-ai-3.4.0/answers.jsonl": (WITHOUT_REFERENCE, {}),
    "haystack-ai-3.4.0/results.jsonl": (WITHOUT_REFERENCE, {}),
    "promptfoo-0.121.20/results.csv": (WITHOUT_CONTEXTS, {}),  # its lists are joined by commas
}
NAMES = sorted(file.relative_to(FILES).as_posix() for file in FILES.rglob("*.*") if file.is_file())


NO_DATA = {"promptfoo-0.121.20/config.json", "datasets-5.0.1/table.csv"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NO_DATA])
def test_files_of_other_packages_read_as_the_example(name: str) -> None:
    fields, how = LESS.get(name, (ALL, {}))
    assert said(load(FILES / name, **how).samples, fields) == example(fields)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "deepeval-4.3.1/cases.csv",
            r"csv:2.*: retrieval_context: found one text(?s:.*)context_separator='\|'",
        ),
        (
            "deepeval-4.3.1/cases.jsonl",
            r"jsonl:1.*: retrieval_context: found one text(?s:.*)context_separator='\|'",
        ),
        ("datasets-5.0.1/saved", r"saved is a folder\n.*saved/\*\.arrow"),
    ],
)
@pytest.mark.parametrize("skip_bad_rows", [False, True])
def test_joined_lists_and_folders_are_refused(name: str, problem: str, skip_bad_rows: bool) -> None:
    """A joined list is not a bad row: skipping would keep only the easy rows."""
    with pytest.raises(DataError, match=problem):
        load(FILES / name, skip_bad_rows=skip_bad_rows)


def test_lists_printed_by_numpy_are_refused() -> None:
    """`Dataset.to_csv` writes lists without commas, which Python would read as one text."""
    with pytest.raises(
        DataError,
        match=r"csv:2: retrieved_contexts: found a list .*json\.dumps",
    ):
        load(FILES / "datasets-5.0.1/table.csv")


def test_sample_ids_document_fields_and_conversation_counts_are_kept() -> None:
    assert [sample.id for sample in load(FILES / "inspect-ai-0.3.285/log.json").samples] == [
        "s1",
        "s2",
    ]
    files = ("llama-index-core-0.14.25/responses.jsonl", "langchain-core-1.7.2/dumpd.jsonl")
    node, document = ((load(FILES / name).samples[0].retrieved_contexts or ())[0] for name in files)
    assert (node.id, node.score, node.meta) == ("n0", 0.5, {"page": 0})
    assert document.meta == {"page": 1, "type": "Document"}
    files = ("ragas-0.4.3/conversations.jsonl", "ragas-0.4.3/samples.jsonl")
    assert [load(FILES / name).conversations for name in files] == [len(EXAMPLE), 0]


@pytest.mark.engine
@pytest.mark.parametrize("name", ["inspect-ai-0.3.285/log.json", "promptfoo-0.121.20/results.json"])
def test_files_of_peers_get_the_scores_of_the_example(name: str, tmp_path: Path) -> None:
    run = localjudge.evaluate(FILES / name, metrics=[*SCORES], out=tmp_path / "run")
    assert {metric: run[metric].mean for metric in SCORES} == pytest.approx(SCORES)


def check(data: Any, fields: tuple[str, ...] = ALL) -> None:
    assert said(load(data).samples, fields) == example(fields)


@pytest.mark.parametrize(
    ("package", "objects", "fields"),
    [
        ("ragas", "ragas_dataset", ALL),
        ("deepeval", "deepeval_cases", ALL),
        ("deepeval", "deepeval_dataset", ALL),
        ("haystack", "haystack_answers", WITHOUT_REFERENCE),
        ("langchain_core", "langchain_rows", ALL),
        ("llama_index.core", "llama_index_rows", ALL),
    ],
)
def test_objects_of_a_package_are_data(package: str, objects: str, fields: tuple[str, ...]) -> None:
    peers.require(package)
    check(getattr(peers, objects)(), fields)


def test_datasets() -> None:
    datasets = peers.require("datasets")
    table = datasets.Dataset.from_list(EXAMPLE)
    check(table)
    check(table.to_iterable_dataset())
    check(datasets.DatasetDict(test=table))
    check(datasets.IterableDatasetDict(test=table.to_iterable_dataset()))
    with pytest.raises(InputError, match="train, test"):
        load(datasets.DatasetDict(train=table, test=table))


def test_objects_of_haystack_in_rows() -> None:
    peers.require("haystack")
    check([{"retrieved_contexts": peers.haystack_documents(row)} | row for row in EXAMPLE])
    pairs = zip(EXAMPLE, peers.haystack_answers(), strict=True)
    check(
        [
            {"query": row["user_input"], "answer": answer, "ground_truth": row["reference"]}
            for row, answer in pairs
        ]
    )


def test_inspect(tmp_path: Path) -> None:
    """Inspect reads its binary log itself; samples of epoch 2 have names as in Inspect's files."""
    peers.require("inspect_ai")
    from inspect_ai.log import read_eval_log

    data = load(read_eval_log(str(peers.inspect_log(tmp_path, epochs=2))))
    assert [sample.id for sample in data.samples] == ["s1", "s2", "s1_epoch_2", "s2_epoch_2"]
    assert said(data.samples) == [*example(), *example()]
