from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import DataError, InputError
from localjudge.types import Context, Sample

X = (Context(text="x"),)


def only(row: dict[str, Any], **mapping: str) -> Sample:
    return load([{"id": "1", **row}], mapping=mapping).samples[0]


@pytest.mark.parametrize(
    ("rows", "columns", "field"),
    [
        ([{"answer": "a"}, {"response": "b"}], "response and answer", "response"),
        ([{"question": "a", "user_input": None}], "user_input and question", "user_input"),
        ([{"ground_truth": "a", "ground_truths": ["a"]}], "ground_truth and ground_truths", "reference"),
        ([{"documents": ["Some text."], "chunks": ["Some text."]}], "documents and chunks", "retrieved_contexts"),
    ],
)
def test_two_columns_for_one_field_are_refused(rows: list[dict[str, Any]], columns: str, field: str) -> None:
    with pytest.raises(DataError, match=f"the columns {columns} both give {field}") as caught:
        load(rows)
    assert f"mapping={{'{field}': '{columns.partition(' ')[0]}'}}" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("row", "mapping", "values"),
    [
        ({"answer": "a", "response": "b"}, {"response": "answer"}, {"response": "a"}),
        ({"Frage": "q", "meta": {"gold": "r"}}, {"user_input": "Frage", "reference": "meta.gold"}, {"reference": "r"}),
        ({"answer": "r", "question": "q"}, {"reference": "answer"}, {"reference": "r", "response": None}),
        ({"a.b": "x", "a": {"b": "y"}}, {"user_input": "a.b"}, {"user_input": "x"}),
        ({"a,b": "x", "a": "t", "b": "t"}, {"retrieved_contexts": "a,b"}, {"retrieved_contexts": X}),
        ({"retrieved_context_ids": ["x"]}, {"retrieved_contexts": "retrieved_context_ids"}, {"retrieved_contexts": X}),
    ],
)
def test_the_mapping_has_priority(row: dict[str, Any], mapping: dict[str, str], values: dict[str, Any]) -> None:
    sample = only(row, **mapping)
    assert {name: getattr(sample, name) for name in values} == values


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"quest": "q"}, "quest=q is not for a field of localjudge"),
        ({"reference": "gold"}, "reference=gold names a column that no row"),
        ({"retrieved_contexts": "a,missing"}, "names a column that no row"),
        ({"reference": "a,b"}, "names a column that no row"),
    ],
)
def test_a_wrong_mapping_is_refused(mapping: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        only({"question": "q", "a": "t", "b": "u"}, **mapping)


@pytest.mark.parametrize(
    ("field", "column", "value"),
    [
        ("retrieved_contexts", "documents", ["Some text."]),
        ("retrieved_contexts", "docs", [{"page_content": "Some text."}]),
        ("retrieved_contexts", "passages", "Some text."),
        ("retrieved_contexts", "chunks", ["这是一段文字"]),
        *(("reference", name, "In 1889") for name in ("gold_answer", "expected_answer", "ideal", "target", "gold")),
        *(("response", name, "In 1889") for name in ("prediction", "completion")),
    ],
)
def test_an_ambiguous_name_is_used_if_no_other_column_gives_the_field(field: str, column: str, value: Any) -> None:
    data = load([{"question": "q", column: None}, {"question": "q", column: value}])
    assert data.mapping == {"user_input": "question", field: column}
    known = {"retrieved_contexts": "contexts", "reference": "ground_truth", "response": "answer"}[field]
    assert load([{known: None, column: value}]).mapping == {field: known}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("target", 1),
        ("target", "0.5"),
        ("prediction", 0.93),
        ("gold", ["d1", "d2"]),
        ("docs", [1, 2]),
        ("documents", ["doc_12", "doc_7"]),
        ("documents", [{"id": "doc_12"}]),
        ("chunks", '["c1", "c2"]'),
        ("completion", {"tokens": 7}),
    ],
)
def test_an_ambiguous_column_without_texts_is_ignored(column: str, value: Any) -> None:
    assert load([{"question": "q", column: value}]).mapping == {"user_input": "question"}


def test_contexts_in_several_columns_are_mapped_together(tmp_path: Path) -> None:
    rows = [{"b": {"text": "t2"}, "a": "t1", "c": ["t3", "t4"]}, {"a": None, "c": "t5"}, {"a": None}]
    mapped = load(rows, mapping={"retrieved_contexts": "a,b,c"})
    read = [sample.retrieved_contexts for sample in mapped.samples]
    assert [[context.text for context in contexts or ()] for contexts in read] == [["t1", "t2", "t3", "t4"], ["t5"], []]
    assert read[2] is None
    assert mapped.extras == ({}, {}, {})
    (tmp_path / "a.csv").write_text('question,context_1,context_2\nq,t1,"[""t2"", ""t3""]"\nr,,t4\n')
    data = load(tmp_path / "a.csv", mapping={"retrieved_contexts": "context_1,context_2"})
    assert [len(sample.retrieved_contexts or ()) for sample in data.samples] == [3, 1]
    assert data.unused == ((),)
