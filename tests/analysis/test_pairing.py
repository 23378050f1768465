"""Which samples of two runs are taken for the same."""

import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localjudge.analysis.compare import GROUNDS, HashedSamples, Pairing, pair_samples
from localjudge.dataset.identity import content_hash
from localjudge.types import Context, Sample


def sample(identifier: str, question: str | None = None, context: str = "c", reference: str | None = None) -> Sample:
    return Sample(id=identifier, user_input=question, reference=reference, retrieved_contexts=(Context(text=context),))


def paired(before: list[Sample], after: list[Sample]) -> Pairing:
    return pair_samples(HashedSamples(before), HashedSamples(after))


def pairs(before: list[Sample], after: list[Sample]) -> list[tuple[str, str, str]]:
    found = paired(before, after)
    columns = zip(found.before, found.after, found.grounds, strict=True)
    return [(before[old].id, after[new].id, GROUNDS[ground]) for old, new, ground in columns]


def test_equal_ids_pair_whatever_the_samples_say() -> None:
    """That is how a new retriever is compared with an old one."""
    before, after = (
        [sample("1", "q", "old"), sample("2", "p", "old")],
        [sample("2", "p", "new"), sample("1", "q", "new")],
    )
    assert pairs(before, after) == [("2", "2", "id"), ("1", "1", "id")]
    assert paired(before, after).same_content.tolist() == [False, False]


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
    assert paired(before, after).same_question.tolist() == [False]


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
    assert (paired(before, after).only_before.tolist(), paired(before, after).only_after.tolist()) == ([2], [2])


def test_samples_without_question_and_reference_are_not_alike() -> None:
    assert pairs([sample("1", None, "old")], [sample("2", None, "new")]) == []


def test_equal_rows_pair_one_to_one() -> None:
    """Two and three rows of the same content: two pairs, one sample left."""
    before = [sample("a1", "q"), sample("a2", "q")]
    after = [sample("b1", "q"), sample("b2", "q"), sample("b3", "q")]
    found = paired(before, after)
    assert pairs(before, after) == [("a1", "b1", "content"), ("a2", "b2", "content")]
    assert (found.only_before.tolist(), found.only_after.tolist()) == ([], [2])


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


class Reference(NamedTuple):
    """What is paired, in plain dictionaries: ids of the pairs, the ground, whether they say and ask the same."""

    pairs: list[tuple[str, str, str, bool, bool]]
    only_before: list[str]
    only_after: list[str]


def reference(before: list[Sample], after: list[Sample]) -> Reference:
    """The rules as they are written down: by id, then by content, then by questions that are single on both sides.

    First by questions with their references, then without.
    """
    keys: list[tuple[str, Callable[[Sample], object]]] = [
        ("id", _id),
        ("content", content_hash),
        ("question", _question),
        ("question", _user_input),
    ]
    there, here = list(before), list(after)
    found: dict[str, tuple[str, str, str, bool, bool]] = {}
    for ground, key in keys:
        old, new = _by_key(there, key), _by_key(here, key)
        for name in old.keys() & new.keys():
            if ground == "question" and not len(old[name]) == len(new[name]) == 1:
                continue
            for one, other in zip(old[name], new[name], strict=False):
                same = content_hash(one) == content_hash(other), _question(one) == _question(other)
                found[other.id] = (one.id, other.id, ground, *same)
                there.remove(one)
                here.remove(other)
    ids = [one.id for one in after]
    return Reference([found[one] for one in ids if one in found], list(map(_id, there)), list(map(_id, here)))


def _id(one: Sample) -> str:
    return one.id


def _question(one: Sample) -> tuple[str | None, str | None] | None:
    asked = one.user_input, one.reference
    return None if asked == (None, None) else asked


def _user_input(one: Sample) -> str | None:
    return one.user_input


def _by_key(samples: list[Sample], key: Callable[[Sample], object]) -> dict[object, list[Sample]]:
    found: dict[object, list[Sample]] = {}
    for one in samples:
        if key(one) is not None:
            found.setdefault(key(one), []).append(one)
    return found


@given(_SAMPLES, _SAMPLES)
@example(
    [sample(str(number), "q") for number in range(300)], [sample(str(number), "q") for number in range(299, 0, -1)]
)
@settings(deadline=None, max_examples=500)
def test_pairs_are_those_of_the_rules_written_down_with_dictionaries(before: list[Sample], after: list[Sample]) -> None:
    """Random runs that share samples, rename them, change them and hold the same content several times."""
    found = paired(before, after)
    same = zip(found.same_content.tolist(), found.same_question.tolist(), strict=True)
    assert Reference(
        [(*pair, *both) for pair, both in zip(pairs(before, after), same, strict=True)],
        [before[position].id for position in found.only_before],
        [after[position].id for position in found.only_after],
    ) == reference(before, after)


@given(_SAMPLES, _SAMPLES)
@settings(deadline=None)
def test_every_sample_is_in_one_pair_or_left_over(before: list[Sample], after: list[Sample]) -> None:
    found = paired(before, after)
    assert sorted([*found.before, *found.only_before]) == list(range(len(before)))
    assert sorted([*found.after, *found.only_after]) == list(range(len(after)))
    assert (np.diff(found.after) > 0).all()


def test_of_a_pair_a_few_numbers_are_held() -> None:
    """Six hashes of 16 bytes, and while they are sorted about as much again."""
    count = 4_000
    before = [sample(f"s{number}", f"q{number}") for number in range(count)]
    after = before[::-1]
    paired(before[:1], after[:1])  # what is made once is no part of it
    tracemalloc.start()
    found = paired(before, after)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 300 * count
    assert found.before.tolist() == list(range(count - 1, -1, -1))
