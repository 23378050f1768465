"""Ids, the fingerprint, and columns that are not ours."""

from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import InputError

CONTEXT: dict[str, Any] = {"text": "c", "id": "1", "score": 0.5, "meta": {"page": 3}}


@pytest.mark.parametrize(
    "changed",
    [
        *({"id": "2"}, {"user_input": "Q"}, {"user_input": None}, {"reference": "R"}, {"response": ""}),
        *({"retrieved_contexts": value} for value in ([], [CONTEXT], [CONTEXT, "d", "d"], ["d", CONTEXT])),
        *({"retrieved_contexts": [{**CONTEXT, "text": text}, "d"]} for text in ("c ", "C")),
        *({"retrieved_contexts": [{**CONTEXT, "id": identifier}, "d"]} for identifier in ("2", None)),
        *({"retrieved_contexts": [{**CONTEXT, "score": score}, "d"]} for score in (0.25, None)),
        *({"retrieved_contexts": [{**CONTEXT, "meta": meta}, "d"]} for meta in ({"page": 4}, {})),
        {"reference_contexts": ["g", "h"]},
    ],
)
def test_whatever_changes_a_sample_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    """The order of the contexts, too: ranks matter to context precision."""
    row: dict[str, Any] = {"id": "1", "user_input": "q", "reference": "r", "response": "a"}
    row |= {"retrieved_contexts": [CONTEXT, "d"], "reference_contexts": ["g"]}
    assert load([row]).fingerprint != load([{**row, **changed}]).fingerprint


def test_the_fingerprint_is_the_same_everywhere_and_always() -> None:
    """A changed value here means that finished runs are not found again."""
    row = {
        "id": "1",
        "user_input": "qé",
        "retrieved_contexts": [{"text": "c", "score": 0.1, "meta": {"b": 1, "a": []}}],
    }
    assert load([row]).fingerprint == "d33104f106458b3701c7f218b1fa520ed8aab6caf43a5bbb9e41f3753c703766"


def test_columns_are_known_by_their_names_and_by_ours() -> None:
    data = load([{"id": 1, "question": "q", "document": "d1", "meta": {"page": 3}}, {"document": None}])
    assert data.column("document") == ("d1", None)
    assert data.column("meta.page") == (3, None)
    assert data.column("question") == data.column("user_input") == ("q", None)
    assert data.column("id")[0] == "1"


def test_a_column_of_theirs_goes_before_a_field_of_ours() -> None:
    data = load([{"gold": "r", "reference": "a book"}, {"gold": "s"}], mapping={"reference": "gold"})
    assert data.column("reference") == ("a book", "s")
    assert data.column("gold") == ("r", "s")


def test_a_column_may_be_null_throughout_and_nan_is_null() -> None:
    data = load([{"question": "q", "ground_truth": None, "n": None}])
    assert (data.column("n"), data.samples[0].reference) == ((None,), None)
    assert data.fields == {"user_input", "reference"}
    assert load([{"question": "q", "n": 1.0}, {"question": "q", "n": float("nan")}]).column("n") == (1.0, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "the data has no column missing"),
        ("meta.missing", "the data has no column meta.missing"),
        ("contexts", "the data has no column contexts"),
        ("tags", "the column tags holds a list of 1, not a text or a number"),
    ],
)
def test_a_column_that_is_not_there_or_has_no_single_values_is_refused(name: str, message: str) -> None:
    row = {"id": "s", "question": "q", "contexts": [], "meta": {}, "tags": ["a"]}
    with pytest.raises(InputError, match=message):
        load([row]).column(name)
