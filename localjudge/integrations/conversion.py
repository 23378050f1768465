"""Open the judge of another program, and convert its questions to yes-or-no questions and back.

    which of these options?     one question per option; each P(yes) is divided by their sum
    which of the levels 0 ...?  one question per level but 0: is it this one or a higher one?

The second follows Frank and Hall (2001, A Simple Approach to Ordinal Classification). P(level >= k)
cannot increase with k, so each is capped at the lowest before it:

    P(yes)             0.9   0.6   0.7        of "at least 1", "at least 2", "at least 3"
    level        0     1     2     3
    probability  0.1   0.3   0.0   0.6        expected level 0.9 + 0.6 + 0.6 = 2.1
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from itertools import accumulate, pairwise
from math import fsum
from typing import Any

from localjudge.errors import ArgumentTypeError, ArgumentValueError
from localjudge.judging.jury import JudgeNames
from localjudge.open_judge import Judge
from localjudge.words import suggestion

JudgeLike = JudgeNames | Judge
"""A name, the path of a GGUF file, a list of them (a jury), or an open judge."""


def check_options(judge: JudgeLike | None, options: Mapping[str, Any]) -> None:
    """Check the options for opening a judge.

    Raises ArgumentTypeError for an unknown option, ArgumentValueError for any with an open judge.
    """
    names = signature(Judge.open).parameters
    for name in options:
        if name not in names:
            hint = suggestion(name, names, "its options")
            raise ArgumentTypeError(f"a judge has no option {name!r}", hint=hint)
        if isinstance(judge, Judge):
            problem = f"{name} cannot be set for a judge that is open"
            raise ArgumentValueError(problem, hint="use it in Judge.open")


def open_judge(judge: JudgeLike | None, options: Mapping[str, Any]) -> Judge:
    """Open a judge, or several that make one verdict together. An open judge is returned unchanged.

    Raises the errors of `Judge.open`.
    """
    if isinstance(judge, Judge):
        return judge
    return Judge.open(judge, **options)


def ask_whether(words: str, *, yes: Any = None, no: Any = None) -> str:
    """Return one yes-or-no question, with the meanings of yes and no."""
    lines = [words]
    if "?" not in words:
        lines = [f"Is this true? {words}"]
    if yes is not None:
        lines.append(f"The answer is yes if: {as_text(yes)}")
    if no is not None:
        lines.append(f"The answer is no if: {as_text(no)}")
    return "\n".join(lines)


def ask_each_option(words: str, options: Mapping[str, Any]) -> list[str]:
    """Return for each option, with its meaning: is it the right one?"""
    lines = [words, "The possible answers:"]
    for name, meaning in options.items():
        if meaning is None:
            lines.append(f"- {name}")
        else:
            lines.append(f"- {name}: {as_text(meaning)}")
    shared = "\n".join(lines)
    return [f"{shared}\nIs {name!r} the right one?" for name in options]


def ask_each_level(words: str, levels: Sequence[Any]) -> list[str]:
    """Return for each level but the lowest: is this level or a higher one right?"""
    lines = [words, "The levels, from the lowest:"]
    for number, level in enumerate(levels):
        lines.append(f"{number}. {as_text(level)}")
    shared = "\n".join(lines)
    questions: list[str] = []
    for number, level in enumerate(levels[1:], start=1):
        questions.append(f"{shared}\nIs it level {number} ({as_text(level)}) or a higher one?")
    return questions


def option_probabilities(names: Sequence[str], p_yes: Sequence[float]) -> dict[str, float]:
    """Return the probability of each option from P(yes) of its question. One must be positive."""
    total = fsum(p_yes)  # `sum` rounds differently between Python versions
    return {name: p / total for name, p in zip(names, p_yes, strict=True)}


def level_probabilities(p_yes: Sequence[float]) -> dict[int, float]:
    """Return the probability of each level from P(yes) of its question."""
    at_least = [1.0, *accumulate(p_yes, min), 0.0]
    return {level: here - above for level, (here, above) in enumerate(pairwise(at_least))}


def decisiveness(probabilities: Collection[float]) -> float:
    """Return the distance from equal probabilities: 0 if all are equal, 1 if one is certain."""
    count = len(probabilities)
    if count == 1:
        return 1.0
    return (count * max(probabilities) - 1) / (count - 1)


def split_instructions(instructions: Any) -> tuple[str, dict[str, Any]]:
    """Return the question in the instructions, and the fields of the item that it is about."""
    if isinstance(instructions, Mapping) and "question" in instructions:
        item = dict(instructions)
        question = item.pop("question")
        return as_text(question), item
    return as_text(instructions), {}


def as_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def describe_fields(fields: Mapping[str, Any]) -> str:
    """Return one text with all fields, each below its name."""
    return "\n\n".join(f"{name}:\n{as_text(value)}" for name, value in fields.items())


_FIELDS = {
    "input": "user_input",
    "retrieval_context": "retrieved_contexts",
    "expected_output": "reference",
    "actual_output": "response",
}
"""Field of a sample by the field of a test case."""
_WORDS = {
    "user_input": "the question",
    "retrieved_contexts": "the contexts",
    "reference": "the reference",
    "response": "the response",
}
"""Name of a field of a sample in questions."""
_ANSWERS = {"actual_output", "expected_output"}
_FIELD_NAME = re.compile(r"`(\w+)`")


def as_sample(words: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the question and its row, or None unless it names an answer and only text fields.

    Judges understand tagged fields far better than one text with all fields. Without the actual
    answer, the expected one is judged.
    """
    names = set(_FIELD_NAME.findall(words))
    is_known = names <= _FIELDS.keys() & fields.keys()
    if not is_known or not names & _ANSWERS:
        return None
    for name in names:
        texts = fields[name]
        if name != "retrieval_context":
            texts = [texts]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return None
    known = dict(_FIELDS)
    if "actual_output" not in names:
        known["expected_output"] = _FIELDS["actual_output"]
    row = {known[name]: fields[name] for name in sorted(names)}
    question = _FIELD_NAME.sub(lambda match: _WORDS[known[match[1]]], words)
    return question, row
