"""Which samples of two runs are taken for the same."""

import tracemalloc
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from localjudge.analysis.compare import Pairing, pair_samples, sample_keys
from localjudge.dataset.samples import content_hash
from localjudge.types import Context, Sample


def sample(identifier: str, question: str | None = None, context: str = "c", reference: str | None = None) -> Sample:
    return Sample(id=identifier, user_input=question, reference=reference, retrieved_contexts=(Context(text=context),))


def paired(before: list[Sample], after: list[Sample]) -> Pairing:
    return pair_samples([*map(sample_keys, before)], [*map(sample_keys, after)])


def pairs(before: list[Sample], after: list[Sample]) -> list[tuple[str, str, str]]:
    return [(before[pair.before].id, after[pair.after].id, pair.ground) for pair in paired(before, after).pairs]


def test_equal_ids_pair_whatever_the_samples_say() -> None:
    """That is how a new retriever is compared with an old one."""
    before, after = (
        [sample("1", "q", "old"), sample("2", "p", "old")],
        [sample("2", "p", "new"), sample("1", "q", "new")],
    )
    assert pairs(before, after) == [("2", "2", "id"), ("1", "1", "id")]
    assert [pair.same_content for pair in paired(before, after).pairs] == [False, False]


def test_where_ids_differ_equal_content_pairs() -> None:
    assert pairs([sample("a", "q"), sample("b", "p")], [sample("x", "p")]) == [("b", "x", "content")]


def test_without_id_or_content_in_common_the_only_sample_with_the_same_question_pairs() -> None:
    """Rows without an id are named by their content, so a new context gives them a new name."""
    assert pairs([sample("row-1", "q", "old")], [sample("row-2", "q", "new")]) == [("row-1", "row-2", "question")]


def test_a_question_that_is_asked_twice_pairs_nothing() -> None:
    before = [sample("row-1", "q", "old"), sample("row-2", "q", "older")]
    assert pairs(before, [sample("row-3", "q", "new")]) == []
    assert pairs([sample("row-3", "q", "new")], before) == []


def test_a_question_pairs_though_its_reference_changed() -> None:
    """That is said, as of samples with the same id."""
    before, after = [sample("1", "q", "old", "r")], [sample("2", "q", "new", "s")]
    assert pairs(before, after) == [("1", "2", "question")]
    assert not paired(before, after).pairs[0].same_question


def test_a_question_with_its_reference_comes_before_the_question_alone() -> None:
    """As where every sample asks for a summary of its own document."""
    before = [sample("1", "q", "old", "r"), sample("2", "q", "old", "s")]
    assert pairs(before, [sample("3", "q", "new", "s"), sample("4", "q", "new", "t")]) == [
        ("2", "3", "question"),
        ("1", "4", "question"),
    ]


def test_where_one_run_has_ids_and_the_other_has_none_content_pairs_and_then_the_question() -> None:
    before = [sample("case-1", "q"), sample("case-2", "p", "old"), sample("case-3", "o")]
    after = [sample("row-1", "p", "new"), sample("row-2", "q"), sample("row-3", "n")]
    assert pairs(before, after) == [("case-2", "row-1", "question"), ("case-1", "row-2", "content")]
    assert paired(before, after)[1:] == ([2], [2])


def test_samples_without_question_and_reference_are_not_alike() -> None:
    assert pairs([sample("1", None, "old")], [sample("2", None, "new")]) == []


def test_equal_rows_pair_one_to_one() -> None:
    """Two and three rows of the same content: two pairs, one sample left."""
    before = [sample("a1", "q"), sample("a2", "q")]
    after = [sample("b1", "q"), sample("b2", "q"), sample("b3", "q")]
    assert pairs(before, after) == [("a1", "b1", "content"), ("a2", "b2", "content")]
    assert paired(before, after)[1:] == ([], [2])


def test_an_id_in_common_comes_before_content_in_common() -> None:
    """Sample 1 of the new run says what sample 2 said; it is still sample 1."""
    assert pairs([sample("1", "q"), sample("2", "p")], [sample("1", "p")]) == [("1", "1", "id")]


_SAMPLES = st.lists(
    st.builds(
        sample,
        st.sampled_from("abcdefghijkl"),
        st.sampled_from(["p", "q", "r", None]),
        st.sampled_from(["c", "d"]),
        st.sampled_from([None, None, "r", "s"]),
    ),
    unique_by=lambda one: one.id,
    max_size=12,
)


def by_the_rules(before: list[Sample], after: list[Sample]) -> set[tuple[str, str, str]]:
    """The rules, one sample at a time: id, then content, then a question that is single among what is left."""
    left_before, left_after = list(before), list(after)
    pairs = set()
    keys: list[tuple[str, Callable[[Sample], object]]] = [
        ("id", lambda one: one.id),
        ("content", content_hash),
        ("question", lambda one: (one.user_input, one.reference) if one.user_input or one.reference else None),
        ("question", lambda one: one.user_input),
    ]
    for ground, key in keys:
        asked = [[key(one) for one in side] for side in (left_before, left_after)]
        for one in list(left_after):
            partner = next((other for other in left_before if key(other) == key(one) is not None), None)
            single = all(side.count(key(one)) == 1 for side in asked)
            if partner and (single or ground != "question"):
                pairs.add((partner.id, one.id, ground))
                left_before.remove(partner)
                left_after.remove(one)
    return pairs


@given(_SAMPLES, _SAMPLES)
@example(
    [sample(str(number), "q") for number in range(300)], [sample(str(number), "q") for number in range(299, 0, -1)]
)
@settings(deadline=None, max_examples=500)
def test_pairs_are_those_of_the_rules(before: list[Sample], after: list[Sample]) -> None:
    """Random runs that share samples, rename them, change them and hold the same content several times."""
    assert set(pairs(before, after)) == by_the_rules(before, after)
    pairing = paired(before, after)
    for pair in pairing.pairs:
        old, new = before[pair.before], after[pair.after]
        assert pair.same_content == (content_hash(old) == content_hash(new))
        assert pair.same_question == ((old.user_input, old.reference) == (new.user_input, new.reference))
    assert sorted([pair.before for pair in pairing.pairs] + pairing.only_before) == list(range(len(before)))
    places = [pair.after for pair in pairing.pairs]
    assert places == sorted(set(places))
    assert sorted(places + pairing.only_after) == list(range(len(after)))


def test_two_runs_of_100_000_samples_are_paired_in_little_memory() -> None:
    """With all that is held of the samples: hashes, positions and ids, whatever the samples say."""
    count = 10_000
    before = [sample(f"s{number}", f"q{number}") for number in range(count)]
    tracemalloc.start()
    pairing = paired(before, before[::-1])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most * (100_000 / count) < 150 * 2**20
    assert [pair.before for pair in pairing.pairs] == list(range(count - 1, -1, -1))
