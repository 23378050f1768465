import enum
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from localjudge.dataset import load
from localjudge.dataset.formats import rows_of_table
from localjudge.errors import DataError, InputError
from localjudge.types import Context

ROWS: list[dict[str, Any]] = [
    {"id": "1", "question": "Where?", "contexts": ["a b", "c d"], "answer": "Here.", "score": 0.5},
    {"id": "2", "question": "When?", "contexts": ["e f"], "answer": None, "score": None},
]


def pandas_frame(**options: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(ROWS, **options)


def polars_frame() -> Any:
    return pytest.importorskip("polars").DataFrame(ROWS)


def arrow_table() -> Any:
    return pytest.importorskip("pyarrow").Table.from_pylist(ROWS)


TABLES: dict[str, Callable[[], Any]] = {
    "pandas with an index": lambda: pandas_frame(index=[7, 7]),
    "pandas with arrays in cells": lambda: arrow_table().to_pandas(),
    "pandas with its own nulls": lambda: pandas_frame().convert_dtypes(),
    "polars, lazy": lambda: polars_frame().lazy(),
    "Arrow table": arrow_table,
    "Arrow batch": lambda: arrow_table().to_batches()[0],
    "Arrow reader, to be read once": lambda: arrow_table().to_reader(),
    "Arrow of any package": lambda: SimpleNamespace(__arrow_c_stream__=arrow_table().__arrow_c_stream__),
    "iterator": lambda: iter(ROWS),
    "one split": lambda: {"test": pandas_frame()},
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_give_the_same_samples(name: str) -> None:
    data = load(TABLES[name]())
    assert data.samples == load(ROWS).samples
    assert [extras["score"] for extras in data.extras] == [0.5, None]


def test_several_splits_are_refused_by_their_names() -> None:
    with pytest.raises(InputError, match=r"train, test\n.*give one of them: data\['train'\]"):
        load({"train": pandas_frame(), "test": pandas_frame()})


def test_a_duplicate_column_is_refused() -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    names = ["question", "question"]
    tables = [
        pandas.DataFrame([["a", "b"]], columns=names),
        pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names),
    ]
    for table in tables:
        with pytest.raises(DataError, match="rows has two columns question"):
            load(table)


def test_a_frame_is_not_copied_as_a_whole() -> None:
    """As dictionaries, 20,000 rows take 5 MB."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"question": [f"What is {number}?" for number in range(20_000)]})
    load(frame.head(1))
    tracemalloc.start()
    rows = rows_of_table(frame, "rows")
    assert rows is not None
    assert sum(1 for _ in rows()) == sum(1 for _ in rows()) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


class Kind(enum.Enum):
    """A kind of rows."""

    NEWS = "news"


@dataclass
class Document:
    """Text with metadata."""

    content: str
    meta: dict[str, Any] = field(default_factory=dict)


class Row(BaseModel):
    """Row of a program with typed models."""

    question: str
    documents: list[Document]
    kind: Kind = Kind.NEWS


@dataclass
class Answer:
    """Fields of Haystack's GeneratedAnswer."""

    data: str
    query: str
    documents: list[Document]


class Named(NamedTuple):
    """Row of `DataFrame.itertuples`."""

    question: str
    contexts: list[str]


@pytest.mark.parametrize("make", [Named, SimpleNamespace])
def test_objects_with_named_fields_are_rows(make: Callable[..., Any]) -> None:
    data = load([make(question="q", contexts=["a", "b"])])
    assert data.samples == load([{"question": "q", "contexts": ["a", "b"]}]).samples


def test_models_and_dataclasses_are_rows_and_contexts() -> None:
    documents = [Document("a b", {"page": 1}), Document("c d")]
    data = load([Row(question="q", documents=documents), {"question": "r", "documents": documents[:1]}])
    both = (Context(text="a b", meta={"page": 1}), Context(text="c d"))
    assert [sample.user_input for sample in data.samples] == ["q", "r"]
    assert [sample.retrieved_contexts for sample in data.samples] == [both, both[:1]]
    assert data.extras[0] == {"kind": "news"}


@pytest.mark.parametrize(
    "given", [lambda answer: answer, lambda answer: [answer], lambda answer: {"answers": [answer]}]
)
def test_an_answer_object_is_one_sample(given: Any) -> None:
    (sample,) = load(given(Answer("a", "q", [Document("a b")]))).samples
    assert (sample.user_input, sample.response, sample.retrieved_contexts) == ("q", "a", (Context(text="a b"),))


@pytest.mark.parametrize("value", [7, None, object(), str])
def test_other_objects_are_refused_by_type(value: Any) -> None:
    with pytest.raises(InputError, match=f"the data are of the type {type(value).__name__}\n"):
        load(value)
