from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.judge.windows import Windows, sliding_runs
from localjudge.metrics import Attribution, Relevance, Task, Usefulness
from localjudge.text import sentences
from tests.judge.conftest import unit


def cost(task: Task) -> int:
    beside = task.contexts if isinstance(task, Attribution) else ()
    asked = (task.user_input or "") if isinstance(task, Relevance) else ""
    return sum(map(len, beside)) + len(asked) + len(task.unit.span.text)


def sliding(capacity: int, overlap: int = 1) -> Windows:
    return Windows(cost=cost, capacity=capacity, sentences=sentences, overlap=overlap)


def additive(sizes: list[int]) -> Callable[[int, int], int]:
    return lambda first, last: sum(sizes[first : last + 1])


@pytest.mark.parametrize(
    ("sizes", "overlap", "runs"),
    [
        ([3, 3, 3, 3, 3], 1, [(0, 2), (2, 4)]),
        ([3, 3, 3, 3, 3], 2, [(0, 2), (1, 3), (2, 4)]),
        ([3, 3, 3, 3, 3], 0, [(0, 2), (3, 4)]),
        ([3, 9, 3], 1, [(0, 0), (1, 1), (2, 2)]),  # no sentence fits beside the long one
        (
            [3, 30, 3],
            1,
            [(0, 0), (1, 1), (2, 2)],
        ),  # a sentence that never fits gets a window, for the engine to refuse
        ([3], 1, [(0, 0)]),
        ([], 1, []),
    ],
)
def test_runs_repeat_sentences_of_the_previous_run(
    sizes: list[int], overlap: int, runs: list[tuple[int, int]]
) -> None:
    """Room for 10."""
    assert sliding_runs(sizes, 10, overlap, additive(sizes)) == runs


@settings(max_examples=300)
@given(st.lists(st.integers(1, 12), max_size=30), st.integers(0, 3))
def test_runs_cover_every_sentence_and_cannot_be_longer(sizes: list[int], overlap: int) -> None:
    size = additive(sizes)
    runs = sliding_runs(sizes, 10, overlap, size)
    covered = [place for first, last in runs for place in range(first, last + 1)]
    assert sorted(set(covered)) == list(range(len(sizes)))
    for first, last in runs:
        assert size(first, last) <= 10 or first == last
        assert last == len(sizes) - 1 or size(first, last + 1) > 10
    for (first, last), (following, _) in pairwise(runs):
        repeated = last + 1 - following
        assert 0 <= repeated <= overlap
        has_no_room_for_more = size(following - 1, last + 1) > 10
        assert repeated == overlap or has_no_room_for_more or following == first + 1


@settings(max_examples=100)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30))
def test_a_run_longer_than_its_sentences_is_shortened(sizes: list[int]) -> None:
    """A token joins each pair of sentences."""

    def joined(first: int, last: int) -> int:
        return sum(sizes[first : last + 1]) + last - first

    for first, last in sliding_runs(sizes, 10, 1, joined):
        assert joined(first, last) <= 10 or first == last


def test_windows_are_verbatim_and_run_over_several_contexts() -> None:
    """Sentences of 10; a statement of 10 leaves 35: three sentences, and two characters between."""
    contexts = ("Aaaaaaaa1.  Bbbbbbbb2.", "Cccccccc3.\nDdddddddd4.")
    task = Attribution(unit=unit("statement", "s" * 10), contexts=contexts)
    windows = sliding(45).split(task)
    assert [number for _, number in windows] == [0, 1]
    shown = [window.contexts for window, _ in windows if isinstance(window, Attribution)]
    assert shown == [(contexts[0], "Cccccccc3."), ("Cccccccc3.\nDdddddddd4.",)]


def test_a_task_that_fits_is_not_cut() -> None:
    task = Attribution(unit=unit("statement", "s"), contexts=("One. Two.",))
    assert sliding(100).split(task) == [(task, None)]


def test_a_statement_without_room_gets_windows_that_the_engine_refuses() -> None:
    task = Attribution(unit=unit("statement", "s" * 95), contexts=("Aaaaaaaa1. Bbbbbbbb2.",))
    windows = sliding(100).split(task)
    assert len(windows) == 2
    assert all(cost(window) > 100 for window, _ in windows)


def test_the_windows_of_a_statement_do_not_depend_on_earlier_statements() -> None:
    contexts = (" ".join(f"Sentence {number} is here." for number in range(20)),)
    tasks = [
        Attribution(unit=unit("statement", "s" * length), contexts=contexts)
        for length in (5, 60, 5, 33)
    ]
    shared = sliding(200)
    assert [shared.split(task) for task in tasks] == [sliding(200).split(task) for task in tasks]


def test_a_judged_chunk_slides_too() -> None:
    """Sentences of 10 characters; a question of 20 leaves 25 of 45: two sentences and a space."""
    chunk = "Aaaaaaaa1. Bbbbbbbb2. Cccccccc3."
    relevance = Relevance(unit=unit("chunk", chunk), user_input="q" * 20)
    windows = sliding(45).split(relevance)
    assert [window.unit.span.text for window, _ in windows] == [
        "Aaaaaaaa1. Bbbbbbbb2.",
        "Bbbbbbbb2. Cccccccc3.",
    ]
    usefulness = Usefulness(unit=unit("chunk", chunk), user_input=None, reference="r")
    assert [window.unit.span.text for window, _ in sliding(25).split(usefulness)] == [
        "Aaaaaaaa1. Bbbbbbbb2.",
        "Bbbbbbbb2. Cccccccc3.",
    ]
