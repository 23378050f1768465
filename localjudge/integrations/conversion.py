"""Convert questions of other programs to yes-or-no questions, and their answers back.

    which of these options?             one question per option; each P(yes) is divided by their sum
    which of these levels, from 0 on?   one question per level but 0: is it this one or a higher one?

The second follows Frank and Hall (2001, A Simple Approach to Ordinal Classification). P(level >= k) cannot increase
with k, so each is capped at the lowest before it:

    P(yes)             0.9   0.6   0.7        of "at least 1", "at least 2", "at least 3"
    level        0     1     2     3
    probability  0.1   0.3   0.0   0.6        expected level 0.9 + 0.6 + 0.6 = 2.1
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from itertools import accumulate, pairwise
from typing import Any

from localjudge.errors import ArgumentTypeError, ArgumentValueError
from localjudge.open_judge import Judge
from localjudge.run.judges import JudgeName
from localjudge.words import suggestion

JudgeLike = JudgeName | Judge
"""A name, the path of a GGUF file, or an open judge, which stays open."""


def check_options(judge: JudgeLike, options: Mapping[str, Any]) -> None:
    """Raise ArgumentTypeError for an unknown option, ArgumentValueError for any option if the judge is open."""
    names = signature(Judge.open).parameters
    for name in options:
        if name not in names:
            raise ArgumentTypeError(f"a judge has no option {name!r}", hint=suggestion(name, names, "its options"))
        if isinstance(judge, Judge):
            raise ArgumentValueError(f"{name} cannot be set for a judge that is open", hint="use it in Judge.open")


def whether(words: str, *, yes: Any = None, no: Any = None) -> str:
    question = words if "?" in words else f"Is this true? {words}"
    meanings = {name: meaning for name, meaning in (("yes", yes), ("no", no)) if meaning is not None}
    return question + "".join(f"\nThe answer is {name} if: {as_text(about)}" for name, about in meanings.items())


def of_each_option(words: str, options: Mapping[str, Any]) -> list[str]:
    lines = "".join(
        f"\n- {name}" + (f": {as_text(about)}" if about is not None else "") for name, about in options.items()
    )
    return [f"{words}\nThe possible answers:{lines}\nIs {name!r} the right one?" for name in options]


def of_each_level(words: str, levels: Sequence[Any]) -> list[str]:
    lines = "".join(f"\n{number}. {as_text(level)}" for number, level in enumerate(levels))
    return [
        f"{words}\nThe levels, from the lowest:{lines}\nIs it level {number} ({as_text(level)}) or a higher one?"
        for number, level in enumerate(levels)
        if number
    ]


def option_probabilities(names: Sequence[str], p_yes: Sequence[float]) -> dict[str, float]:
    """Return the probability of each option from P(yes) of its question. One must be positive."""
    return {name: p / sum(p_yes) for name, p in zip(names, p_yes, strict=True)}


def level_probabilities(p_yes: Sequence[float]) -> dict[int, float]:
    """Return the probability of each level from P(yes) of its question."""
    at_least = [1.0, *accumulate(p_yes, min), 0.0]
    return {level: here - above for level, (here, above) in enumerate(pairwise(at_least))}


def decisiveness(probabilities: Collection[float]) -> float:
    """Return the distance from equal probabilities: 0 if all are equal, 1 if one is certain."""
    count = len(probabilities)
    return (count * max(probabilities) - 1) / (count - 1) if count > 1 else 1.0


def words_and_item(instructions: Any) -> tuple[str, dict[str, Any]]:
    """Return the question in the instructions, and the fields of the item that it is about."""
    if isinstance(instructions, Mapping) and "question" in instructions:
        item = dict(instructions)
        return as_text(item.pop("question")), item
    return as_text(instructions), {}


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def record(fields: Mapping[str, Any]) -> str:
    return "\n\n".join(f"{name}:\n{as_text(value)}" for name, value in fields.items())


_NAMES = {
    "input": ("user_input", "the question"),
    "retrieval_context": ("retrieved_contexts", "the contexts"),
    "expected_output": ("reference", "the reference"),
    "actual_output": ("response", "the response"),
}
_FIELD_NAME = re.compile(r"`(\w+)`")


def as_sample(words: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the question and its row, or None unless it names an answer and only text fields.

    Judges understand tagged fields far better than one text with all fields. Without the actual answer, the
    expected one is judged.
    """
    field_names = set(_FIELD_NAME.findall(words))
    if not field_names <= _NAMES.keys() & fields.keys() or not field_names & {"actual_output", "expected_output"}:
        return None
    for name in field_names:
        texts = fields[name] if name == "retrieval_context" else [fields[name]]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return None
    names = _NAMES if "actual_output" in field_names else _NAMES | {"expected_output": _NAMES["actual_output"]}
    row = {names[name][0]: fields[name] for name in sorted(field_names)}
    return _FIELD_NAME.sub(lambda match: names[match[1]][1], words), row
