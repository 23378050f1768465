from typing import Any

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


def test_the_first_n_keep_their_columns_and_have_their_own_fingerprint() -> None:
    whole = dataset(["a", "b", "c"])
    part = whole.first(2)
    assert (ids_of(part), [extra["topic"] for extra in part.extras]) == (["a", "b"], ["a", "b"])
    assert part.fingerprint == fingerprint(part.samples) == dataset(["b", "a"]).fingerprint != whole.fingerprint
    assert part.column("topic") == ("a", "b")
    assert whole.first(3) is whole.draw(4, seed=1) is whole


@settings(deadline=None)
@given(IDS, st.integers(0, 3), st.data())
def test_a_drawn_sample_remains_drawn(ids: list[str], seed: int, data: Any) -> None:
    """For a larger sample, in another order, and after other rows are removed: the smallest hashes count."""
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


def test_seeds_draw_all_samples_equally_often() -> None:
    """20 of 100 with 200 seeds: 40 times each, within four standard deviations of sqrt(200 x .2 x .8) = 5.7."""
    whole = dataset([str(number) for number in range(100)])
    counts = dict.fromkeys(ids_of(whole), 0)
    for seed in range(200):
        for name in ids_of(whole.draw(20, seed)):
            counts[name] += 1
    assert sum(counts.values()) == 4_000
    assert 40 - 23 <= min(counts.values()) <= max(counts.values()) <= 40 + 23


def test_the_draw_of_seed_0_is_stable() -> None:
    """Later versions draw again. The three smallest sha256 of `0|0` ... `0|9`."""
    import hashlib

    numbers = [str(number) for number in range(10)]
    smallest = sorted(numbers, key=lambda number: hashlib.sha256(f"0|{number}".encode()).hexdigest())[:3]
    assert ids_of(dataset(numbers).draw(3, seed=0)) == sorted(smallest)


def test_a_part_has_the_metrics_of_the_whole() -> None:
    """Even if none of its contexts has a text."""
    contexts: list[dict[str, Any]] = [{"id": "1"}, {"id": "2", "text": "Two."}, {"id": "3"}]
    whole = load([{"id": context["id"], "retrieved_contexts": [context]} for context in contexts])
    part = whole.first(1)
    assert (whole.table.without_text, whole.table.bare) == (frozenset(), 2)
    assert (part.table.without_text, part.table.bare, part.fields) == (frozenset(), 1, whole.fields)
