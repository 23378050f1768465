"""Groups of requests for engines with workers on several machines."""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import groupby, islice

from localjudge.engine.prompt_tree import depth_first
from localjudge.errors import OutOfResource
from localjudge.types import Answer, NoAnswer, VerdictRequest

MAX_REPEATS = 3
"""How often a group is asked again after its worker was lost."""
_MAX_SIZE = 32
Group = tuple[int, ...]
"""Indices of requests that share a prefix."""
Answered = tuple[int, Answer | NoAnswer]


def group_by_prefix(requests: Sequence[VerdictRequest]) -> list[Group]:
    """Return groups of requests that share all nodes but the last, in the order of evaluation."""
    order = depth_first([request.path for request in requests])
    groups: list[Group] = []
    for _, indices in groupby(order, key=lambda index: requests[index].path[:-1]):
        while part := tuple(islice(indices, _MAX_SIZE)):
            groups.append(part)
    return groups


def ask_again(group: Group, waiting: deque[Group], losses: Counter[Group]) -> None:
    """Put the group of a lost worker before the `waiting` ones, and count its `losses`.

    Raises OutOfResource after too many losses.
    """
    losses[group] += 1
    if losses[group] > MAX_REPEATS:
        problem = f"{losses[group]} workers were lost while they answered the same questions"
        hint = "check the memory of the machines, and run the same command again to resume"
        raise OutOfResource(problem, hint=hint)
    waiting.appendleft(group)
