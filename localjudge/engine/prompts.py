"""Prepare prompts for any engine: find equal ones, tokenize their nodes, and refuse long ones.

They are paths in a tree, so that what they share is evaluated once:

    instructions ─┬─ context A ─┬─ statement 1
                  │             └─ statement 2        4 paths, 7 nodes
                  └─ context B ─┬─ statement 3
                                └─ statement 4
"""

from collections.abc import Hashable, Sequence
from typing import Any

from localjudge.engine.tokens import Vocabulary
from localjudge.errors import SampleError
from localjudge.types import Node, VerdictRequest
from localjudge.words import option_name

TokenPath = tuple[tuple[int, ...], ...]
"""Tokens of each node of one request, root first."""


def equal_requests(requests: Sequence[VerdictRequest]) -> list[list[int]]:
    """Return the indices of equal requests together, in the order of their first."""
    equal: dict[tuple[tuple[Node, ...], str], list[int]] = {}
    for index, request in enumerate(requests):
        equal.setdefault((request.path, request.shape), []).append(index)
    return list(equal.values())


def start_of_prompts(vocabulary: Vocabulary, *, begin_of_text: bool) -> tuple[int, ...]:
    """Return the tokens at the start of every prompt."""
    if begin_of_text and vocabulary.begin is not None:
        return (vocabulary.begin,)
    return ()


def tokenize_node(vocabulary: Vocabulary, node: Node) -> tuple[int, ...]:
    """Tokenize a node.

    Raises SampleError if the model cannot be shown a text of the user unchanged.
    """
    tokens: list[int] = []
    for piece in node:
        if piece.trusted:
            tokens += vocabulary.trusted(piece.text)
        else:
            tokens += vocabulary.user(piece.text)
    return tuple(tokens)


def require_room(tokens: int, capacity: int, trained: int, beginning: str) -> None:
    """Raise SampleError, with this beginning, for more tokens than the judge's context.

    The hint names a larger context only if the model was `trained` with enough tokens.
    """
    if tokens <= capacity:
        return
    remedy = f"name a model with a larger context than {trained} tokens, or shorten the text"
    if tokens <= trained:
        remedy = f"ask for a larger context, of up to {trained} tokens, with {option_name('n_ctx')}"
    raise SampleError(
        f"{beginning} {tokens} tokens, and the judge's context holds {capacity}", hint=remedy
    )


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
