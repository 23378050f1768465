"""Ids, the fingerprint, and columns that are not ours."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.dataset import load
from localjudge.errors import InputError
from localjudge.resources import demo_file
from localjudge.types import Context, Sample, context_texts

rows = st.lists(
    st.fixed_dictionaries(
        {"question": st.sampled_from(["a", "b", None])},
        optional={"id": st.integers(0, 3), "contexts": st.lists(st.sampled_from("xy"), max_size=2)},
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row.get("id", object()),
)


@settings(deadline=None)
@given(rows=rows, data=st.data())
def test_the_order_of_rows_moves_neither_ids_nor_fingerprint(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    one, other = load(rows), load(shuffled)
    assert one.fingerprint == other.fingerprint
    assert {sample.id: sample for sample in one.samples} == {sample.id: sample for sample in other.samples}


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


def test_samples_are_rows_too() -> None:
    sample = Sample(id="1", user_input="q", retrieved_contexts=(Context(text="c", id="x", score=0.5, meta={"p": 1}),))
    data = load([sample, {"id": 2, "user_input": "r"}])
    assert data.samples == (sample, Sample(id="2", user_input="r"))
    assert data.fields == {"user_input", "retrieved_contexts"}


def test_columns_may_be_given_whole() -> None:
    columns: dict[str, list[Any]] = {"questions": ["a", "b"], "contexts": [["x"], ["y", "z"]]}
    data = load(columns)
    assert [sample.user_input for sample in data.samples] == ["a", "b"]


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


def test_the_demo_shows_samples_of_several_contexts_and_sentences() -> None:
    """And a response each, so that all metrics that ask a judge have something to ask."""
    data = load(demo_file())
    assert [sample.id for sample in data.samples] == ["eiffel-tower", "penicillin", "danube", "moon-landing"]
    assert data.fields == {"user_input", "retrieved_contexts", "reference", "response"}
    for sample in data.samples:
        contexts = context_texts(sample.retrieved_contexts)
        assert len(contexts) >= 2
        for text in (sample.reference, sample.response, " ".join(contexts)):
            assert len((text or "").split(". ")) >= 2
