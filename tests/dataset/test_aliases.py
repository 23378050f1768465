"""Which column is which field, and what decides where a name is not enough."""

from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import from_rows, load
from localjudge.errors import DataError, UsageError
from localjudge.types import Context, Sample


def only(row: dict[str, Any], **mapping: str) -> Sample:
    """The sample that one row becomes, under the id "1" where it has none."""
    data = from_rows([{"id": "1", **row}], mapping=mapping)
    return data.samples[0]


def test_context_alone_is_what_was_retrieved() -> None:
    assert only({"question": "q", "context": "c"}).retrieved_contexts == (Context(text="c"),)


@pytest.mark.parametrize("beside", ["retrieval_context", "expected_output"])
def test_context_beside_a_name_of_deepeval_is_ground_truth(beside: str) -> None:
    sample = only({"input": "q", "context": ["c"], beside: "x"})
    assert sample.reference_contexts == (Context(text="c"),)


def test_a_mapped_column_still_tells_the_shape() -> None:
    sample = only({"input": "q", "context": ["c"], "expected_output": "x"}, reference="expected_output")
    assert sample.reference_contexts == (Context(text="c"),)


def test_the_shape_is_that_of_the_whole_source_not_of_one_row() -> None:
    data = from_rows([{"input": "q", "context": ["c"]}, {"input": "q", "expected_output": "x"}])
    assert data.mapping["reference_contexts"] == "context"


def test_a_path_goes_before_the_object_that_it_reaches_into() -> None:
    """Promptfoo writes {"response": {"output": "a"}}, others {"response": "a"}."""
    assert from_rows([{"response": {"output": "a"}}]).mapping == {"response": "response.output"}
    assert from_rows([{"output": {"completion": "a", "model": "m"}}]).mapping == {"response": "output.completion"}


def test_query_id_is_the_id_where_there_is_no_other() -> None:
    assert from_rows([{"query": "q", "query_id": 7}]).samples[0].id == "7"
    assert from_rows([{"query": "q", "query_id": 7, "id": 8}]).samples[0].id == "8"


@pytest.mark.parametrize(
    ("row", "columns", "field"),
    [
        ({"answer": "a", "response": "b"}, "response and answer", "response"),
        ({"question": "a", "user_input": None}, "user_input and question", "user_input"),
        ({"contexts": [], "context": "c"}, "contexts and context", "retrieved_contexts"),
        ({"ground_truth": "a", "ground_truths": ["a"]}, "ground_truth and ground_truths", "reference"),
    ],
)
def test_two_columns_for_one_field_are_an_error(row: dict[str, Any], columns: str, field: str) -> None:
    with pytest.raises(DataError, match=f"the columns {columns} both give {field}"):
        only(row)


def test_two_columns_are_an_error_even_if_no_row_has_both() -> None:
    with pytest.raises(DataError, match="both give response"):
        from_rows([{"answer": "a"}, {"response": "b"}])


def test_the_mapping_decides_between_two_columns() -> None:
    assert only({"answer": "a", "response": "b"}, response="answer").response == "a"


def test_the_mapping_gives_unknown_columns_a_meaning() -> None:
    sample = only({"Frage": "q", "meta": {"gold": "r"}}, user_input="Frage", reference="meta.gold")
    assert (sample.user_input, sample.reference) == ("q", "r")


def test_a_mapped_column_loses_its_usual_meaning() -> None:
    sample = only({"answer": "r", "question": "q"}, reference="answer")
    assert (sample.reference, sample.response) == ("r", None)


def test_a_column_of_a_dotted_name_goes_before_a_path() -> None:
    assert only({"a.b": "x", "a": {"b": "y"}}, user_input="a.b").user_input == "x"


def test_a_mapping_of_no_field_of_ours_is_refused() -> None:
    with pytest.raises(UsageError, match="the mapping quest=q names no field of ours"):
        only({"q": "x"}, quest="q")


def test_a_mapping_to_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="the mapping reference=gold names a column that no row of rows has"):
        only({"question": "x"}, reference="gold")


def test_data_without_a_known_column_is_refused_with_the_columns_it_has() -> None:
    with pytest.raises(DataError, match=r"none of its columns is known \(found: id, text\)"):
        only({"text": "x"})


def test_ids_of_contexts_may_stand_in_a_column_of_their_own() -> None:
    sample = only({"contexts": ["a", "b"], "retrieved_context_ids": ["x", 7]})
    assert sample.retrieved_contexts == (Context(text="a", id="x"), Context(text="b", id="7"))


def test_ids_may_be_mapped_to_texts() -> None:
    """Whoever says that the ids are the texts is believed."""
    sample = only({"question": "q", "retrieved_context_ids": ["x"]}, retrieved_contexts="retrieved_context_ids")
    assert sample.retrieved_contexts == (Context(text="x"),)


@pytest.mark.parametrize(
    ("field", "column", "value"),
    [
        ("retrieved_contexts", "documents", ["Some text."]),
        ("retrieved_contexts", "docs", [{"page_content": "Some text."}]),
        ("retrieved_contexts", "passages", "Some text."),
        ("retrieved_contexts", "chunks", ["这是一段文字"]),
        ("reference", "gold_answer", "In 1889"),
        ("reference", "expected_answer", "In 1889"),
        ("reference", "reference_answer", "In 1889"),
        ("reference", "ideal", "In 1889"),
        ("reference", "target", "In 1889"),
        ("reference", "gold", "In 1889"),
        ("response", "prediction", "In 1889"),
        ("response", "completion", "In 1889"),
    ],
)
def test_a_name_that_no_tool_reserves_is_taken_where_no_other_gives_the_field(
    field: str, column: str, value: Any
) -> None:
    data = from_rows([{"question": "q", column: None}, {"question": "q", column: value}])
    assert data.mapping == {"user_input": "question", field: column}
    known = {"retrieved_contexts": "contexts", "reference": "ground_truth", "response": "answer"}[field]
    assert from_rows([{known: None, column: value}]).mapping == {field: known}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("target", 1),
        ("target", "0.5"),
        ("prediction", 0.93),
        ("gold", ["d1", "d2"]),
        ("docs", 5),
        ("docs", [1, 2]),
        ("documents", ["doc_12", "doc_7"]),
        ("documents", [{"id": "doc_12"}]),
        ("chunks", '["c1", "c2"]'),
        ("completion", {"tokens": 7}),
    ],
)
def test_such_a_name_is_not_taken_for_what_reads_like_no_text(column: str, value: Any) -> None:
    """Labels, scores, counts and ids stand under these names, too: they are not taken, and no row is refused."""
    data = from_rows([{"question": "q", column: value}])
    assert data.mapping == {"user_input": "question"}


def test_what_is_taken_is_checked_row_by_row() -> None:
    with pytest.raises(DataError, match=r"rows, row 2: target: found a number \(7\), expected text or null"):
        from_rows([{"question": "q", "target": "In 1889"}, {"question": "q", "target": 7}])


def test_two_such_names_are_an_error_that_says_how_to_choose() -> None:
    with pytest.raises(DataError, match="the columns documents and chunks both give retrieved_contexts") as caught:
        only({"question": "q", "documents": ["Some text."], "chunks": ["Some text."]})
    assert "mapping={'retrieved_contexts': 'documents'}" in str(caught.value)


def test_prompt_is_not_taken_for_the_question() -> None:
    """Many tools keep the whole prompt under it, contexts included."""
    assert "user_input" not in from_rows([{"prompt": "Answer: q", "answer": "a"}]).mapping


def test_contexts_in_several_columns_are_mapped_together(tmp_path: Path) -> None:
    """Texts, lists and objects, in the order in which the columns are named; a null or an empty cell is no context."""
    rows: list[dict[str, Any]] = [
        {"b": {"text": "t2"}, "a": "t1", "c": ["t3", "t4"]},
        {"a": None, "c": "t5"},
        {"a": None},
    ]
    mapped = from_rows(rows, mapping={"retrieved_contexts": "a,b,c"})
    texts = [sample.retrieved_contexts and [one.text for one in sample.retrieved_contexts] for sample in mapped.samples]
    assert texts == [["t1", "t2", "t3", "t4"], ["t5"], None]
    assert mapped.extras == ({}, {}, {})
    (tmp_path / "a.csv").write_text('question,context_1,context_2\nq,t1,"[""t2"", ""t3""]"\nr,,t4\n')
    data = load(tmp_path / "a.csv", mapping={"retrieved_contexts": "context_1,context_2"})
    assert [len(sample.retrieved_contexts or ()) for sample in data.samples] == [3, 1]
    assert data.unused == ((),)


def test_a_column_with_a_comma_in_its_name_is_that_column() -> None:
    sample = only({"a,b": "t", "a": "x", "b": "y", "question": "q"}, retrieved_contexts="a,b")
    assert sample.retrieved_contexts == (Context(text="t"),)


@pytest.mark.parametrize("mapping", [{"retrieved_contexts": "a,missing"}, {"reference": "a,b"}])
def test_several_columns_must_all_be_there_and_a_text_has_one(mapping: dict[str, str]) -> None:
    """One that is misspelt would otherwise be left out without a word."""
    with pytest.raises(UsageError, match=r"names a column that no row of rows has"):
        from_rows([{"question": "q", "a": "t", "b": "u"}], mapping=mapping)
