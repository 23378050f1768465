"""Prompts as paths in a tree, so that what they share is evaluated once.

instructions ─┬─ context A ─┬─ statement 1
              │             └─ statement 2        4 paths, 7 nodes
              └─ context B ─┬─ statement 3
                            └─ statement 4
"""

from collections.abc import Hashable, Sequence
from typing import Any

TokenPath = tuple[tuple[int, ...], ...]
"""Tokens of each node of one request, root first."""


def depth_first(paths: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the indices of the paths in an order that evaluates each distinct node once."""
    _, numbered_paths = _number_nodes(paths)
    return sorted(range(len(paths)), key=numbered_paths.__getitem__)


def distinct_tokens(paths: Sequence[TokenPath]) -> int:
    """Return the tokens of all paths, with shared beginnings counted once."""
    numbers, _ = _number_nodes(paths)
    return sum(len(node) for _, node in numbers)


def shared_nodes(resident: Sequence[Hashable], requested: Sequence[Hashable]) -> int:
    """Return the number of nodes at the beginning of both paths."""
    count = 0
    for resident_node, requested_node in zip(resident, requested, strict=False):
        if resident_node != requested_node:
            break
        count += 1
    return count


def _number_nodes(
    paths: Sequence[Sequence[Any]],
) -> tuple[dict[tuple[int, Any], int], list[list[int]]]:
    """Number the nodes of a tree with these paths, from 1.

    Returns the number of each node by (number of its parent, node), and each path as numbers.
    """
    numbers: dict[tuple[int, Any], int] = {}
    numbered_paths = []
    for path in paths:
        numbered = [0]
        for node in path:
            numbered.append(numbers.setdefault((numbered[-1], node), len(numbers) + 1))
        numbered_paths.append(numbered)
    return numbers, numbered_paths
