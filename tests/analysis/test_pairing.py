"""Which samples of two runs are taken for the same."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localjudge.analysis.compare import Pair, pair_samples, sample_keys
from localjudge.dataset.samples import content_hash
from localjudge.types import Context, Sample


def sample(identifier: str, question: str | None = None, context: str = "c", reference: str | None = None) -> Sample:
    return Sample(id=identifier, user_input=question, reference=reference, retrieved_contexts=(Context(text=context),))


def paired(before: list[Sample], after: list[Sample]) -> list[Pair]:
    return pair_samples([*map(sample_keys, before)], [*map(sample_keys, after)])


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        pytest.param(
            [sample("1", "q", "old"), sample("2", "p", "old")],
            [sample("2", "p", "new"), sample("1", "q", "new")],
            [("2", "2", "id"), ("1", "1", "id")],
            id="equal ids pair whatever the samples say: a new retriever against an old one",
        ),
        pytest.param(
            [sample("1", "q"), sample("2", "p")], [sample("1", "p")], [("1", "1", "id")], id="ids before content"
        ),
        pytest.param(
            [sample("a1", "q"), sample("a2", "q")],
            [sample("b1", "q"), sample("b2", "q"), sample("b3", "q")],
            [("a1", "b1", "content"), ("a2", "b2", "content")],
            id="equal rows pair one to one",
        ),
        pytest.param(
            [sample("row-1", "q", "old")],
            [sample("row-2", "q", "new")],
            [("row-1", "row-2", "question")],
            id="rows without an id are named by their content, so a new context gives them a new name",
        ),
        pytest.param(
            [sample("1", "q", "old"), sample("2", "q", "older")], [sample("3", "q", "new")], [], id="asked twice"
        ),
        pytest.param(
            [sample("1", "q", "old", "r"), sample("2", "q", "old", "s")],
            [sample("3", "q", "new", "s"), sample("4", "q", "new", "t")],
            [("2", "3", "question"), ("1", "4", "question")],
            id="with its reference first: every sample asks for a summary of its own document",
        ),
        pytest.param(
            [sample("case-1", "q"), sample("case-2", "p", "old"), sample("case-3", "o")],
            [sample("row-1", "p", "new"), sample("row-2", "q"), sample("row-3", "n")],
            [("case-2", "row-1", "question"), ("case-1", "row-2", "content")],
            id="one run has ids and the other has none",
        ),
        pytest.param([sample("1", None, "old")], [sample("2", None, "new")], [], id="no question is not a question"),
    ],
)
def test_what_pairs_by_hand(before: list[Sample], after: list[Sample], pairs: list[tuple[str, str, str]]) -> None:
    assert [(before[pair.before].id, after[pair.after].id, pair.ground) for pair in paired(before, after)] == pairs


_SAMPLES = st.lists(
    st.builds(
        sample,
        st.sampled_from("abcdefghijkl"),
        st.sampled_from(["p", "q", "r", None]),
        st.sampled_from(["c", "d"]),
        st.sampled_from([None, None, "r", "s"]),
    ),
    unique_by=lambda row: row.id,
    max_size=12,
)


def by_the_rules(before: list[Sample], after: list[Sample]) -> set[tuple[str, str, str]]:
    """The rules, one sample at a time: id, then content, then a question that is single among what is left."""
    left_before, left_after = list(before), list(after)
    pairs = set()
    keys: list[tuple[str, Callable[[Sample], object]]] = [
        ("id", lambda row: row.id),
        ("content", content_hash),
        ("question", lambda row: (row.user_input, row.reference) if row.user_input or row.reference else None),
        ("question", lambda row: row.user_input),
    ]
    for ground, key in keys:
        asked = [[key(row) for row in side] for side in (left_before, left_after)]
        for row in list(left_after):
            partner = next((other for other in left_before if key(other) == key(row) is not None), None)
            single = all(side.count(key(row)) == 1 for side in asked)
            if partner and (single or ground != "question"):
                pairs.add((partner.id, row.id, ground))
                left_before.remove(partner)
                left_after.remove(row)
    return pairs


@given(_SAMPLES, _SAMPLES)
@example(
    [sample(str(number), "q") for number in range(300)], [sample(str(number), "q") for number in range(299, 0, -1)]
)
@settings(deadline=None, max_examples=500)
def test_pairs_are_those_of_the_rules(before: list[Sample], after: list[Sample]) -> None:
    """Random runs that share samples, rename them, change them and hold the same content several times."""
    pairs = paired(before, after)
    assert {(before[pair.before].id, after[pair.after].id, pair.ground) for pair in pairs} == by_the_rules(
        before, after
    )
    for pair in pairs:
        old, new = before[pair.before], after[pair.after]
        assert pair.same_content == (content_hash(old) == content_hash(new))
        assert pair.same_question == ((old.user_input, old.reference) == (new.user_input, new.reference))
    assert len({pair.before for pair in pairs}) == len(pairs)
    places = [pair.after for pair in pairs]
    assert places == sorted(set(places))


def test_two_runs_of_100_000_samples_are_paired_in_little_memory() -> None:
    """With all that is held of the samples: hashes, positions and ids, whatever the samples say."""
    count = 10_000
    before = [sample(f"s{number}", f"q{number}") for number in range(count)]
    tracemalloc.start()
    pairs = paired(before, before[::-1])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most * (100_000 / count) < 150 * 2**20
    assert [pair.before for pair in pairs] == list(range(count - 1, -1, -1))
