"""A part of the data: the same samples for the same seed, whatever stands beside them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.dataset import Dataset, load
from localjudge.dataset.rows import says_nothing
from localjudge.dataset.samples import fingerprint

ID = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
IDS = st.lists(ID.filter(lambda identifier: not says_nothing(identifier)), unique=True, min_size=1)


def dataset(ids: list[str]) -> Dataset:
    return load([{"id": name, "question": f"Why {name}?", "topic": name[:1]} for name in ids])


def ids_of(part: Dataset) -> list[str]:
    return [sample.id for sample in part.samples]


def test_the_first_are_the_first_with_their_columns_and_a_fingerprint_of_their_own() -> None:
    whole = dataset(["a", "b", "c"])
    part = whole.first(2)
    assert (ids_of(part), [extra["topic"] for extra in part.extras]) == (["a", "b"], ["a", "b"])
    assert part.fingerprint == fingerprint(part.samples) == dataset(["b", "a"]).fingerprint != whole.fingerprint
    assert part.column("topic") == ("a", "b")


@pytest.mark.parametrize("count", [3, 4])
def test_a_part_of_all_is_the_whole(count: int) -> None:
    """So its run is that of the whole."""
    whole = dataset(["a", "b", "c"])
    assert whole.first(count) is whole
    assert whole.draw(count, seed=1) is whole


@settings(deadline=None)
@given(IDS, st.integers(0, 3), st.data())
def test_a_sample_that_is_drawn_stays_drawn(ids: list[str], seed: int, data: Any) -> None:
    """For a larger number, in another order, and when other rows go: those with smaller hashes stay the smallest."""
    whole = dataset(ids)
    count = data.draw(st.integers(1, len(ids)))
    chosen = ids_of(whole.draw(count, seed))
    assert len(chosen) == count
    assert chosen == [name for name in ids_of(whole) if name in chosen]
    assert set(chosen) <= set(ids_of(whole.draw(count + 1, seed)))
    shuffled = data.draw(st.permutations(ids))
    assert set(ids_of(dataset(shuffled).draw(count, seed))) == set(chosen)
    kept = [name for name in ids if name in chosen or data.draw(st.booleans())]
    assert ids_of(dataset(kept).draw(count, seed)) == chosen


def test_another_seed_draws_others_and_all_about_as_often() -> None:
    """20 of 100, by 200 seeds: each 40 times, give or take four standard deviations of sqrt(200 x .2 x .8) = 5.7."""
    whole = dataset([str(number) for number in range(100)])
    counts = dict.fromkeys(ids_of(whole), 0)
    for seed in range(200):
        for name in ids_of(whole.draw(20, seed)):
            counts[name] += 1
    assert sum(counts.values()) == 4_000
    assert 40 - 23 <= min(counts.values()) <= max(counts.values()) <= 40 + 23


def test_which_samples_seed_0_draws_stays_the_same() -> None:
    """Fixed, since a part is drawn again later by another version: sha256 of `0|0` ... `0|9`, the three smallest."""
    import hashlib

    numbers = [str(number) for number in range(10)]
    smallest = sorted(numbers, key=lambda number: hashlib.sha256(f"0|{number}".encode()).hexdigest())[:3]
    assert ids_of(dataset(numbers).draw(3, seed=0)) == sorted(smallest)


def test_what_the_columns_give_is_what_they_give_in_the_whole() -> None:
    """A part whose contexts happen to have no texts is scored by the metrics of the whole."""
    rows: list[dict[str, Any]] = [
        {"id": "a", "retrieved_contexts": [{"id": "1"}]},
        {"id": "b", "retrieved_contexts": [{"id": "2", "text": "Two."}]},
        {"id": "c", "retrieved_contexts": [{"id": "3"}]},
    ]
    whole = load(rows)
    part = whole.first(1)
    assert (whole.table.without_text, whole.table.bare) == (frozenset(), 2)
    assert (part.table.without_text, part.table.bare, part.fields) == (frozenset(), 1, whole.fields)
