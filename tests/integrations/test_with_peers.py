"""With the packages themselves: objects of theirs are data as they are.

Without a package its tests are skipped; CONTRIBUTING says how to install all of them.
"""

from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import InputError
from tests.integrations import peers
from tests.integrations.example import ALL, EXAMPLE, example, said
from tests.integrations.test_files_of_peers import WITHOUT_CONTEXTS, WITHOUT_REFERENCE

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


def objects(data: Any, fields: tuple[str, ...] = ALL) -> None:
    """The data, as they are, hold the example."""
    assert said(load(data).samples, fields) == example(fields)


def test_ragas() -> None:
    peers.require("ragas")
    objects(peers.ragas_dataset())
    objects(peers.ragas_dataset().samples)
    objects(peers.ragas_conversations(), WITHOUT_CONTEXTS)


def test_datasets() -> None:
    datasets = peers.require("datasets")
    table = datasets.Dataset.from_list(EXAMPLE)
    objects(table)
    objects(table.to_iterable_dataset())
    objects(datasets.DatasetDict(test=table))
    objects(datasets.IterableDatasetDict(test=table.to_iterable_dataset()))
    with pytest.raises(InputError, match=r"the data are 2 splits: train, test\n.*give one of them: data\['train'\]"):
        load(datasets.DatasetDict(train=table, test=table))


def test_deepeval() -> None:
    peers.require("deepeval")
    objects(peers.deepeval_cases())
    objects(peers.deepeval_dataset())


def test_haystack() -> None:
    peers.require("haystack")
    objects(peers.haystack_answers(), WITHOUT_REFERENCE)
    objects(peers.haystack_results(), WITHOUT_REFERENCE)
    objects([{"retrieved_contexts": peers.haystack_documents(row)} | row for row in EXAMPLE])
    rows = [
        {"query": row["user_input"], "answer": answer, "ground_truth": row["reference"]}
        for row, answer in zip(EXAMPLE, peers.haystack_answers(), strict=True)
    ]
    objects(rows)
    assert said(load(peers.haystack_results()[0]).samples, WITHOUT_REFERENCE) == example(WITHOUT_REFERENCE)[:1]


def test_langchain() -> None:
    peers.require("langchain_core")
    from langchain_core.messages import AIMessage, HumanMessage

    objects(peers.langchain_rows())
    talks = [
        {
            "messages": [HumanMessage(row["user_input"]), AIMessage(row["response"])],
            "reference": row["reference"],
            "contexts": row["retrieved_contexts"],
        }
        for row in EXAMPLE
    ]
    objects(talks)


def test_llama_index() -> None:
    peers.require("llama_index.core")
    objects(peers.llama_index_rows())


def test_inspect(tmp_path: Path) -> None:
    """Its binary log is read by inspect itself; a sample of the second epoch is called as inspect calls its file."""
    peers.require("inspect_ai")
    from inspect_ai.log import read_eval_log

    data = load(read_eval_log(str(peers.inspect_log(tmp_path, epochs=2))))
    assert [sample.id for sample in data.samples] == ["s1", "s2", "s1_epoch_2", "s2_epoch_2"]
    assert said(data.samples) == [*example(), *example()]
