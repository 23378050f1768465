"""Read the last turn of a conversation: the user's last message and the assistant's last reply to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES
from localjudge.dataset.problems import has_value, lookup

_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
    for name in [column] if column else (*ALIASES["user_input"], *LOOSE_NAMES["user_input"]):
        value = lookup(values, name)
        if isinstance(value, str):
            return None
        turn = last_turn(value) if isinstance(value, list | tuple) else None
        if turn:
            question, answer = turn
            answered = answer is None or any(has_value(values, other) for other in ALIASES["response"])
            return {**values, name: question} | ({} if answered else {"response": answer})
    return None


def last_turn(messages: Sequence[Any]) -> tuple[str, str | None] | None:
    """Return the last question of a conversation and its answer. Return None for other lists."""
    turn: tuple[str, str | None] | None = None
    for message in messages:
        role = isinstance(message, Mapping) and "content" in message and message.get("role", message.get("type"))
        if not isinstance(role, str) or role not in _ROLES:
            return None
        text = _text_of(message["content"])
        if text and role in _USER:
            turn = text, None
        elif text and role in _ASSISTANT and turn:
            turn = turn[0], text
    return turn


def _text_of(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
