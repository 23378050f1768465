"""Read the last turn of a conversation.

It is the user's last message and the assistant's last reply to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES
from localjudge.dataset.paths import has_value, lookup

_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
    """Return the row with the last turn of its conversation.

    Returns None if its question is not a conversation.
    """
    names = [column] if column else [*ALIASES["user_input"], *LOOSE_NAMES["user_input"]]
    for name in names:
        value = lookup(values, name)
        if isinstance(value, str):
            return None
        turn = last_turn(value) if isinstance(value, list | tuple) else None
        if turn is not None:
            question, answer = turn
            row = {**values, name: question}
            has_response = any(has_value(values, other) for other in ALIASES["response"])
            if answer is not None and not has_response:
                row["response"] = answer
            return row
    return None


def last_turn(messages: Sequence[Any]) -> tuple[str, str | None] | None:
    """Return the last question of a conversation and its answer. Return None for other lists."""
    turn: tuple[str, str | None] | None = None
    for message in messages:
        role = _read_role(message)
        if role not in _ROLES:
            return None
        text = _message_text(message["content"])
        if text and role in _USER:
            turn = text, None
        elif text and role in _ASSISTANT and turn:
            turn = (turn[0], text)
    return turn


def _read_role(message: Any) -> str | None:
    """Return who wrote a message, or None for a value that is no message."""
    if not isinstance(message, Mapping) or "content" not in message:
        return None
    role = message.get("role", message.get("type"))
    if isinstance(role, str):
        return role
    return None


def _message_text(content: Any) -> str:
    """Return the text of a message: a text, or a list of texts and of objects with a text."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list | tuple) else ():
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)
