"""The hint for objects without a known text key names the key of the text, and works."""

import ast
import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError, InputError, evaluate
from localjudge.dataset import load

ULM = "The tower is in Ulm."
BERN = "Bern lies on the river Aare, and has many inhabitants."
UUIDS = ("5c56c793-69f3-4fbf-87e6-c4bf54c20001", "5c56c793-69f3-4fbf-87e6-c4bf54c20002")
ADDRESS = (
    "https://example.org/cities/germany/ulm/a-very-long-address-of-a-page-about-a-tower/tower.html"
)
LONG_TITLE = (
    "A very long title of a page about the city of Bern in Switzerland, its river, and its history"
)


def qdrant(text: str, number: int) -> dict[str, Any]:
    return {
        "id": UUIDS[number],
        "version": 0,
        "score": 0.9,
        "payload": {"text": text, "page": 3},
        "vector": None,
    }


def elastic(text: str, number: int) -> dict[str, Any]:
    source = {
        "title": LONG_TITLE,
        "url": ADDRESS,
        "text": text,
        "created_at": "2024-05-01T12:00:00Z",
    }
    return {"_index": "cities", "_id": UUIDS[number], "_score": 3.1, "_source": source}


def elastic_highlight(text: str, number: int) -> dict[str, Any]:
    return {**elastic(text, number), "highlight": {"text": [f"<em>{text}</em> and more"]}}


SHAPES: dict[str, Any] = {
    "Qdrant": [qdrant(ULM, 0), qdrant(BERN, 1)],
    "Elasticsearch hits": [elastic(ULM, 0), elastic(BERN, 1)],
    "Elasticsearch response": {
        "took": 3,
        "timed_out": False,
        "hits": {
            "total": {"value": 2, "relation": "eq"},
            "hits": [elastic(ULM, 0), elastic(BERN, 1)],
        },
    },
    "Chroma": {
        "ids": [list(UUIDS)],
        "distances": [[0.1, 0.2]],
        "metadatas": [[{"title": LONG_TITLE}, {"title": LONG_TITLE}]],
        "documents": [[ULM, BERN]],
    },
    "Pinecone": [
        {"id": "1", "score": 0.9, "metadata": {"text": ULM}},
        {"id": "2", "metadata": {"text": BERN}},
    ],
    "Weaviate": [
        {
            "uuid": UUIDS[0],
            "properties": {"title": LONG_TITLE, "body": ULM},
            "metadata": {"distance": 0.1},
        },
        {
            "uuid": UUIDS[1],
            "properties": {"title": LONG_TITLE, "body": BERN},
            "metadata": {"distance": 0.2},
        },
    ],
    "Milvus": [
        {"id": 1, "distance": 0.1, "entity": {"chunk": ULM}},
        {"id": 2, "entity": {"chunk": BERN}},
    ],
    "search results": [
        {"title": LONG_TITLE, "snippet": ULM, "url": ADDRESS},
        {"title": LONG_TITLE, "snippet": BERN, "url": ADDRESS},
    ],
    "Bing": {
        "webPages": {
            "value": [
                {"name": LONG_TITLE, "url": ADDRESS, "snippet": text} for text in (ULM, BERN)
            ],
        }
    },
    "Cohere": [
        {"index": 0, "relevance_score": 0.9, "document": {"text": text}} for text in (ULM, BERN)
    ],
    "Bedrock": [
        {"content": {"type": "TEXT", "text": text}, "location": {"s3": ADDRESS}}
        for text in (ULM, BERN)
    ],
    "OpenAI file search": [
        {"file_id": "f", "filename": "a.pdf", "content": [{"type": "text", "text": text}]}
        for text in (ULM, BERN)
    ],
    "MuSiQue": [
        {"idx": 0, "title": LONG_TITLE, "paragraph_text": text, "is_supporting": True}
        for text in (ULM, BERN)
    ],
    "camel case": [
        {"documentTitle": LONG_TITLE, "fileName": "a b.pdf", "pageContent": text}
        for text in (ULM, BERN)
    ],
    "unknown key": [{"n": 1, "Titel": "Ulm", "Inhalt": text} for text in (ULM, BERN)],
    "keys with dots": [{"document.content": text, "document.score": 0.7} for text in (ULM, BERN)],
    "keys with dots inside": [{"document": {"v1.text": text, "id": 1}} for text in (ULM, BERN)],
    "keys with commas": [{"id": 1, "text, in full": text} for text in (ULM, BERN)],
    "columns": {"title": [LONG_TITLE, LONG_TITLE], "snippet": [ULM, BERN]},
    "keyed by file": {"a.pdf": ULM, "b.pdf": BERN},
    "keyed by number": {"doc1": ULM, "doc2": BERN},
    "keyed by name": {"ulm": ULM, "bern": BERN},
    "keyed objects": {"doc1": {"text": ULM, "page": 1}, "doc2": {"text": BERN, "page": 2}},
    "keyed results": {
        "a.pdf": {"snippet": ULM, "title": LONG_TITLE},
        "b.pdf": {"snippet": BERN, "title": LONG_TITLE},
    },
}
READ_DIRECTLY: dict[str, Any] = {
    "HotpotQA": {"title": ["Ulm", "Bern"], "sentences": [["The tower", " is in Ulm."], [BERN]]},
    "HotpotQA's own file": [["Ulm", ["The tower", "is in Ulm."]], ["Bern", [BERN]]],
    "a Tavily result": [
        {"title": LONG_TITLE, "url": ADDRESS, "content": text} for text in (ULM, BERN)
    ],
}


def hinted_mapping(error: DataError) -> dict[str, str]:
    """Return the first mapping that the message advises."""
    match = re.search(r"mapping=(\{.*?\})", str(error))
    assert match is not None, str(error)
    return dict(ast.literal_eval(match.group(1)))


def texts(data: Any) -> list[str | None]:
    return [context.text for context in data.samples[0].retrieved_contexts or ()]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_hint_leads_to_all_texts_and_to_nothing_else(shape: str) -> None:
    rows = [{"question": "Where is the tower?", "contexts": SHAPES[shape]}]
    with pytest.raises(DataError) as caught:
        load(rows)
    assert texts(load(rows, mapping=hinted_mapping(caught.value))) == [ULM, BERN]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("printed", [json.dumps, str])
def test_the_hint_works_for_an_object_in_a_cell(tmp_path: Path, shape: str, printed: Any) -> None:
    """Such an object remains a text; a list is refused with a hint, which works for both."""
    rows = [{"question": "Where is the tower?", "contexts": SHAPES[shape]}]
    with pytest.raises(DataError) as caught:
        load(rows)
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "contexts"])
        writer.writerow(["Where is the tower?", printed(SHAPES[shape])])
    data = load(tmp_path / "a.csv", mapping=hinted_mapping(caught.value))
    assert texts(data) == [ULM, BERN]


@pytest.mark.parametrize("column", ["my.hits", "attributes.retrieval.documents", "hits, best"])
def test_the_hint_works_for_a_column_with_dots_or_commas(column: str) -> None:
    rows = [{"question": "q", column: [{"chunk.txt": text} for text in (ULM, BERN)]}]
    with pytest.raises(DataError) as caught:
        load(rows, mapping={"retrieved_contexts": column})
    assert texts(load(rows, mapping=hinted_mapping(caught.value))) == [ULM, BERN]


@pytest.mark.parametrize("shape", READ_DIRECTLY)
def test_texts_with_titles_are_read_without_a_mapping(shape: str) -> None:
    assert texts(load([{"question": "q", "contexts": READ_DIRECTLY[shape]}])) == [ULM, BERN]


@pytest.mark.engine
@pytest.mark.parametrize(
    "shape",
    ["Qdrant", "Chroma", "Elasticsearch response", "HotpotQA", "search results", "keyed by file"],
)
def test_a_followed_hint_gives_the_score_of_plain_texts(shape: str) -> None:
    """The response is the first of two contexts: 1/1. By a title, an id or another text: 0/1."""
    row = {"question": "Where is the tower?", "answer": ULM}
    plain = evaluate(
        [{**row, "contexts": [ULM, BERN]}], metrics=["faithfulness"], out=False, progress=False
    )
    rows = [{**row, "contexts": {**SHAPES, **READ_DIRECTLY}[shape]}]
    mapping = {}
    if shape in SHAPES:
        with pytest.raises(DataError) as caught:
            load(rows)
        mapping = hinted_mapping(caught.value)
    run = evaluate(rows, mapping=mapping, metrics=["faithfulness"], out=False, progress=False)
    assert [score.score for score in run.scores] == [score.score for score in plain.scores] == [1.0]


@pytest.mark.parametrize(
    "contexts",
    [
        [{"summary": ULM, "abstract": BERN}],
        [{"text_de": ULM, "text_en": BERN}],
        [{"left": ULM, "right": BERN}],
        [{"payload": {"snippet": ULM, "body": BERN}}],
    ],
)
def test_several_texts_are_all_named(contexts: Any) -> None:
    with pytest.raises(DataError, match="several keys") as caught:
        load([{"question": "q", "contexts": contexts}])
    assert len(re.findall(r"mapping=\{", str(caught.value))) == 2


@pytest.mark.parametrize(
    "contexts",
    [
        [{"id": UUIDS[0], "title": LONG_TITLE, "url": ADDRESS, "score": 0.5}],
        [{"title": LONG_TITLE, "embedding": [0.1, 0.2]}],
        [{"uuid": UUIDS[0], "path": "a folder/with spaces/a.pdf"}],
    ],
)
def test_ids_titles_addresses_and_scores_are_no_texts(contexts: Any) -> None:
    with pytest.raises(DataError, match="another key") as caught:
        load([{"question": "q", "contexts": contexts}])
    assert hinted_mapping(caught.value) == {"retrieved_contexts": "contexts[].KEY"}


@pytest.mark.parametrize(
    ("contexts", "column", "path"),
    [
        ([{"text": ULM}, {"text": BERN}], "contexts.0.text", "contexts[].text"),
        ([ULM, BERN], "contexts.-1", "contexts[]"),
        (
            {"a.b": [{"c.text": ULM}, {"c.text": BERN}]},
            "contexts.a.b.0.c.text",
            "contexts.a.b[].c.text",
        ),
        ({"a.pdf": ULM, "b.pdf": BERN}, "contexts.a.pdf", "contexts[]"),
        ({"doc1": ULM, "doc2": BERN}, "contexts.doc1", "contexts[]"),
        ({"doc1": ULM, "doc2": None}, "contexts.doc1", "contexts[]"),
        ({"ulm": ULM, "bern": BERN}, "contexts.bern", "contexts[]"),
        ({"doc1": {"text": ULM}, "doc2": {"text": BERN}}, "contexts.doc2.text", "contexts[].text"),
        (
            {"hits": [{"a": {"x": ULM}}, {"a": {"x": BERN}}]},
            "contexts.hits.0.a.x",
            "contexts.hits[].a.x",
        ),
    ],
)
def test_one_context_of_several_is_refused(contexts: Any, column: str, path: str) -> None:
    rows = [{"question": "q", "contexts": contexts}]
    with pytest.raises(InputError, match="one context of several") as caught:
        load(rows, mapping={"retrieved_contexts": column})
    assert caught.value.hint is not None
    assert path in caught.value.hint
    expected = [ULM] if "None" in repr(contexts) else [ULM, BERN]
    assert texts(load(rows, mapping={"retrieved_contexts": path})) == expected


@pytest.mark.parametrize(
    ("contexts", "column"),
    [
        ({"text": ULM, "title": LONG_TITLE}, "contexts.text"),
        ({"best": ULM, "score": 0.5}, "contexts.best"),
        ({"input": "Where is it?", "context": ULM}, "contexts.context"),
        ({"summary": BERN, "body": ULM}, "contexts.body"),
        ({"a.pdf": ULM}, "contexts.a.pdf"),
        ([ULM], "contexts.0"),
        ([{"b.c": {"text": ULM}}], "contexts.-1.b.c.text"),
        (
            {"result": {"passage": ULM}, "query": {"question": "Where is it?"}},
            "contexts.result.passage",
        ),
    ],
)
def test_one_text_of_an_object_may_be_named(contexts: Any, column: str) -> None:
    assert texts(
        load([{"question": "q", "contexts": contexts}], mapping={"retrieved_contexts": column})
    ) == [ULM]


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"answers": {"text": ["in Ulm", "Ulm"], "answer_start": [4, 7]}}, ["in Ulm"]),
        ({"ground_truths": ["in Ulm", "Ulm"]}, ["in Ulm"]),
        ({"ground_truths": '["in Ulm", "Ulm"]'}, ["in Ulm"]),
    ],
)
def test_the_hint_for_several_references_names_the_first(
    tmp_path: Path, row: Any, answers: list[str]
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": "q", **row}))
    source: Any = tmp_path / "a.jsonl"
    if isinstance(row.get("ground_truths"), str):
        source = tmp_path / "a.csv"
        with source.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["question", *row])
            writer.writeheader()
            writer.writerow({"question": "q", **row})
    with pytest.raises(DataError, match="2 reference answers") as caught:
        load(source)
    data = load(source, mapping=hinted_mapping(caught.value))
    assert [sample.reference for sample in data.samples] == answers
