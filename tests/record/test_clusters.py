"""The groups of samples, and the hash of them that a manifest signs."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.record.clusters import Clusters, clusters_sha256
from localjudge.record.keys import canonical_sha256

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def clusters_of(groups: dict[str, str]) -> Clusters:
    clusters = Clusters()
    for sample_id, group in groups.items():
        clusters.add(sample_id, group)
    return clusters


@given(st.dictionaries(_TEXTS, _TEXTS), st.lists(_TEXTS), st.randoms())
def test_groups_are_those_of_a_dictionary_and_so_is_their_hash(
    groups: dict[str, str], others: list[str], random: Random
) -> None:
    """The hash is of the dictionary as JSON with sorted keys, as in every manifest so far."""
    clusters = clusters_of(groups)
    asked = [*groups, *others]
    random.shuffle(asked)
    assert [clusters.get(one, "none") for one in asked] == [groups.get(one, "none") for one in asked]
    assert {one: clusters[one] for one in groups} == groups
    assert clusters_sha256(groups, clusters) == clusters_sha256(reversed(groups), groups) == canonical_sha256(groups)


def test_a_sample_without_a_group_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="b"):
        clusters_of({"a": "x"})["b"]


def test_of_a_sample_some_bytes_are_held() -> None:
    """20,000 samples with ids of 200 characters in 100 groups: 16 + 4 bytes each, and what grows with room to spare."""
    tracemalloc.start()
    clusters = Clusters()
    for number in range(20_000):
        clusters.add(f"{number:0200}", f"group {number % 100}")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 20_000 * 30
    assert clusters[f"{19_999:0200}"] == "group 99"
