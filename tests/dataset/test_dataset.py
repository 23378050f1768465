import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import InputError
from localjudge.dataset import load

CONTEXT: dict[str, Any] = {"text": "c", "id": "1", "score": 0.5, "meta": {"page": 3}}
ROW: dict[str, Any] = {
    **{"question": "q", "contexts": [], "n": None, "l": ["x", "y"], "l.0": "a column"},
    "a": {"b": [{"c": 1}, {"c": 2}], "0": "key", "": "nothing"},
}


@pytest.mark.parametrize(
    "changed",
    [
        *(
            {"id": "2"},
            {"user_input": "Q"},
            {"user_input": None},
            {"reference": "R"},
            {"response": ""},
        ),
        *(
            {"retrieved_contexts": value}
            for value in ([], [CONTEXT], [CONTEXT, "d", "d"], ["d", CONTEXT])
        ),
        *({"retrieved_contexts": [{**CONTEXT, "text": text}, "d"]} for text in ("c ", "C")),
        *(
            {"retrieved_contexts": [{**CONTEXT, "id": identifier}, "d"]}
            for identifier in ("2", None)
        ),
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
    assert (
        load([row]).fingerprint
        == "d33104f106458b3701c7f218b1fa520ed8aab6caf43a5bbb9e41f3753c703766"
    )


def test_a_column_is_found_by_its_own_and_its_field_name() -> None:
    data = load(
        [{"id": 1, "question": "q", "document": "d1", "meta": {"page": 3}}, {"document": None}]
    )
    assert data.column("document") == ("d1", None)
    assert data.column("meta.page") == (3, None)
    assert data.column("question") == data.column("user_input") == ("q", None)
    assert data.column("id")[0] == "1"


def test_a_column_named_like_a_field_has_priority() -> None:
    data = load(
        [{"gold": "r", "reference": "a book"}, {"gold": "s"}], mapping={"reference": "gold"}
    )
    assert data.column("reference") == ("a book", "s")
    assert data.column("gold") == ("r", "s")


def test_a_column_may_be_all_null_and_nan_is_null() -> None:
    data = load([{"question": "q", "ground_truth": None, "n": None}])
    assert (data.column("n"), data.samples[0].reference) == ((None,), None)
    assert data.fields == {"user_input", "reference"}
    assert load([{"question": "q", "n": 1.0}, {"question": "q", "n": float("nan")}]).column(
        "n"
    ) == (1.0, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("a.b.0.c", 1),
            ("a.b.1.c", 2),
            ("a.b.-1.c", 2),
            ("a.b.-2.c", 1),
            ("a.0", "key"),
            ("a.", "nothing"),
        ),
        *(("l.1", "y"), ("l.0", "a column"), ("n", None)),
    ],
)
def test_a_name_with_dots_reaches_into_objects_and_lists(name: str, value: Any) -> None:
    assert load([ROW]).column(name) == (value,)


def test_a_missing_or_nested_column_is_refused() -> None:
    nowhere = (
        "a.b.2.c",
        "a.b.-3.c",
        "a.b.c",
        "a.b.0.d",
        "a.b.+1.c",
        "a.b.٠.c",
        "l.1.0",
        "n.0",
        "z.0",
        "z",
        "contexts",
    )
    for name in nowhere:
        with pytest.raises(InputError, match=rf"no column {re.escape(name)}"):
            load([ROW]).column(name)
    with pytest.raises(InputError, match=r"column l .*list of 2"):
        load([ROW]).column("l")


ID = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
IDS = st.lists(ID, unique=True, min_size=1)


def dataset(ids: list[str]) -> Any:
    return load([{"id": name, "question": f"Why {name}?", "topic": name[:1]} for name in ids])


def list_ids(part: Any) -> list[str]:
    return [sample.id for sample in part.samples]


def test_the_first_n_keep_their_columns_and_have_their_own_fingerprint() -> None:
    whole = dataset(["a", "b", "c"])
    part = whole.first(2)
    assert (list_ids(part), [extra["topic"] for extra in part.extras]) == (["a", "b"], ["a", "b"])
    assert part.fingerprint == dataset(["b", "a"]).fingerprint != whole.fingerprint
    assert part.column("topic") == ("a", "b")
    assert whole.first(3) is whole.draw(4, seed=1) is whole


@given(IDS, st.integers(0, 3), st.data())
def test_a_drawn_sample_remains_drawn(ids: list[str], seed: int, data: Any) -> None:
    """With more draws, another order, or fewer other rows: the smallest hashes count."""
    whole = dataset(ids)
    count = data.draw(st.integers(1, len(ids)))
    chosen = list_ids(whole.draw(count, seed))
    assert len(chosen) == count
    assert chosen == [name for name in list_ids(whole) if name in chosen]
    assert set(chosen) <= set(list_ids(whole.draw(count + 1, seed)))
    shuffled = data.draw(st.permutations(ids))
    assert set(list_ids(dataset(shuffled).draw(count, seed))) == set(chosen)
    remaining = [name for name in ids if name in chosen or data.draw(st.booleans())]
    assert list_ids(dataset(remaining).draw(count, seed)) == chosen


def test_seeds_draw_all_samples_equally_often() -> None:
    """20 of 100 with 200 seeds: 40 times each, within 4 sd of sqrt(200 x .2 x .8) = 5.7."""
    whole = dataset([str(number) for number in range(100)])
    counts = dict.fromkeys(list_ids(whole), 0)
    for seed in range(200):
        for name in list_ids(whole.draw(20, seed)):
            counts[name] += 1
    assert sum(counts.values()) == 4_000
    assert 40 - 23 <= min(counts.values()) <= max(counts.values()) <= 40 + 23


def test_the_draw_of_seed_0_is_stable() -> None:
    """Later versions draw again. The three smallest sha256 of `0|0` ... `0|9`."""
    numbers = [str(number) for number in range(10)]
    smallest = sorted(
        numbers, key=lambda number: hashlib.sha256(f"0|{number}".encode()).hexdigest()
    )[:3]
    assert list_ids(dataset(numbers).draw(3, seed=0)) == sorted(smallest)


def test_a_part_has_the_metrics_of_the_whole() -> None:
    contexts: list[dict[str, Any]] = [{"id": "1"}, {"id": "2", "text": "Two."}, {"id": "3"}]
    whole = load([{"id": context["id"], "retrieved_contexts": [context]} for context in contexts])
    part = whole.first(1)
    assert (whole.table.without_text, whole.table.bare) == (frozenset(), 2)
    assert (part.table.without_text, part.table.bare, part.fields) == (frozenset(), 1, whole.fields)
