from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import InputError
from tests.integrations import peers
from tests.integrations.example import ALL, EXAMPLE, example, said
from tests.integrations.test_files_of_peers import WITHOUT_REFERENCE

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


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
    check([{"query": row["user_input"], "answer": answer, "ground_truth": row["reference"]} for row, answer in pairs])


def test_inspect(tmp_path: Path) -> None:
    """Inspect reads its binary log itself; samples of the second epoch are named like the files of Inspect."""
    peers.require("inspect_ai")
    from inspect_ai.log import read_eval_log

    data = load(read_eval_log(str(peers.inspect_log(tmp_path, epochs=2))))
    assert [sample.id for sample in data.samples] == ["s1", "s2", "s1_epoch_2", "s2_epoch_2"]
    assert said(data.samples) == [*example(), *example()]
