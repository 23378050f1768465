import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.judge.windows import Windows, sliding_runs
from localjudge.metrics import Attribution, Relevance, Span, Task, Unit, Usefulness
from localjudge.text import Segmenter
from localjudge.types import Refusal, Sufficiency
from tests.judge.conftest import unit

sentences = Segmenter()


def cost(task: Task) -> int:
    beside = () if isinstance(task, Usefulness | Refusal) else task.contexts
    asked = (task.user_input or "") if isinstance(task, Relevance) else ""
    return sum(map(len, beside)) + len(asked) + len(task.unit.span.text)


def windows(task: Task, *, cost: Any, capacity: int, sentences: Any) -> tuple[Task, ...]:
    cut = Windows(cost=cost, capacity=capacity, sentences=sentences)
    return tuple(window for window, _ in cut.split(task))


def list_contexts(tasks: tuple[Task, ...]) -> list[tuple[str, ...]]:
    return [task.contexts for task in tasks if isinstance(task, Attribution | Sufficiency)]


def test_whole_chunks_are_packed_in_order() -> None:
    """Unit of 10, room 300 - 128 = 172: chunks of 80, 80, 100, 60 go 80+80 | 100+60."""
    chunks = ("a" * 80, "b" * 80, "c" * 100, "d" * 60)
    for task in (
        Attribution(unit=unit("statement", "s" * 10), contexts=chunks),
        Sufficiency(unit=unit("question", "q" * 10), contexts=chunks, user_input="q" * 10),
    ):
        assert list_contexts(windows(task, cost=cost, capacity=300, sentences=sentences)) == [
            chunks[:2],
            chunks[2:],
        ]
    response = Refusal(unit=unit("response", "r" * 400))
    assert windows(response, cost=cost, capacity=300, sentences=sentences) == (response,)


def test_a_chunk_that_does_not_fit_is_cut_at_sentences() -> None:
    """Beside 1, room 260 - 128 = 132: sentences of 90 go one by one (90 + 1 + 90 > 132)."""
    sentence = "A" + "b" * 88 + "."
    chunk = " ".join([sentence] * 3)
    task = Attribution(unit=unit("statement", "s"), contexts=(chunk,))
    assert (
        list_contexts(windows(task, cost=cost, capacity=260, sentences=sentences))
        == [(sentence,)] * 3
    )
    judged = Relevance(unit=unit("chunk", chunk), user_input="q" * 20)
    cut = windows(judged, cost=cost, capacity=180, sentences=sentences)
    assert [window.unit.text for window in cut] == [sentence] * 3


@settings(max_examples=50)
@given(st.lists(st.text("ab. \n", max_size=200), max_size=6), st.integers(150, 400))
def test_no_text_is_lost_and_none_is_repeated(chunks: list[str], capacity: int) -> None:
    """Windows contain every character that is not white space, once and in order."""
    task = Attribution(unit=unit("statement", "s"), contexts=tuple(chunks))
    cut = windows(task, cost=cost, capacity=capacity, sentences=sentences)
    judged = "".join(part for group in list_contexts(cut) for part in group)
    assert "".join(judged.split()) == "".join("".join(chunks).split())


def test_a_sentence_gets_the_window_around_it() -> None:
    """Question and sentence take 70, so 128; 132 of 260 are left: x A C = 131, D E = 101, F y."""
    texts = [f"{letter}{'b' * 48}." for letter in "ACDEF"]
    contexts = ("x" * 30, " ".join(texts), "y" * 30)
    start = contexts[1].index(texts[3])
    span = Span(start=start, end=start + 50, text=texts[3])
    sentence = unit("sentence", "").model_copy(update={"span": span, "source_index": 1})
    asked = Relevance(unit=sentence, user_input="q" * 20, contexts=contexts)
    [shown] = Windows(cost=cost, capacity=260, sentences=sentences).split(asked)
    beside = asked.model_copy(update={"contexts": (f"{texts[2]} {texts[3]}",)})
    assert shown == (beside, 1)


def test_a_sentence_too_long_for_its_window_is_left_to_the_engine() -> None:
    """The sentence occurs in its window and after it: 301 twice is more than 400."""
    long = "A" * 300 + "."
    sentence = unit("sentence", long).model_copy(update={"source_index": 0})
    asked = Relevance(unit=sentence, user_input="q", contexts=(f"{long} Short.",))
    cut = Windows(cost=cost, capacity=400, sentences=sentences)
    assert cut.split(asked) == [(asked, None)]


def rounded_cost(task: Task) -> int:
    """Seven characters make 20 tokens, as if neighbouring texts could share a token."""
    return 20 * math.ceil(cost(task) / 7)


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("measure", [cost, rounded_cost])
@given(
    contexts=st.lists(st.text("ab. ", max_size=60), min_size=1, max_size=6),
    lengths=st.lists(st.integers(1, 300), min_size=2, max_size=6),
    capacity=st.integers(130, 500),
)
def test_windows_do_not_depend_on_earlier_tasks(
    measure: Any, overlap: int, contexts: list[str], lengths: list[int], capacity: int
) -> None:
    """Statements of several lengths with the same contexts have the same windows as separately."""
    shared = Windows(cost=measure, capacity=capacity, sentences=sentences, overlap=overlap)
    for length in lengths:
        task = Attribution(unit=unit("statement", "s" * length), contexts=tuple(contexts))
        alone = Windows(cost=measure, capacity=capacity, sentences=sentences, overlap=overlap)
        assert list(shared.split(task)) == list(alone.split(task))


@given(st.lists(st.text("ab. ", max_size=80), min_size=1, max_size=5), st.integers(140, 400))
def test_each_sentence_is_whole_in_the_window_where_it_begins(
    contexts: list[str], capacity: int
) -> None:
    cut = Windows(cost=cost, capacity=capacity, sentences=sentences)
    for index, context in enumerate(contexts):
        for span in sentences(context):
            sentence = Unit(
                kind="sentence",
                index=0,
                source="retrieved_contexts",
                source_index=index,
                span=span,
            )
            task = Relevance(unit=sentence, user_input="q", contexts=tuple(contexts))
            [(window, number)] = cut.split(task)
            if number is not None:
                assert isinstance(window, Relevance)
                assert any(span.text in shown for shown in window.contexts)


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
