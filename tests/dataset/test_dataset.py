import re
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import InputError

CONTEXT: dict[str, Any] = {"text": "c", "id": "1", "score": 0.5, "meta": {"page": 3}}
ROW: dict[str, Any] = {
    **{"question": "q", "contexts": [], "n": None, "l": ["x", "y"], "l.0": "a column"},
    "a": {"b": [{"c": 1}, {"c": 2}], "0": "key", "": "nothing"},
}


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
def test_any_change_of_a_sample_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    row: dict[str, Any] = {"id": "1", "user_input": "q", "reference": "r", "response": "a"}
    row |= {"retrieved_contexts": [CONTEXT, "d"], "reference_contexts": ["g"]}
    assert load([row]).fingerprint != load([{**row, **changed}]).fingerprint


def test_the_fingerprint_is_stable() -> None:
    """Another value here would make finished runs unusable."""
    contexts = [{"text": "c", "score": 0.1, "meta": {"b": 1, "a": []}}]
    row = {"id": "1", "user_input": "qé", "retrieved_contexts": contexts}
    assert load([row]).fingerprint == "d33104f106458b3701c7f218b1fa520ed8aab6caf43a5bbb9e41f3753c703766"


def test_a_column_is_found_by_its_own_and_its_field_name() -> None:
    data = load([{"id": 1, "question": "q", "document": "d1", "meta": {"page": 3}}, {"document": None}])
    assert data.column("document") == ("d1", None)
    assert data.column("meta.page") == (3, None)
    assert data.column("question") == data.column("user_input") == ("q", None)
    assert data.column("id")[0] == "1"


def test_a_column_named_like_a_field_has_priority() -> None:
    data = load([{"gold": "r", "reference": "a book"}, {"gold": "s"}], mapping={"reference": "gold"})
    assert data.column("reference") == ("a book", "s")
    assert data.column("gold") == ("r", "s")


def test_a_column_may_be_all_null_and_nan_is_null() -> None:
    data = load([{"question": "q", "ground_truth": None, "n": None}])
    assert (data.column("n"), data.samples[0].reference) == ((None,), None)
    assert data.fields == {"user_input", "reference"}
    assert load([{"question": "q", "n": 1.0}, {"question": "q", "n": float("nan")}]).column("n") == (1.0, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("a.b.0.c", 1), ("a.b.1.c", 2), ("a.b.-1.c", 2), ("a.b.-2.c", 1), ("a.0", "key"), ("a.", "nothing")),
        *(("l.1", "y"), ("l.0", "a column"), ("n", None)),
    ],
)
def test_a_name_with_dots_reaches_into_objects_and_lists(name: str, value: Any) -> None:
    assert load([ROW]).column(name) == (value,)


def test_a_missing_or_nested_column_is_refused() -> None:
    nowhere = ("a.b.2.c", "a.b.-3.c", "a.b.c", "a.b.0.d", "a.b.+1.c", "a.b.٠.c", "l.1.0", "n.0", "z.0", "z", "contexts")
    for name in nowhere:
        with pytest.raises(InputError, match=rf"the data has no column {re.escape(name)}"):
            load([ROW]).column(name)
    with pytest.raises(InputError, match="the column l holds a list of 2"):
        load([ROW]).column("l")
