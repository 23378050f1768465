import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localjudge import Sample
from localjudge.analysis.pairing import find_ground, is_same_question, pair_samples, sample_keys
from localjudge.metrics import Context


def sample(
    identifier: str,
    question: str | None = None,
    context: str = "c",
    reference: str | None = None,
) -> Sample:
    return Sample(
        id=identifier,
        user_input=question,
        reference=reference,
        retrieved_contexts=(Context(text=context),),
    )


def samples(words: str) -> list[Sample]:
    """Parse `1 q c r, 2 - d`: id, question, context and reference of each sample; - for no
    question.
    """
    rows = [row.split() for row in words.split(",")]
    return [sample(row[0], None if row[1] == "-" else row[1], *row[2:]) for row in rows]


def paired(before: list[Sample], after: list[Sample]) -> Any:
    return pair_samples([*map(sample_keys, before)], [*map(sample_keys, after)])


def partners(before: list[Sample], after: list[Sample]) -> list[tuple[str, str, str]]:
    """Return the ids of each pair and the key that matched."""
    found: list[tuple[str, str, str]] = []
    for new, old in paired(before, after).items():
        ground = find_ground(sample_keys(before[old]), sample_keys(after[new]))
        found.append((before[old].id, after[new].id, ground))
    return found


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        # Equal ids pair for any content, as with a new retriever.
        ("1 q old, 2 p old", "2 p new, 1 q new", "2 2 id, 1 1 id"),
        ("1 q, 2 p", "1 p", "1 1 id"),
        # Equal rows pair one to one.
        ("a1 q, a2 q", "b1 q, b2 q, b3 q", "a1 b1 content, a2 b2 content"),
        # Generated ids depend on the content, so a new context changes them.
        ("row-1 q old", "row-2 q new", "row-1 row-2 question"),
        ("1 q old, 2 q older", "3 q new", ""),
        # The reference distinguishes samples that all ask for a summary.
        ("1 q old r, 2 q old s", "3 q new s, 4 q new t", "2 3 question, 1 4 question"),
        # One run has ids and the other has none.
        (
            "case-1 q, case-2 p old, case-3 o",
            "row-1 p new, row-2 q, row-3 n",
            "case-2 row-1 question, case-1 row-2 content",
        ),
        ("1 - old", "2 - new", ""),
    ],
)
def test_pairs_by_hand(before: str, after: str, pairs: str) -> None:
    old = samples(before)
    new = samples(after)
    assert ", ".join(map(" ".join, partners(old, new))) == pairs


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
    """Pair one sample at a time: by id, by content, then by a question unique among the rest."""
    left_before = list(before)
    left_after = list(after)
    pairs = set()
    keys: list[tuple[str, Callable[[Sample], object]]] = [
        ("id", lambda row: row.id),
        ("content", lambda row: row.model_dump_json(exclude={"id"})),
        (
            "question",
            lambda row: (
                (row.user_input, row.reference) if row.user_input or row.reference else None
            ),
        ),
        ("question", lambda row: row.user_input),
    ]
    for ground, key in keys:
        asked = [[key(row) for row in side] for side in (left_before, left_after)]
        for row in list(left_after):
            partner = next(
                (other for other in left_before if key(other) == key(row) is not None), None
            )
            single = all(side.count(key(row)) == 1 for side in asked)
            if partner and (single or ground != "question"):
                pairs.add((partner.id, row.id, ground))
                left_before.remove(partner)
                left_after.remove(row)
    return pairs


@given(_SAMPLES, _SAMPLES)
@example(
    [sample(str(number), "q") for number in range(300)],
    [sample(str(number), "q") for number in range(299, 0, -1)],
)
@settings(max_examples=500)
def test_pairs_match_the_slow_implementation(before: list[Sample], after: list[Sample]) -> None:
    pairs = paired(before, after)
    assert set(partners(before, after)) == by_the_rules(before, after)
    for place, other in pairs.items():
        old = before[other]
        new = after[place]
        texts = [(old.user_input, new.user_input), (old.reference, new.reference)]
        is_same = all(None in both or both[0] == both[1] for both in texts)
        assert is_same_question(sample_keys(old), sample_keys(new)) == is_same
    assert len(set(pairs.values())) == len(pairs)
    assert list(pairs) == sorted(pairs)


def test_two_runs_of_100_000_samples_are_paired_in_little_memory() -> None:
    count = 10_000
    before = [sample(f"s{number}", f"q{number}") for number in range(count)]
    tracemalloc.start()
    pairs = paired(before, before[::-1])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most * (100_000 / count) < 150 * 2**20
    assert list(pairs.values()) == list(range(count - 1, -1, -1))
