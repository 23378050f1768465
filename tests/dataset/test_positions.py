"""Where a sample stands, by its id."""

from hypothesis import given
from hypothesis import strategies as st

from localjudge.dataset.positions import Positions

_IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@given(st.lists(_IDS, unique=True), st.lists(_IDS))
def test_ids_are_found_as_in_a_dictionary_in_any_order(ids: list[str], others: list[str]) -> None:
    """In the order of the data, each several times, backwards, and between ids that are not there."""
    positions = Positions()
    for one in ids:
        positions.append(one)
    expected = {one: position for position, one in enumerate(ids)}
    find = positions.finder()
    for asked in [*ids, *ids, *reversed(ids), *(one for one in ids for _ in range(2)), *others, *ids]:
        assert find(asked) == expected.get(asked)
    assert len(positions) == len(ids)


def test_nothing_is_found_where_nothing_is() -> None:
    assert Positions().finder()("a") is None
