"""Which requests a worker gets next, and what becomes of those whose worker died. Knows no cluster.

    depth first    instructions ─┬─ context A ─┬─ 1      a portion: requests side by side in this order, so that what
                                 │             └─ 2      they share is evaluated by one worker
                                 └─ context B ─── 3

Portions become smaller towards the end: each is half of what would be one worker's share of the rest (guided
self-scheduling, Polychronopoulos and Kuck 1987), so workers that are slow, late or gone leave nobody idle for long. A
context's requests are cut apart only where what is left of them takes longer than evaluating the context once more.

A request whose workers die is not asked for ever. What a dead worker was at is among the first that it had not
answered: these are asked again one at a time, and one of which `MOST_DEATHS` workers died so is set aside.
"""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from localjudge.engine.planner import depth_first, shared_nodes
from localjudge.types import Node, VerdictRequest

MOST_DEATHS = 3
"""Workers that may die of a request that they were asked alone."""
_SUSPECTED = 8
"""So many answers at most were on their way when a worker died, if it sent each at once."""
_MOST_TEXT = 1 << 20
"""Characters of new text in a portion at most: what waits at one worker is bounded."""
_PASS = 64
"""What a verdict costs beside reading its text, in characters."""


class Portion(NamedTuple):
    """Requests for one worker, by their index. Of a `careful` one every answer is sent at once: a worker died of it."""

    indices: tuple[int, ...]
    careful: bool


class WorkQueue:
    """The requests of one call, until each is answered or set aside."""

    def __init__(self, requests: Sequence[VerdictRequest]) -> None:
        paths = [request.path for request in requests]
        self._order = list(depth_first(paths))
        self._places = {index: place for place, index in enumerate(self._order)}
        common = [shared_nodes(paths[before], paths[after]) for before, after in pairwise(self._order)]
        common = [0, *common] if self._order else []
        # Of each place: what is new there, what it shares with the place before, and where its group ends.
        self._cost = [_PASS + _text(paths[index][nodes:]) for index, nodes in zip(self._order, common, strict=True)]
        self._shared = [_text(paths[index][:nodes]) for index, nodes in zip(self._order, common, strict=True)]
        self._begins_group = [nodes <= 1 for nodes in common]
        self._until = [0, *accumulate(self._cost)]
        self._group_end = _ends(self._begins_group)
        self._waiting = deque(range(len(self._order)))
        self._cost_waiting = self._until[-1]
        self._unanswered = set(self._places)
        self._careful: set[int] = set()
        self._alone: set[int] = set()
        self._met_death: set[int] = set()
        self._deaths: Counter[int] = Counter()
        self.set_aside: list[int] = []
        """Requests of which so many workers died that they are not asked again."""

    @property
    def done(self) -> bool:
        """Whether every request is answered or set aside."""
        return len(self._unanswered) == len(self.set_aside)

    def deal(self, workers: int) -> Portion | None:
        """What the next free one of so many workers gets; None while nothing waits."""
        if not self._waiting:
            return None
        wanted = min(self._cost_waiting / (2 * workers), _MOST_TEXT)
        places = [self._waiting.popleft()]
        taken = self._cost[places[0]]
        while self._waiting and not self._ends_portion(taken, wanted, places[-1], self._waiting[0]):
            places.append(self._waiting.popleft())
            taken += self._cost[places[-1]]
        self._cost_waiting -= taken
        indices = tuple(self._order[place] for place in places)
        return Portion(indices, careful=not self._careful.isdisjoint(indices))

    def answered(self, index: int) -> None:
        """An answer to this request is there."""
        self._unanswered.discard(index)

    def lost(self, portion: Portion, *, begun: bool) -> None:
        """The worker died: what it has not answered waits again, before all else.

        One that had not begun did not die of a request; twice in a row, and the word of it may have been lost.
        """
        left = [index for index in portion.indices if index in self._unanswered]
        if left and begun and len(portion.indices) == 1:
            self._deaths[left[0]] += 1
            if self._deaths[left[0]] >= MOST_DEATHS:
                self.set_aside.append(left.pop())
        if begun or not self._met_death.isdisjoint(left[:1]):
            self._careful.update(left)
            self._alone.update(left[:_SUSPECTED])
        self._met_death.update(left)
        places = [self._places[index] for index in left]
        self._waiting.extendleft(reversed(places))
        self._cost_waiting += sum(self._cost[place] for place in places)

    def _ends_portion(self, taken: float, wanted: float, last: int, following: int) -> bool:
        if self._order[last] in self._alone or self._order[following] in self._alone:
            return True
        if taken < wanted:
            return False
        if following != last + 1 or self._begins_group[following]:
            return True
        left_of_group = self._until[self._group_end[following]] - self._until[following]
        return left_of_group > 2 * self._shared[following]


def _text(nodes: Sequence[Node]) -> int:
    """Characters in these nodes."""
    return sum(len(piece.text) for node in nodes for piece in node)


def _ends(begins: Sequence[bool]) -> list[int]:
    """Of each place, the first place behind its group."""
    ends, end = [0] * len(begins), len(begins)
    for place in range(len(begins) - 1, -1, -1):
        ends[place] = end
        if begins[place]:
            end = place
    return ends
