"""Which samples of two runs are taken for the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.analysis.pairing import pair_samples
from localjudge.types import Context, Sample


def sample(identifier: str, question: str | None = None, context: str = "c", reference: str | None = None) -> Sample:
    return Sample(id=identifier, user_input=question, reference=reference, retrieved_contexts=(Context(text=context),))


def pairs(before: list[Sample], after: list[Sample]) -> list[tuple[str, str, str]]:
    return [(pair.before.id, pair.after.id, pair.by) for pair in pair_samples(before, after).pairs]


def test_equal_ids_pair_whatever_the_samples_say() -> None:
    """That is how a new retriever is compared with an old one."""
    before, after = (
        [sample("1", "q", "old"), sample("2", "p", "old")],
        [sample("2", "p", "new"), sample("1", "q", "new")],
    )
    assert pairs(before, after) == [("2", "2", "id"), ("1", "1", "id")]
    assert [pair.same_content for pair in pair_samples(before, after).pairs] == [False, False]


def test_where_ids_differ_equal_content_pairs() -> None:
    assert pairs([sample("a", "q"), sample("b", "p")], [sample("x", "p")]) == [("b", "x", "content")]


def test_without_id_or_content_in_common_the_only_sample_with_the_same_question_pairs() -> None:
    """Rows without an id are named by their content, so a new context gives them a new name."""
    assert pairs([sample("row-1", "q", "old")], [sample("row-2", "q", "new")]) == [("row-1", "row-2", "question")]


def test_a_question_that_is_asked_twice_pairs_nothing() -> None:
    before = [sample("row-1", "q", "old"), sample("row-2", "q", "older")]
    assert pairs(before, [sample("row-3", "q", "new")]) == []
    assert pairs([sample("row-3", "q", "new")], before) == []


def test_another_reference_is_another_question() -> None:
    assert pairs([sample("1", "q", "old", "r")], [sample("2", "q", "new", "s")]) == []


def test_samples_without_question_and_reference_are_not_alike() -> None:
    assert pairs([sample("1", None, "old")], [sample("2", None, "new")]) == []


def test_equal_rows_pair_one_to_one() -> None:
    """Two and three rows of the same content: two pairs, one sample left."""
    before = [sample("a1", "q"), sample("a2", "q")]
    after = [sample("b1", "q"), sample("b2", "q"), sample("b3", "q")]
    found = pair_samples(before, after)
    assert [(pair.before.id, pair.after.id) for pair in found.pairs] == [("a1", "b1"), ("a2", "b2")]
    assert (found.only_before, found.only_after) == ((), ("b3",))


def test_an_id_in_common_comes_before_content_in_common() -> None:
    """Sample 1 of the new run says what sample 2 said; it is still sample 1."""
    assert pairs([sample("1", "q"), sample("2", "p")], [sample("1", "p")]) == [("1", "1", "id")]


_SAMPLES = st.lists(
    st.builds(sample, st.sampled_from("abcdefgh"), st.sampled_from(["p", "q", None]), st.sampled_from(["c", "d"])),
    unique_by=lambda one: one.id,
    max_size=8,
)


@given(_SAMPLES, _SAMPLES)
@settings(deadline=None)
def test_every_sample_is_in_one_pair_or_left_over(before: list[Sample], after: list[Sample]) -> None:
    found = pair_samples(before, after)
    paired = [(pair.before.id, pair.after.id) for pair in found.pairs]
    assert sorted([one for one, _ in paired] + list(found.only_before)) == sorted(one.id for one in before)
    assert sorted([one for _, one in paired] + list(found.only_after)) == sorted(one.id for one in after)
    assert [one for _, one in paired] == [one.id for one in after if one.id not in found.only_after]
