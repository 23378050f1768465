"""A question that names fields of a DeepEval test case in backquotes, in the words in which a judge is shown them.

    Is every claim in `actual_output` supported by `retrieval_context`?
    Is every claim in the response supported by the contexts?            beside the contexts, each in a tag of its own

Judges understand that far better than one text with all fields in it. Qwen2.5-Coder-1.5B-Instruct (Q4_K_M), asked
whether every claim is supported, of one that is and one that is not: .79 and .09, and .46 and .34 of one text.
"""

import re
from collections.abc import Mapping
from typing import Any

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
