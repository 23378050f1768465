"""Put messages into the chat template of a model, without passing user text through it.

template, rendered once with marks    <|user|> MARK-0 <|end|><|assistant|>
its text around the marks             "<|user|> "  "<|end|><|assistant|>"      the skeleton
prompt                                "<|user|> " + user text + "<|end|><|assistant|>"
"""

import json
import re
from collections.abc import Sequence

from localjudge.errors import InputError, ModelError
from localjudge.judge.profile import PromptProfile
from localjudge.judge.rendering import RoledNode
from localjudge.types import ChatEnds, Node, Piece
from localjudge.words import option

_DOCUMENT = "document"  # in the template's argument `documents`
_MARK = "localjudge-text-7f3a"
_UNLIKE_JSON = '"\n'  # JSON escapes these


def read_skeleton(
    profile: PromptProfile,
    chat: ChatEnds | None,
    name: str,
    roles: Sequence[str],
) -> tuple[tuple[str, ...], bool]:
    """Return the template's text around messages with these roles, for the task `name`.

    The flag tells whether its documents are inside JSON.

    Raises InputError without a template; ModelError if a message does not appear exactly once and
    in order.
    """
    if chat is None or chat.render is None:
        another_profile = f"another profile: {option('profile')}"
        raise InputError(
            f"the prompt profile {profile.name!r} needs a chat template, and the model has none",
            hint=f"use a conversion of the model with its chat template, or {another_profile}",
        )
    marks: list[str] = []
    messages: list[dict[str, str]] = []
    documents: list[dict[str, str]] = []
    for place, role in enumerate(roles):
        if role == _DOCUMENT:
            mark = f"{_MARK}-{place}{_UNLIKE_JSON}."
            documents.append({"doc_id": str(len(documents)), "text": mark})
        else:
            mark = f"{_MARK}-{place}."
            messages.append({"role": role, "content": mark})
        marks.append(mark)
    arguments = dict(profile.tasks[name].template)
    if documents:
        arguments["documents"] = documents
    rendered = chat.render(messages, arguments)
    gaps = _split_at(marks, rendered)
    if gaps:
        return gaps, False
    gaps = _split_at([_in_json(mark) for mark in marks], rendered)
    if gaps:
        return gaps, True
    names = " and ".join(dict.fromkeys(roles))
    raise ModelError(
        f"the model's chat template does not show {names} once and in this order",
        hint="use a conversion of the model with its own chat template, or another profile",
    )


def put_in_skeleton(
    nodes: Sequence[RoledNode], skeleton: Sequence[str], *, in_json: bool
) -> list[Node]:
    """Put the template around the nodes, whose documents may be inside JSON.

    Its text before the first document is a node that all samples share.
    """
    gaps = (Piece(gap, trusted=True) for gap in skeleton)
    path: list[Node] = []
    is_document = False
    for role, texts in nodes:
        if role:
            is_document = role == _DOCUMENT
        node = texts
        if is_document and in_json:
            node = tuple(piece._replace(text=_in_json(piece.text)) for piece in texts)
        if role == _DOCUMENT and not path:
            path.append((next(gaps),))
        elif role:
            node = (next(gaps), *node)
        path.append(node)
    path[-1] = (*path[-1], next(gaps))
    return path


def _split_at(marks: Sequence[str], rendered: str) -> tuple[str, ...]:
    """Return the text around the marks, or () unless each occurs once and in this order."""
    pattern = re.compile("|".join(map(re.escape, marks)))
    if pattern.findall(rendered) != marks:
        return ()
    return tuple(pattern.split(rendered))


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
