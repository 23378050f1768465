import json
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError, InputError, Sample
from localjudge.dataset import load
from localjudge.metrics import Context

X = (Context(text="x"),)


def only(row: dict[str, Any], **mapping: str) -> Sample:
    return load([{"id": "1", **row}], mapping=mapping).samples[0]


@pytest.mark.parametrize(
    ("rows", "columns", "field"),
    [
        ([{"answer": "a"}, {"response": "b"}], "response and answer", "response"),
        ([{"question": "a", "user_input": None}], "user_input and question", "user_input"),
        (
            [{"ground_truth": "a", "ground_truths": ["a"]}],
            "ground_truth and ground_truths",
            "reference",
        ),
        (
            [{"documents": ["Some text."], "chunks": ["Some text."]}],
            "documents and chunks",
            "retrieved_contexts",
        ),
    ],
)
def test_two_columns_for_one_field_are_refused(
    rows: list[dict[str, Any]], columns: str, field: str
) -> None:
    with pytest.raises(DataError, match=f"the columns {columns} both match {field}") as caught:
        load(rows)
    assert f"mapping={{'{field}': '{columns.partition(' ')[0]}'}}" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("row", "mapping", "values"),
    [
        ({"answer": "a", "response": "b"}, {"response": "answer"}, {"response": "a"}),
        (
            {"Frage": "q", "meta": {"gold": "r"}},
            {"user_input": "Frage", "reference": "meta.gold"},
            {"reference": "r"},
        ),
        (
            {"answer": "r", "question": "q"},
            {"reference": "answer"},
            {"reference": "r", "response": None},
        ),
        ({"a.b": "x", "a": {"b": "y"}}, {"user_input": "a.b"}, {"user_input": "x"}),
        ({"a.b": {"c": "x"}, "a": {"b": {"c": "y"}}}, {"user_input": "a.b.c"}, {"user_input": "x"}),
        ({"a.b": {"d": "x"}, "a": {"b": {"c": "y"}}}, {"user_input": "a.b.c"}, {"user_input": "y"}),
        ({"a": {"b.c": {"d.e": "x"}}}, {"user_input": "a.b.c.d.e"}, {"user_input": "x"}),
        ({"a.b": [{"c.d": "x"}]}, {"user_input": "a.b.0.c.d"}, {"user_input": "x"}),
        (
            {"a.b": [{"c.d": "x"}]},
            {"retrieved_contexts": "a.b[].c.d"},
            {"retrieved_contexts": X},
        ),
        (
            {"a.b": '[{"c.d": "x"}]'},
            {"retrieved_contexts": "a.b[].c.d"},
            {"retrieved_contexts": X},
        ),
        (
            {"a,b": "x", "a": "t", "b": "t"},
            {"retrieved_contexts": "a,b"},
            {"retrieved_contexts": X},
        ),
        (
            {"retrieved_context_ids": ["x"]},
            {"retrieved_contexts": "retrieved_context_ids"},
            {"retrieved_contexts": X},
        ),
    ],
)
def test_the_mapping_has_priority(
    row: dict[str, Any], mapping: dict[str, str], values: dict[str, Any]
) -> None:
    sample = only(row, **mapping)
    assert {name: getattr(sample, name) for name in values} == values


def test_a_column_with_a_dot_is_used_if_a_mapping_reaches_into_it() -> None:
    row = {"a.b": [{"c": "x"}], "a": "y", "b": "z"}
    assert load([row], mapping={"retrieved_contexts": "a.b[].c"}).unused == (("a", "b"),)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"quest": "q"}, "quest=q .*field"),
        ({"reference": "gold"}, "reference=gold names a column"),
        ({"retrieved_contexts": "a,missing"}, "retrieved_contexts=.*missing"),
        ({"reference": "a,b"}, "reference=a,b"),
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
        *(
            ("reference", name, "In 1889")
            for name in ("gold_answer", "expected_answer", "ideal", "target", "gold")
        ),
        *(("response", name, "In 1889") for name in ("prediction", "completion")),
    ],
)
def test_an_ambiguous_name_is_used_if_no_other_column_gives_the_field(
    field: str, column: str, value: Any
) -> None:
    data = load([{"question": "q", column: None}, {"question": "q", column: value}])
    assert data.mapping == {"user_input": "question", field: column}
    usual_name = {
        "retrieved_contexts": "contexts",
        "reference": "ground_truth",
        "response": "answer",
    }[field]
    assert load([{usual_name: None, column: value}]).mapping == {field: usual_name}


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
        ("prediction", ["supported", "unsupported"]),
    ],
)
def test_an_ambiguous_column_without_texts_is_ignored(column: str, value: Any) -> None:
    assert load([{"question": "q", column: value}]).mapping == {"user_input": "question"}


@pytest.mark.parametrize(
    ("column", "values", "path"),
    [
        ("prediction", ["It is in Ulm.", "It is there."], "prediction.0"),
        ("completion", [{"answer": "In Ulm.", "content": "It is."}], "completion.0.content"),
        ("completion", [{"text": "It is.", "index": 0}], "completion.0.text"),
        ("outputs", [{"answer": "It is in Ulm."}], "outputs.0.answer"),
    ],
)
def test_an_answer_in_a_list_is_refused_with_the_mapping_that_reads_it(
    column: str, values: Any, path: str
) -> None:
    """Without `reference`, `outputs` would be LangSmith's right answer."""
    row = {"question": "Where?", "reference": "In Ulm.", column: values}
    for reference in ("reference", "ground_truth", "expected_output"):
        with pytest.raises(DataError, match=f"{column}: found a list .*{path}'"):
            load([{"question": "Where?", reference: "In Ulm.", column: values}])
    assert load([row], mapping={"response": path}).samples[0].response


def test_contexts_in_several_columns_are_mapped_together(tmp_path: Path) -> None:
    rows = [
        {"b": {"text": "t2"}, "a": "t1", "c": ["t3", "t4"]},
        {"a": None, "c": "t5"},
        {"a": None},
    ]
    mapped = load(rows, mapping={"retrieved_contexts": "a,b,c"})
    read = [sample.retrieved_contexts for sample in mapped.samples]
    assert [[context.text for context in contexts or ()] for contexts in read] == [
        ["t1", "t2", "t3", "t4"],
        ["t5"],
        [],
    ]
    assert read[2] is None
    assert mapped.extras == ({}, {}, {})
    (tmp_path / "a.csv").write_text(
        'question,context_1,context_2\nq,t1,"[""t2"", ""t3""]"\nr,,t4\n'
    )
    data = load(tmp_path / "a.csv", mapping={"retrieved_contexts": "context_1,context_2"})
    assert [len(sample.retrieved_contexts or ()) for sample in data.samples] == [3, 1]
    assert data.unused == ((),)


HITS = [
    {"chunk_text": "It is in Ulm.", "source": "d1"},
    {"chunk_text": "It rains.", "source": "d2"},
]
ROW: dict[str, Any] = {"frage": {"text": "Where?"}, "hits": HITS}
MAPPING = {"user_input": "frage.text", "retrieved_contexts": "hits[].chunk_text"}


@pytest.mark.parametrize("hits", [HITS, json.dumps(HITS), str(HITS)])
def test_a_mapping_reads_a_key_from_each_object_of_a_list(hits: Any) -> None:
    mapping = {**MAPPING, "retrieved_context_ids": "hits[].source"}
    data = load([{**ROW, "hits": hits}], mapping=mapping)
    contexts = data.samples[0].retrieved_contexts or ()
    assert [(context.text, context.id) for context in contexts] == [
        ("It is in Ulm.", "d1"),
        ("It rains.", "d2"),
    ]
    assert data.unused == ((),)


NOT_THERE = "names a column that no row of rows has"


@pytest.mark.parametrize(
    ("row", "mapping", "messages"),
    [
        (
            {**ROW, "hits": [HITS[0], {"source": "d2"}]},
            MAPPING,
            ["hits[].chunk_text[1]: found null"],
        ),
        (
            {"question": "q", "contexts": HITS},
            {},
            ["mapping={'retrieved_contexts': 'contexts[].chunk_text'}"],
        ),
        (
            {"question": "q", "contexts": {"title": ["one"], "chunk": ["a b c"]}},
            {},
            ["'contexts.chunk'"],
        ),
        (
            ROW,
            {"retrieved_contexts": "hits.0.chunk_text"},
            ["one context of several", "'hits[].chunk_text'"],
        ),
        (
            ROW,
            {"retrieved_contexts": "hits.chunk_text"},
            [NOT_THERE, "the columns are frage, hits"],
        ),
        (ROW, {"reference": "hit"}, [NOT_THERE, "did you mean hits?"]),
    ],
)
def test_a_wrong_path_is_refused_with_a_hint(
    row: Any, mapping: dict[str, str], messages: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        load([row], mapping=mapping)
    assert [message for message in messages if message not in str(caught.value)] == []


ITEMS = {"version": 1, "experiment": {"items": [{"question": "q"}, {"question": "r"}]}}


@pytest.mark.parametrize("indent", [None, 1])
def test_rows_below_the_top_are_found_by_their_path(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ITEMS, indent=indent) + "\n")
    assert [sample.user_input for sample in load(path, rows_path="experiment.items").samples] == [
        "q",
        "r",
    ]
    assert [sample.user_input for sample in load(ITEMS, rows_path="experiment.items").samples] == [
        "q",
        "r",
    ]
    with pytest.raises(DataError, match=r"no column .*\n.*rows='NAME'"):
        load(path)
    with pytest.raises(
        DataError, match=r"nothing under experiment.rows \(keys: version, experiment\)"
    ):
        load(path, rows_path="experiment.rows")


def test_a_bad_row_below_the_top_is_named_by_line_and_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"items": [{"question": "q"}]}\n{"items": [{"question": "r"}, {"question": 7}]}\n'
    )
    with pytest.raises(DataError, match=r"a.jsonl:2, row 2: question: found a number"):
        load(path, rows_path="items")
    assert len(load(path, rows_path="items", skip_bad_rows=True).samples) == 2


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (["Question", "Answer"], {"user_input": "Question", "response": "Answer"}),
        (["QUESTION", "Ground Truth"], {"user_input": "QUESTION", "reference": "Ground Truth"}),
        (
            ["User Input", "Retrieved-Contexts"],
            {"user_input": "User Input", "retrieved_contexts": "Retrieved-Contexts"},
        ),
        (["Query", "ExpectedOutput"], {"user_input": "Query", "reference": "ExpectedOutput"}),
        (["Question", "Passages"], {"user_input": "Question", "retrieved_contexts": "Passages"}),
        (["question", "Question"], {"user_input": "question"}),
    ],
)
def test_a_known_name_may_be_spelled_in_another_way(
    tmp_path: Path, names: list[str], fields: dict[str, str]
) -> None:
    (tmp_path / "a.csv").write_text(f"{','.join(names)}\nSome text.,More text.\n")
    data = load(tmp_path / "a.csv")
    assert data.mapping == fields
    assert load([dict(zip(names, ("Some text.", "More text."), strict=True))]).mapping == fields
    assert data.unused == (tuple(name for name in names if name not in fields.values()),)


def test_two_spellings_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match=r"Question and QUESTION .*user_input"):
        load([{"Question": "a", "QUESTION": "b"}])


def test_a_path_into_another_spelling_is_known() -> None:
    data = load([{"Inputs": {"question": "q"}, "Outputs": {"answer": "a"}, "expectations": {}}])
    assert data.mapping == {"user_input": "Inputs.question", "response": "Outputs.answer"}
    assert (data.samples[0].user_input, data.samples[0].response) == ("q", "a")


@pytest.mark.parametrize(
    ("value", "text"), [(42, "42"), (4.5, "4.5"), (42.0, "42"), (-1, "-1"), ([7, 7], "7")]
)
def test_a_number_is_an_answer(value: Any, text: str) -> None:
    assert only({"ground_truth": value}).reference == text
    if not isinstance(value, list):
        assert only({"answer": value}).response == text


@pytest.mark.parametrize("value", [True, float("inf"), 2**200])
def test_other_scalars_are_no_answers(value: Any) -> None:
    with pytest.raises(DataError, match="expected text or null"):
        only({"answer": value})
