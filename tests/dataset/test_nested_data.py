import json
from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import DataError, InputError

HITS = [{"chunk_text": "It is in Ulm.", "source": "d1"}, {"chunk_text": "It rains.", "source": "d2"}]
ROW: dict[str, Any] = {"frage": {"text": "Where?"}, "hits": HITS}
MAPPING = {"user_input": "frage.text", "retrieved_contexts": "hits[].chunk_text"}


@pytest.mark.parametrize("hits", [HITS, json.dumps(HITS), str(HITS)])
def test_a_mapping_reads_a_key_from_each_object_of_a_list(hits: Any) -> None:
    mapping = {**MAPPING, "retrieved_context_ids": "hits[].source"}
    data = load([{**ROW, "hits": hits}], mapping=mapping)
    assert [(context.text, context.id) for context in data.samples[0].retrieved_contexts or ()] == [
        ("It is in Ulm.", "d1"),
        ("It rains.", "d2"),
    ]
    assert data.unused == ((),)


NOT_THERE = "names a column that no row of rows has"


@pytest.mark.parametrize(
    ("row", "mapping", "messages"),
    [
        ({**ROW, "hits": [HITS[0], {"source": "d2"}]}, MAPPING, ["hits[].chunk_text[1]: found null"]),
        ({"question": "q", "contexts": HITS}, {}, ["mapping={'retrieved_contexts': 'contexts[].chunk_text'}"]),
        ({"question": "q", "contexts": {"title": ["one"], "chunk": ["a b c"]}}, {}, ["'contexts.chunk'"]),
        (ROW, {"retrieved_contexts": "hits.0.chunk_text"}, ["uses one context of a list", "'hits[].chunk_text'"]),
        (ROW, {"retrieved_contexts": "hits.chunk_text"}, [NOT_THERE, "the columns are frage, hits"]),
        (ROW, {"reference": "hit"}, [NOT_THERE, "did you mean hits?"]),
    ],
)
def test_a_wrong_path_is_refused_with_a_hint(row: Any, mapping: dict[str, str], messages: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load([row], mapping=mapping)
    assert [message for message in messages if message not in str(caught.value)] == []


ITEMS = {"version": 1, "experiment": {"items": [{"question": "q"}, {"question": "r"}]}}


@pytest.mark.parametrize("indent", [None, 1])
def test_rows_below_the_top_are_found_by_their_path(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ITEMS, indent=indent) + "\n")
    assert [sample.user_input for sample in load(path, rows_path="experiment.items").samples] == ["q", "r"]
    assert [sample.user_input for sample in load(ITEMS, rows_path="experiment.items").samples] == ["q", "r"]
    with pytest.raises(DataError, match=r"none of its columns is known .*\n.*rows='NAME'"):
        load(path)
    with pytest.raises(DataError, match=r"nothing under experiment.rows \(keys: version, experiment\)"):
        load(path, rows_path="experiment.rows")


def test_a_bad_row_below_the_top_is_named_by_line_and_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"items": [{"question": "q"}]}\n{"items": [{"question": "r"}, {"question": 7}]}\n')
    with pytest.raises(DataError, match=r"a.jsonl:2, row 2: question: found a number"):
        load(path, rows_path="items")
    assert len(load(path, rows_path="items", skip_bad_rows=True).samples) == 2
