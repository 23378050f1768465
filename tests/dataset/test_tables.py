import enum
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas
import polars
import pytest
from pydantic import BaseModel

from localjudge import DataError, InputError, Sample, ScriptedEngine, evaluate
from localjudge.dataset import load
from localjudge.metrics import Context

pyarrow = pytest.importorskip("pyarrow")
ROWS: list[dict[str, Any]] = [
    {"id": "1", "question": "Where?", "contexts": ["a b", "c d"], "answer": "Here.", "score": 0.5},
    {"id": "2", "question": "When?", "contexts": ["e f"], "answer": None, "score": None},
]


ARROW = pyarrow.Table.from_pylist(ROWS)
TABLES: dict[str, Any] = {
    "pandas with an index": pandas.DataFrame(ROWS, index=[7, 7]),
    "pandas with arrays in cells": ARROW.to_pandas(),
    "pandas with its own nulls": pandas.DataFrame(ROWS).convert_dtypes(),
    "polars, lazy": polars.DataFrame(ROWS).lazy(),
    "Arrow table": ARROW,
    "Arrow batch": ARROW.to_batches()[0],
    "Arrow reader, to be read once": ARROW.to_reader(),
    "Arrow of any package": SimpleNamespace(__arrow_c_stream__=ARROW.__arrow_c_stream__),
    "iterator": iter(ROWS),
    "one split": {"test": pandas.DataFrame(ROWS)},
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_give_the_same_samples(name: str) -> None:
    data = load(TABLES[name])
    assert data.samples == load(ROWS).samples
    assert [extras["score"] for extras in data.extras] == [0.5, None]


def test_several_splits_are_refused_by_their_names() -> None:
    with pytest.raises(InputError, match=r"train, test\n.*data\['train'\]"):
        load({"train": ARROW, "test": ARROW})


def test_a_duplicate_column_is_refused() -> None:
    names = ["question", "question"]
    arrow = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names)
    for table in (pandas.DataFrame([["a", "b"]], columns=names), arrow):
        with pytest.raises(DataError, match=r"rows .*two columns question"):
            load(table)


def test_a_frame_is_not_copied_as_a_whole() -> None:
    """As dictionaries, 20,000 rows take 5 MB."""
    frame = pandas.DataFrame({"question": [f"What is {number}?" for number in range(20_000)]})
    load(frame.head(1))
    tracemalloc.start()
    assert len(load(frame).samples) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 2_500_000
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
    data = load(
        [Row(question="q", documents=documents), {"question": "r", "documents": documents[:1]}]
    )
    both = (Context(text="a b", meta={"page": 1}), Context(text="c d"))
    assert [sample.user_input for sample in data.samples] == ["q", "r"]
    assert [sample.retrieved_contexts for sample in data.samples] == [both, both[:1]]
    assert data.extras[0] == {"kind": "news"}


ANSWER = Answer("a", "q", [Document("a b")])


@pytest.mark.parametrize("data", [ANSWER, [ANSWER], {"answers": [ANSWER]}])
def test_an_answer_object_is_one_sample(data: Any) -> None:
    (sample,) = load(data).samples
    assert (sample.user_input, sample.response, sample.retrieved_contexts) == (
        "q",
        "a",
        (Context(text="a b"),),
    )


@pytest.mark.parametrize("value", [7, None, object(), str])
def test_other_objects_are_refused_by_type(value: Any) -> None:
    with pytest.raises(InputError, match=f"type {type(value).__name__}\n"):
        load(value)


WORDS = ("NaN", " NULL ", "None", "N/A", "#N/A", "-", "none")
ROWS_OF_WORDS = [{"question": f"q{word}", "answer": word, "topic": word} for word in WORDS]


def test_a_missing_value_of_csv_is_counted_by_column(tmp_path: Path) -> None:
    pandas.DataFrame(ROWS_OF_WORDS).to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    assert [sample.response for sample in data.samples] == [None] * 6 + ["none"]
    assert data.column("topic") == (None,) * 6 + ("none",)
    engine = ScriptedEngine({}, default=1.0)
    run = evaluate(tmp_path / "a.csv", metrics="answer_relevancy", engine=engine, out=False)
    for name in ("answer", "topic"):
        said = f"6 cells of {name} say #N/A, -, N/A, NULL, NaN, None: "
        assert any(said in note for note in run.notes)


def test_a_word_is_text_where_null_exists(tmp_path: Path) -> None:
    frame = pandas.DataFrame(ROWS_OF_WORDS)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    files = [tmp_path / f"a.{ending}" for ending in ("jsonl", "parquet")]
    for source in (frame, polars.DataFrame(ROWS_OF_WORDS), ROWS_OF_WORDS, *files):
        data = load(source)
        assert [sample.response for sample in data.samples] == [*WORDS]
        assert data.column("topic") == WORDS
        assert not data.placeholders


def test_nan_is_missing_everywhere(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "q", "answer": NaN, "topic": NaN}\n')
    nan = float("nan")
    for source in (tmp_path / "a.jsonl", [{"question": "q", "answer": nan, "topic": nan}]):
        data = load(source)
        assert (data.samples[0].response, data.column("topic")) == (None, (None,))


def test_a_response_of_csv_may_be_a_refusal(tmp_path: Path) -> None:
    """Words that only programs write stay missing values."""
    pandas.DataFrame(ROWS_OF_WORDS).to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv", keeps_answer_words=True)
    assert [sample.response for sample in data.samples] == [
        None,
        None,
        "None",
        "N/A",
        None,
        "-",
        "none",
    ]


def test_all_missing_words_of_pandas_are_known(tmp_path: Path) -> None:
    from pandas._libs.parsers import STR_NA_VALUES

    words = sorted(word for word in STR_NA_VALUES if word)
    lines = ["question,reference", *(f"q,{word}" for word in words)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    assert {sample.reference for sample in load(tmp_path / "a.csv").samples} == {None}


def test_a_missing_element_is_left_out_with_its_id(tmp_path: Path) -> None:
    contexts = ['["a", "NaN", {"text": "-"}, "b"]', '["nan"]', "[]"]
    identifiers = ['["w", "x", "y", "z"]', None, None]
    columns = {
        "question": ["q", "r", "s"],
        "contexts": contexts,
        "retrieved_context_ids": identifiers,
    }
    pandas.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    read = [sample.retrieved_contexts for sample in data.samples]
    assert [(context.text, context.id) for context in read[0] or ()] == [("a", "w"), ("b", "z")]
    assert read[1:] == [None, ()]
    assert data.placeholders == {"contexts[]": {"-": 1, "NaN": 1, "nan": 1}}


def test_an_element_of_json_is_text_unless_it_is_nan() -> None:
    rows = [
        {
            "question": "q",
            "contexts": ["a", float("nan"), "N/A"],
            "retrieved_context_ids": [*"xyz"],
        },
    ]
    contexts = load(rows).samples[0].retrieved_contexts or ()
    assert [(context.text, context.id) for context in contexts] == [("a", "x"), ("N/A", "z")]


def test_a_sample_keeps_missing_words_as_text() -> None:
    assert load([Sample(id="1", response="None")]).samples[0].response == "None"


LISTS = [json.dumps(["a b", "c d"]), "['a b', 'c d']", "('a b', 'c d')", "a b", "[1] A note."]


def test_a_cell_is_read_alike_from_files_frames_and_rows(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"question": LISTS, "contexts": LISTS})
    frame.to_csv(tmp_path / "data.csv", index=False)
    data = load(tmp_path / "data.csv")
    assert [len(sample.retrieved_contexts or ()) for sample in data.samples] == [2, 2, 2, 1, 1]
    read_again = pandas.read_csv(tmp_path / "data.csv")
    assert load(read_again).samples == load(read_again.to_dict("records")).samples == data.samples


MAP = pyarrow.map_(pyarrow.string(), pyarrow.string())


def map_file(folder: Path, ending: str, contexts: object, kind: Any) -> Path:
    table = pyarrow.table({"question": ["q"], "contexts": pyarrow.array([contexts], kind)})
    path = folder / f"a.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    return path


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize(
    "pairs", [[("a.pdf", "a b")], [("doc1", "a b")], [("a.pdf", "a b"), ("b.pdf", "c d")]]
)
def test_a_key_of_a_map_is_no_context(
    tmp_path: Path, ending: str, pairs: list[tuple[str, str]]
) -> None:
    path = map_file(tmp_path, ending, pairs, MAP)
    with pytest.raises(DataError, match="contexts: found an object with the keys"):
        load(path)
    data = load(path, mapping={"retrieved_contexts": "contexts[]"})
    found = [context.text for context in data.samples[0].retrieved_contexts or ()]
    assert found == [text for _, text in pairs]


@pytest.mark.parametrize("key", ["Annual report 2023", "a.pdf", "Größe"])
def test_a_map_that_pandas_has_read_is_an_object(tmp_path: Path, key: str) -> None:
    """It is a list of tuples there."""
    frame = pandas.read_parquet(map_file(tmp_path, "parquet", [(key, "a b")], MAP))
    with pytest.raises(DataError, match="contexts: found an object with the keys"):
        load(frame)
    data = load(frame, mapping={"retrieved_contexts": "contexts[]"})
    assert [context.text for context in data.samples[0].retrieved_contexts or ()] == ["a b"]


@pytest.mark.parametrize("contexts", [[("Annual report", "a b")], "[('Annual report', 'a b')]"])
def test_a_tuple_of_a_key_and_its_text_is_refused(contexts: Any) -> None:
    """A list of two texts is read: promptfoo nests lists."""
    with pytest.raises(DataError, match="contexts"):
        load([{"question": "q", "contexts": contexts}])
    sample = load([{"question": "q", "contexts": [["One text.", "Two texts."]]}]).samples[0]
    assert len(sample.retrieved_contexts or ()) == 2


def test_maps_inside_lists_and_structs_are_objects(tmp_path: Path) -> None:
    documents = [[("text", "a b")], [("text", "c d"), ("source", "e")]]
    path = map_file(tmp_path, "parquet", documents, pyarrow.list_(MAP))
    found = load(path).samples[0].retrieved_contexts or ()
    assert [context.text for context in found] == ["a b", "c d"]
    hits = {"hits": [("text", "a b")]}
    path = map_file(tmp_path, "parquet", hits, pyarrow.struct([("hits", MAP)]))
    data = load(path, mapping={"retrieved_contexts": "contexts.hits"})
    assert [context.text for context in data.samples[0].retrieved_contexts or ()] == ["a b"]


@pytest.mark.parametrize("key", ["a.pdf", "doc1", "policy-7"])
@pytest.mark.parametrize("value", ["It is in Ulm.", {"text": "It is in Ulm."}])
def test_a_list_with_one_pair_is_refused_with_both_mappings(key: str, value: Any) -> None:
    rows = [{"question": "q", "contexts": [[key, value]]}]
    with pytest.raises(DataError, match=r"contexts\[\]\.1.*contexts\.0"):
        load(rows)
    for path, count in (("contexts[].1", 1), ("contexts.0", 2)):
        data = load(rows, mapping={"retrieved_contexts": path})
        assert len(data.samples[0].retrieved_contexts or ()) == count
