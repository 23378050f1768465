"""Portions for workers: nothing twice, nothing left, contexts kept together, and no request that kills for ever."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.engine.ray_cluster.work_queue import MOST_DEATHS, Portion, WorkQueue
from localjudge.judge import grammars
from localjudge.types import Piece, VerdictRequest

GRAMMAR = grammars.load("attributed")


def asked(context: str, unit: str) -> VerdictRequest:
    """Instructions | context | unit."""
    return VerdictRequest(tuple((Piece(text, trusted=False),) for text in ("Decide.", context, unit)), GRAMMAR)


def contexts_of(portion: Portion, requests: Sequence[VerdictRequest]) -> list[str]:
    return [requests[index].path[1][0].text for index in portion.indices]


def all_portions(work: WorkQueue, workers: int) -> list[Portion]:
    portions = []
    while portion := work.deal(workers):
        portions.append(portion)
    return portions


def test_requests_of_one_context_are_one_worker_s() -> None:
    """Six contexts of 2,000 characters with four short units each, asked in turns: no context is in two portions.

    A portion is wanted that costs a quarter of 6 x (2000 + 4 x 65) = 13,560; within a context at most 3 x 65 is left,
    less than twice the 2,007 characters that another worker would have to read once more.
    """
    requests = [asked(f"{context}" * 2000, f"{unit}") for unit in range(4) for context in range(6)]
    portions = all_portions(WorkQueue(requests), workers=2)
    kept_by = Counter(context for portion in portions for context in set(contexts_of(portion, requests)))
    assert set(kept_by.values()) == {1}
    assert len(portions) > 2


def test_a_context_that_is_most_of_the_work_is_cut() -> None:
    """One context of 100 characters with 200 units: 8 workers all get some, the first 1/16 of it."""
    requests = [asked("c" * 100, f"unit {unit:03}") for unit in range(200)]
    portions = all_portions(WorkQueue(requests), workers=8)
    assert len(portions[0].indices) == pytest.approx(200 / 16, abs=1)
    assert len(portions) >= 16


def test_portions_become_smaller_so_that_the_last_worker_is_not_waited_for() -> None:
    """Each is about half of a worker's share of what is left: 100 alike, 2 workers: 25, 19, 14 ... 1."""
    requests = [asked(f"{context:03}", "u") for context in range(100)]
    sizes = [len(portion.indices) for portion in all_portions(WorkQueue(requests), workers=2)]
    assert sizes[:3] == [25, 19, 14]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-2:] == [1, 1]


def test_what_waits_at_one_worker_is_bounded() -> None:
    """At most 1 MiB of text and what one more request has, however much there is."""
    requests = [asked(f"{context}" + "x" * 100_000, "u") for context in range(100)]
    first = WorkQueue(requests).deal(1)
    assert first is not None
    assert len(first.indices) == 11  # 11 x 100,072 is the first to exceed 1,048,576


def test_nothing_is_done_at_once() -> None:
    work = WorkQueue([])
    assert work.done
    assert work.deal(1) is None


def test_what_a_dead_worker_left_comes_first_and_carefully() -> None:
    requests = [asked(f"{context:02}", "u") for context in range(16)]
    work = WorkQueue(requests)
    portion = work.deal(1)
    assert portion == Portion(tuple(range(8)), careful=False)
    for index in range(3):
        work.answered(index)
    work.lost(portion, begun=True)
    assert [work.deal(1) for _ in range(5)] == [Portion((index,), careful=True) for index in range(3, 8)]
    assert work.deal(1) == Portion((8, 9, 10, 11), careful=False)


def test_a_worker_that_died_before_it_began_is_nobody_s_fault() -> None:
    """Ten workers die one after the other, as on a node that is switched off: nothing is set aside."""
    work = WorkQueue([asked("c", "u")])
    for _ in range(10):
        portion = work.deal(1)
        assert portion is not None
        work.lost(portion, begun=False)
    assert work.set_aside == []


def test_a_death_of_which_no_word_came_is_looked_into_the_second_time() -> None:
    """A worker that dies at once may not have said that it had begun."""
    work = WorkQueue([asked("c", f"{unit}") for unit in range(4)])
    for _ in range(2):
        portion = work.deal(1)
        assert portion == Portion((0, 1), careful=False)
        work.lost(portion, begun=False)
    assert work.deal(1) == Portion((0,), careful=True)


def test_a_request_is_set_aside_after_three_deaths_and_the_others_are_asked() -> None:
    requests = [asked("c", unit) for unit in ("first", "deadly", "last")]
    work = WorkQueue(requests)
    work_through(work, deadly={1}, workers=1)
    assert work.set_aside == [1]
    assert work.done


def test_of_many_the_first_eight_are_suspected() -> None:
    """The others stay together, and their answers are sent at once."""
    work = WorkQueue([asked("c", f"{unit:02}") for unit in range(40)])
    portion = work.deal(1)
    assert portion is not None
    assert len(portion.indices) == 20
    work.lost(portion, begun=True)
    again = [work.deal(1) for _ in range(9)]
    assert again[:8] == [Portion((index,), careful=True) for index in range(8)]
    assert again[8] is not None
    assert again[8].indices[:2] == (8, 9)
    assert again[8].careful


def work_through(work: WorkQueue, *, deadly: set[int], workers: int) -> Counter[int]:
    """Workers take turns, and die of what is deadly; how often each request was answered."""
    answered: Counter[int] = Counter()
    for _ in range(10_000):
        if work.done:
            return answered
        portion = work.deal(workers)
        assert portion is not None
        for index in portion.indices:
            if index in deadly:
                work.lost(portion, begun=True)
                break
            work.answered(index)
            answered[index] += 1
    raise AssertionError("it does not come to an end")


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.text("xyz", max_size=3)), max_size=60),
    st.integers(1, 9),
    st.data(),
)
def test_each_is_answered_once_whoever_dies(units: list[tuple[str, str]], workers: int, data: st.DataObject) -> None:
    """Equal questions too; what is deadly is set aside after so many deaths, and nothing else is."""
    requests = [asked(context * 40, unit) for context, unit in units]
    deadly = data.draw(st.sets(st.sampled_from(range(len(units))), max_size=4)) if units else set()
    work = WorkQueue(requests)
    answered = work_through(work, deadly=deadly, workers=workers)
    assert answered == Counter(set(range(len(units))) - deadly)
    assert sorted(work.set_aside) == sorted(deadly)


def test_three_deaths_are_what_a_request_may_cost() -> None:
    """The docstring and docs/scaling.md say three."""
    assert MOST_DEATHS == 3
