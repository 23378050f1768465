"""Which column that is not used may be a field that the data lacks: a guess from its name, said and never taken.

    Question, gold_standard, expectations.expected_response, context_1 and context_2, refrence

The last word of a name says what the column holds, the words before it whose: a `gold_document` is ground truth.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from localjudge.dataset.aliases import ALIASES, LOOSE_NAMES, reads_like
from localjudge.option_spelling import option
from localjudge.types import CONTEXT_FIELDS, FieldName

LOOKED_AT = 1_000
"""So many rows are looked at to say what columns hold."""

_CONTEXTS = {"context", "document", "doc", "passage", "chunk", "snippet", "evidence"}
_ANSWERS = {"answer", "response", "output", "completion", "prediction", "reply"}
_QUESTIONS = {"question", "query", "prompt", "input"}
_TRUTH = {"gold", "golden", "truth", "gt", "reference", "ref", "expected", "expectation", "ideal", "target", "correct"}
_HEADS_OF_TRUTH = _ANSWERS | _TRUTH | {"standard"}
_SAYS_NOTHING = {"text", "list", "string"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NEAR = 0.9
_OF_PROMPTFOO = re.compile(r"\[[^\]]+\] .")
"""promptfoo's CSV calls a column of answers `[provider] prompt`."""
_KNOWN = {
    name: field
    for table in (ALIASES, LOOSE_NAMES)
    for field, names in table.items()
    if field in get_args(FieldName)
    for name in names
}
_OF_PHOENIX = {"input", "output", "reference"}


def guessed_columns(rows: Sequence[Mapping[str, Any]], taken: set[str]) -> dict[str, list[str]]:
    """For each of our fields the columns, also inside objects, that may be it by their names and read like it.

    `taken` are the columns that are used. One of them may be meant for something else: what some call `context` beside
    `expected_output`, and Phoenix `reference`, is what was retrieved.
    """
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(_names(rows)):
        field = likely_field(name)
        if field and name not in taken and reads_like(field, rows, name):
            found.setdefault(field, []).append(name)
    if "retrieved_contexts" not in found:
        other = ["context"] if "context" in taken else ["reference"] if taken >= _OF_PHOENIX else []
        found |= {"retrieved_contexts": other} if other else {}
    return found


def likely_field(name: str) -> str | None:
    """The field that a column of this name may be; None if its name does not say."""
    if _OF_PROMPTFOO.match(name):
        return "response"
    words = [word.lower().removesuffix("s") for word in _WORD.findall(name)]
    words = [word for word in words if word not in _SAYS_NOTHING] or [""]
    truth = not _TRUTH.isdisjoint(words)
    if words[-1] in _CONTEXTS:
        return "reference_contexts" if truth else "retrieved_contexts"
    if words[-1] in _HEADS_OF_TRUTH and truth:
        return "reference"
    if words[-1] in _ANSWERS:
        return "response"
    if words[-1] in _QUESTIONS:
        return "user_input"
    near = difflib.get_close_matches(name.lower(), _KNOWN, n=1, cutoff=_NEAR)
    return _KNOWN[near[0]] if near else None


def map_option(guessed: Mapping[str, Sequence[str]]) -> str:
    """How to say that these columns are these fields; columns that are numbered are one field together."""
    return option("mapping", {field: _one_column(field, columns) for field, columns in guessed.items()})


def _one_column(field: str, columns: Sequence[str]) -> str:
    numbered = field in CONTEXT_FIELDS and len({column.rstrip("0123456789") for column in columns}) == 1
    return ",".join(columns) if numbered else columns[0]


def _names(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        for name, value in row.items():
            yield str(name)
            if isinstance(value, Mapping):
                yield from (f"{name}.{key}" for key in value)
