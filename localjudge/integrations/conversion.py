"""Choices and levels as questions of yes or no, which are all that a judge is asked, and back.

    which of these options?             one question for each; their P(yes), divided by their sum
    which of these levels, from 0 on?   one for each but the lowest: is it this one or a higher one?

The second is how Frank and Hall (2001, A Simple Approach to Ordinal Classification) make binary questions of an ordinal
one. P(level >= k) cannot rise with k, so that each counts for no more than the least before it:

    P(yes)             0.9   0.6   0.7        of "at least 1", "at least 2", "at least 3"
    level        0     1     2     3
    probability  0.1   0.3   0.0   0.6        expected level 0.9 + 0.6 + 0.6 = 2.1

The judge of an adapter: one to be opened, as `localjudge.Judge.open` names it, or one that is open and stays so.

A question that names fields of a DeepEval test case in backquotes, in the words in which a judge is shown them.

    Is every claim in `actual_output` supported by `retrieval_context`?
    Is every claim in the response supported by the contexts?            beside the contexts, each in a tag of its own

Judges understand that far better than one text with all fields in it. Qwen2.5-Coder-1.5B-Instruct (Q4_K_M), asked
whether every claim is supported, of one that is and one that is not: .79 and .09, and .46 and .34 of one text.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from localjudge.errors import UsageError
from localjudge.open_judge import Judge
from localjudge.run.judges import JudgeName
from localjudge.run.settings import Options


def whether(words: str, *, yes: Any = None, no: Any = None) -> str:
    """A question, or a statement that is true or not, with what the answers mean where that is said."""
    asked = words if "?" in words else f"Is this true? {words}"
    meanings = {"yes": yes, "no": no}
    return asked + "".join(
        f"\nThe answer is {name} if: {said(one)}" for name, one in meanings.items() if one is not None
    )


def of_each_option(words: str, options: Mapping[str, Any]) -> list[str]:
    """A question for each option; its description may be None."""
    listed = "".join(
        f"\n- {name}" + (f": {said(about)}" if about is not None else "") for name, about in options.items()
    )
    return [f"{words}\nThe possible answers:{listed}\nIs {name!r} the right one?" for name in options]


def of_each_level(words: str, levels: Sequence[Any]) -> list[str]:
    """A question for each level above the lowest."""
    listed = "".join(f"\n{number}. {said(level)}" for number, level in enumerate(levels))
    return [
        f"{words}\nThe levels, from the lowest:{listed}\nIs it level {number} ({said(level)}) or a higher one?"
        for number, level in enumerate(levels)
        if number
    ]


def option_probabilities(names: Sequence[str], found: Sequence[float]) -> dict[str, float]:
    """The probability of each option from the P(yes) of its question, which are not all 0."""
    return {name: p_yes / sum(found) for name, p_yes in zip(names, found, strict=True)}


def level_probabilities(found: Sequence[float]) -> dict[int, float]:
    """The probability of each level, from 0 on, from the P(yes) of the questions about those above it."""
    at_least = [1.0, *accumulate(found, min), 0.0]
    return {level: here - above for level, (here, above) in enumerate(pairwise(at_least))}


def decisiveness(probabilities: Collection[float]) -> float:
    """How far the likeliest answer is from what all would have if none were likelier: 0 there, 1 if it is certain."""
    count = len(probabilities)
    return (count * max(probabilities) - 1) / (count - 1) if count > 1 else 1.0


def words_and_item(instructions: Any) -> tuple[str, dict[str, Any]]:
    """The words of a question, and by its name the item that it is about, where that stands beside them."""
    if isinstance(instructions, Mapping) and "question" in instructions:
        item = {name: value for name, value in instructions.items() if name != "question"}
        return said(instructions["question"]), item
    return said(instructions), {}


def said(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def record(fields: Mapping[str, Any]) -> str:
    """What is asked about, as one text: each field under its name."""
    return "\n\n".join(f"{name}:\n{said(value)}" for name, value in fields.items())


GivenJudge = JudgeName | Judge
"""A registered name, the path of a GGUF file, or an open judge."""


def open_given(judge: GivenJudge, options: Options) -> Judge:
    """The judge, open.

    Raises UsageError for options of a judge that is open already, which has its own, and what `Judge.open` raises.
    """
    refuse_options(judge, options)
    return judge if isinstance(judge, Judge) else Judge.open(judge, **options)


def refuse_options(judge: GivenJudge, options: Options) -> None:
    """Raise UsageError for options of an open judge, before anything is loaded."""
    if isinstance(judge, Judge) and options:
        raise UsageError(
            f"the judge is open, and {', '.join(options)} cannot be given any more", hint="give it to Judge.open"
        )


_NAMES = {
    "input": ("user_input", "the question"),
    "retrieval_context": ("retrieved_contexts", "the contexts"),
    "expected_output": ("reference", "the reference"),
    "actual_output": ("response", "the response"),
}
_INSTEAD = _NAMES | {"expected_output": _NAMES["actual_output"]}
"""What is judged where no answer is named: the expected one."""
_NAMED = re.compile(r"`(\w+)`")


def as_sample(words: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The words and the row that they are about; None if they name no answer, or anything but these fields."""
    named = set(_NAMED.findall(words))
    if not named <= _NAMES.keys() & fields.keys() or not named & {"actual_output", "expected_output"}:
        return None
    if not all(_fits(name, fields[name]) for name in named):
        return None
    names = _NAMES if "actual_output" in named else _INSTEAD
    row = {names[name][0]: fields[name] for name in sorted(named)}
    return _NAMED.sub(lambda found: names[found[1]][1], words), row


def _fits(name: str, value: Any) -> bool:
    if name == "retrieval_context":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, str)
