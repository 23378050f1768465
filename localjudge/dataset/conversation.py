"""Read the last turn of a conversation.

It is the user's last message and the assistant's last reply to it. A conversation may be printed as
text, in JSON or as Python prints it, and may be under the key `messages` of an object. An answer
may be a message, too. Dialogues without such objects are recognised by `roles.toml`, and not read.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES
from localjudge.dataset.paths import has_value, lookup
from localjudge.dataset.printed import parse_printed

_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}
_AROUND = ("messages", "conversation")
_INSTEAD_OF_CONTENT = ("refusal", "tool_calls", "function_call", "audio")
"""Keys of a message that may have no content."""
_CHATML = "<|im_start|>"
_TEMPLATE = re.compile(r"\s*(?:<s>|<bos>)?\s*(?:<\|\w+\|>|<start_of_turn>|\[INST\])")
"""The prompt of a chat template."""
_WORDS_OF_ROLES = Path(__file__).with_name("roles.toml")
_PRINTED_MESSAGE = re.compile(
    r"""['"](?:role|from|speaker|author)['"]\s*:|\b\w*Message\w*\(|"""
    r"""\btype['"]?\s*[:=]\s*['"](?:human|ai)"""
)
_WHOLE_MESSAGE = re.compile(r"""\s*[\[({]\s*(?:\{?\s*['"](?:role|from)['"]|\w*Message\w*\()""")


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
    """Return the row with the last turn of its conversation.

    Returns None if its question is not a conversation.
    """
    names = [column] if column else [*ALIASES["user_input"], *LOOSE_NAMES["user_input"]]
    for name in names:
        value = lookup(values, name)
        messages = find_messages(value)
        turn = last_turn(messages) if messages else None
        if turn is not None:
            question, answer = turn
            row = {**values, name: question}
            has_response = any(has_value(values, other) for other in ALIASES["response"])
            if answer is not None and not has_response:
                row["response"] = answer
            return row
        if isinstance(value, str):
            return None
    return None


def find_messages(value: Any) -> Sequence[Any] | None:
    """Return the messages of a conversation, an object around it, or a text of either."""
    if isinstance(value, str):
        value = parse_printed(value)
    if _read_role(value) is not None:
        return [value]
    if isinstance(value, Mapping):
        value = next((value[name] for name in _AROUND if name in value), None)
    if isinstance(value, list | tuple):
        return value
    return None


def looks_like_messages(text: str) -> bool:
    """Return whether a text is a printed conversation, perhaps in a form that cannot be read."""
    if text.count(_CHATML) > 1 or _TEMPLATE.match(text):
        return True
    for asks, answers in _turns():  # a line `Human: ...`, and after it a line `AI: ...`
        first = asks.search(text)
        if first and answers.search(text, first.end()):
            return True
    if text.lstrip().removeprefix("messages=")[:1] not in {"[", "{", "("}:
        return False
    if _WHOLE_MESSAGE.match(text) or len(_PRINTED_MESSAGE.findall(text)) > 1:
        return True
    pairs = parse_printed(text)  # of question and answer, as Gradio keeps them
    if not isinstance(pairs, list) or not pairs:
        return False
    return all(
        isinstance(turn, list | tuple) and len(turn) == 2 and isinstance(turn[0], str)  # noqa: PLR2004
        for turn in pairs
    )


@cache
def _turns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return patterns of a speaker who asks, and of one who answers."""
    roles = tomllib.loads(_WORDS_OF_ROLES.read_text(encoding="utf-8"))
    words = {role: "|".join(" ".join(row.values()).split()) for role, row in roles.items()}
    around = r"[ \t*_#>\[<]{0,8}"
    colon = r"[*_ \]>]{0,4}[:：]"
    begins = rf"(?:\A\s*|\n){around}"
    says = rf"{colon}[\s*_]{{0,8}}\w"
    stopped = r"[.!?…。！？؟।][\"'”’»*_]{0,8}\s{1,8}"
    sources = (
        (f"{begins}(?:{words['user']}){colon}", rf"\n{around}(?:{words['assistant']}){says}"),
        (
            f"{begins}(?:{words['user']}|{words['customer']}){colon}",
            f"{stopped}{around}(?:{words['assistant']}|{words['agent']}){says}",
        ),
    )
    return tuple((re.compile(asks, re.I), re.compile(answers, re.I)) for asks, answers in sources)


def last_turn(messages: Sequence[Any]) -> tuple[str, str | None] | None:
    """Return the last question of a conversation and its answer. Return None for other lists."""
    turn: tuple[str, str | None] | None = None
    for message in messages:
        role = _read_role(message)
        if role not in _ROLES:
            return None
        text = _text_of(message)
        if text and role in _USER:
            turn = text, None
        elif text and role in _ASSISTANT and turn:
            turn = (turn[0], text)
    return turn


def read_answer(value: Any) -> Any:
    """Return the text of the last answer, if a value is a message or a conversation.

    Return other values unchanged.
    """
    answer = ""
    for message in find_messages(value) or ():
        role = _read_role(message)
        if role not in _ROLES:
            return value
        if role in _ASSISTANT:
            answer = _text_of(message) or answer
    return answer or value


def _text_of(message: Mapping[str, Any]) -> str:
    return _message_text(message.get("content")) or _message_text(message.get("refusal"))


def _read_role(message: Any) -> str | None:
    """Return who wrote a message, or None for a value that is no message."""
    if not isinstance(message, Mapping):
        return None
    if message.keys().isdisjoint({"content", *_INSTEAD_OF_CONTENT}):
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
        text = part
        if isinstance(part, Mapping):
            text = part.get("text", part.get("refusal"))
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)
