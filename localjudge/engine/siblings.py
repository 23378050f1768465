"""Which answers may be decoded together: neighbours in the walk that fork from one shared path.

    instructions ─ context ─┬─ statement 1 ...
                            ├─ statement 2 ...     one group: evaluated in the same steps, as parallel sequences
                            └─ statement 3 ...

Only for the mode that gives up isolation: what is evaluated together moves each other's logits.
"""

from collections.abc import Iterable, Iterator, Sequence
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
    """Neighbours in the order that part at the same node, as many as the room allows.

    `longest` holds, for each path, its tokens with the longest answer.
    """
    group: Siblings | None = None
    for place in order:
        joined = _joined(group, place, paths) if group else None
        if joined and _fits(joined, paths, longest, room):
            group = joined
            continue
        if group:
            yield group
        group = Siblings([place], len(paths[place]) - 1)
    if group:
        yield group


def _joined(group: Siblings, place: int, paths: Sequence[Path]) -> Siblings | None:
    """The group with one more member; None if it would not part where the others do."""
    shared = min(shared_nodes(paths[group.members[-1]], paths[place]), len(paths[place]) - 1)
    if len(group.members) > 1 and shared != group.shared:
        return None
    return Siblings([*group.members, place], shared)


def _fits(group: Siblings, paths: Sequence[Path], longest: Sequence[int], room: Room) -> bool:
    prefix = sum(map(len, paths[group.members[0]][: group.shared]))
    new = sum(len(node) for place in group.members for node in paths[place][group.shared :])
    cells = prefix + sum(longest[place] - prefix for place in group.members)
    return len(group.members) <= room.answers and new <= room.step_tokens and cells <= room.cells
