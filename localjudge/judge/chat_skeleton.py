"""Prompts in several messages, and documents: put between what a model's chat template writes around them.

    nodes        system | document | document | assistant           each with the role that it begins
    skeleton     the template, rendered with a mark in the place of every one of them, then cut at the marks
    path         head | (gap) document | (gap) document | (gap) statement (tail)

No text of the user's passes through the template: it is rendered once for a row of roles, and the texts are put between
the gaps as they are. A template may show its documents inside JSON; their texts are then spelled as JSON spells them,
which the marks show.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from localjudge.errors import ModelError
from localjudge.types import Node, Piece, RenderChat

DOCUMENT = "document"
"""The role of a node that becomes an entry of the template's argument `documents`."""

_MARK = "localjudge-text-7f3a"
_UNLIKE_JSON = '"\n'
"""What JSON spells otherwise."""


class RoledNode(NamedTuple):
    """A node, and the role of the message that begins with it; None where it goes on with the one before."""

    role: str | None
    node: Node


class Skeleton(NamedTuple):
    """What a template writes before, between and behind its messages; whether its documents stand inside JSON."""

    gaps: tuple[str, ...]
    escaped: bool


def skeleton(render: RenderChat, roles: Sequence[str], arguments: Mapping[str, Any]) -> Skeleton:
    """What the template writes around messages with these roles, in their order.

    Raises ModelError if it cannot be rendered, or does not show every one of them once and in this order.
    """
    marks = [f"{_MARK}-{place}{_UNLIKE_JSON if role == DOCUMENT else ''}." for place, role in enumerate(roles)]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True) if role != DOCUMENT]
    texts = [mark for role, mark in zip(roles, marks, strict=True) if role == DOCUMENT]
    documents = [{"doc_id": str(number), "text": text} for number, text in enumerate(texts)]
    rendered = render(messages, {**arguments, **({"documents": documents} if documents else {})})
    for escaped in (False, True):
        shown = [_in_json(mark) if escaped else mark for mark in marks]
        parts = re.split("|".join(map(re.escape, shown)), rendered)
        if re.findall("|".join(map(re.escape, shown)), rendered) == shown:
            return Skeleton(tuple(parts), escaped)
    raise ModelError(
        f"the model's chat template does not show {' and '.join(dict.fromkeys(roles))} once and in this order, as the "
        "prompt profile wants it",
        hint="use a conversion of the model with its own chat template, or another profile",
    )


def in_skeleton(nodes: Sequence[RoledNode], around: Skeleton) -> list[Node]:
    """The nodes of the prompt. What stands before the first document is one by itself: all samples share it."""
    gaps = iter(around.gaps)
    path: list[Node] = []
    is_document = False
    for role, node in nodes:
        gap: Node = ()
        if role is not None:
            gap = (Piece(text=next(gaps), trusted=True),)
            if not path and role == DOCUMENT:
                path.append(gap)
                gap = ()
            is_document = role == DOCUMENT
        path.append((*gap, *(_spelled(node) if is_document and around.escaped else node)))
    path[-1] = (*path[-1], Piece(text=next(gaps), trusted=True))
    return path


def _spelled(node: Node) -> Node:
    return tuple(piece._replace(text=_in_json(piece.text)) for piece in node)


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
