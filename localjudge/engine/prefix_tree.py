"""In which order requests are evaluated, and how much of each is new.

Requests form a tree: a request is a path of nodes, and requests that begin alike share the nodes they have in common.
The tree is walked depth first with one path resident, so every distinct node is evaluated once.

    instructions ─ context ─┬─ statement 1
                            ├─ statement 2        order of visits: the order in which branches first appear
                            └─ statement 3
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from localjudge.types import Node, VerdictRequest

TokenNode = tuple[int, ...]
"""Tokens of one node."""
TokenPath = tuple[TokenNode, ...]
"""Nodes of one request, root first."""


@dataclass
class _Branch:
    leaves: list[int] = field(default_factory=list)
    children: dict[Hashable, "_Branch"] = field(default_factory=dict)


def depth_first(paths: Sequence[Sequence[Hashable]]) -> Iterator[int]:
    """Indices of the paths in the order that evaluates every distinct node once; equal paths stand together."""
    root = _Branch()
    for index, path in enumerate(paths):
        branch = root
        for node in path:
            branch = branch.children.setdefault(node, _Branch())
        branch.leaves.append(index)
    stack = [root]
    while stack:
        branch = stack.pop()
        yield from branch.leaves
        stack.extend(reversed(branch.children.values()))


def shared_nodes(resident: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """How many nodes at the beginning of two paths are the same."""
    count = 0
    for have, want in zip(resident, wanted, strict=False):
        if have != want:
            break
        count += 1
    return count


def distinct_tokens(paths: Sequence[TokenPath]) -> int:
    """Tokens in the tree: each node counted once for each distinct path that leads to it."""
    root = _Branch()
    count = 0
    for path in paths:
        branch = root
        for node in path:
            if node not in branch.children:
                branch.children[node] = _Branch()
                count += len(node)
            branch = branch.children[node]
    return count


def by_question(requests: Sequence[VerdictRequest]) -> list[list[int]]:
    """Indices of the requests that one answer serves, together."""
    asked: dict[tuple[tuple[Node, ...], str], list[int]] = {}
    for index, request in enumerate(requests):
        asked.setdefault((request.path, request.shape), []).append(index)
    return list(asked.values())
