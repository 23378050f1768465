"""A conversation in place of a question: its last turn.

    [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."},
     {"role": "user", "content": "Where?"}, {"role": "assistant", "content": "There."}]
        ->  question "Where?", answer "There."

Messages are those of the chat APIs and of inspect (`role`), or of ragas and LangChain (`type`); a content may be a
list of parts, of which those with a text count. The question is the last thing that the user said, the answer the last
thing that the assistant said after it. A response that the row gives by itself goes first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from localjudge.dataset.aliases import ALIASES, LOOSE_NAMES
from localjudge.dataset.dotted_names import has_value, lookup

_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_OTHERS = {"system", "developer", "tool", "function"}
_ROLES = _USER | _ASSISTANT | _OTHERS


class Turn(NamedTuple):
    """A question, and the answer to it if there is one."""

    question: str
    answer: str | None


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
    """The row with the last turn of the conversation that stands in place of its question; None if none does.

    `column` is where the question is, if the user said so.
    """
    for name in [column] if column else (*ALIASES["user_input"], *LOOSE_NAMES["user_input"]):
        value = lookup(values, name)
        if isinstance(value, str):
            return None
        turn = last_turn(value) if isinstance(value, list | tuple) else None
        if turn:
            given = any(has_value(values, other) for other in ALIASES["response"])
            return {**values, name: turn.question} | ({} if given or turn.answer is None else {"response": turn.answer})
    return None


def last_turn(messages: Sequence[Any]) -> Turn | None:
    """The last turn of a conversation; None for what is none, or one in which the user said nothing."""
    if not messages or not all(map(_is_message, messages)):
        return None
    asked = [place for place, message in enumerate(messages) if _role(message) in _USER and _text(message)]
    if not asked:
        return None
    after = [_text(message) for message in messages[asked[-1] + 1 :] if _role(message) in _ASSISTANT]
    return Turn(_text(messages[asked[-1]]), next(filter(None, reversed(after)), None))


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and "content" in value and _role(value) in _ROLES


def _role(message: Mapping[str, Any]) -> Any:
    role = message.get("role", message.get("type"))
    return role if isinstance(role, str) else None


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
