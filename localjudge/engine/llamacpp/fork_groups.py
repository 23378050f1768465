"""Which answers may be decoded together: neighbours in the walk that fork from one shared path.

    instructions ─ context ─┬─ statement 1 ...
                            ├─ statement 2 ...     one group: evaluated in the same steps, as parallel sequences
                            └─ statement 3 ...

Only for the mode that gives up isolation: what is evaluated together moves each other's logits.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from localjudge.engine.planner import Path, shared_nodes


class Siblings(NamedTuple):
    """Places of the answers that are decoded together, and how many nodes they share."""

    members: list[int]
    shared: int


class Room(NamedTuple):
    """What a group may take: how many answers, how many new prompt tokens in a step, how many cells in all."""

    answers: int
    step_tokens: int
    cells: int


def alone(order: Iterable[int], paths: Sequence[Path]) -> Iterator[Siblings]:
    """Every answer by itself: all of its path but the last node may be shared with the one before."""
    return (Siblings([place], len(paths[place]) - 1) for place in order)


def together(order: Iterable[int], paths: Sequence[Path], longest: Sequence[int], room: Room) -> Iterator[Siblings]:
    """Neighbours in the order that part at one node and share no more with anybody else, as many as the room allows.

    `longest` holds, for each path, its tokens with the longest answer.
    """
    walk = list(order)
    common = [0, *(_common(paths[before], paths[after]) for before, after in pairwise(walk)), 0]
    start = 0
    while start < len(walk):
        end = start + 1
        shared = common[end]
        while (
            end < len(walk)
            and common[start] <= shared == common[end] >= common[end + 1]
            and _fits(Siblings(walk[start : end + 1], shared), paths, longest, room)
        ):
            end += 1
        yield Siblings(walk[start:end], shared if end > start + 1 else len(paths[walk[start]]) - 1)
        start = end


def _common(before: Path, after: Path) -> int:
    """Nodes that two paths share; the last of either is its own, as the answer is read behind it."""
    return min(shared_nodes(before, after), len(before) - 1, len(after) - 1)


def _fits(group: Siblings, paths: Sequence[Path], longest: Sequence[int], room: Room) -> bool:
    prefix = sum(map(len, paths[group.members[0]][: group.shared]))
    new = sum(len(node) for place in group.members for node in paths[place][group.shared :])
    cells = prefix + sum(longest[place] - prefix for place in group.members)
    return len(group.members) <= room.answers and new <= room.step_tokens and cells <= room.cells
