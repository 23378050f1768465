r"""Grammars: which answers are legal.

Each is a JSON schema in `grammars/`, or one of these with a reason: `reason_attributed` asks for a reason before the
verdict of `attributed`, `attributed_reason` for one after it. Outlines turns it into a regular expression with no free
white space, so that every legal answer is short and ends; the engine compiles that expression for a model's vocabulary.
Outlines 1.3 does not install on Python 3.14 and above: there its core is called, which makes the expression on any
Python.

    {"properties": {"attributed": {"enum": [0, 1]}}}   ->   \{"attributed":(0|1)\}

A reason is bounded twice: in characters by the expression, and in tokens by the schema's `x-max-tokens`, because a
character takes up to four tokens and what is kept free for the longest answer cannot hold the prompt.
"""

import json
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from localjudge import resources
from localjudge.errors import SampleError
from localjudge.types import Grammar

COMPILER = "outlines" if sys.version_info < (3, 14) else "outlines_core"
"""The package that makes the expressions; `pyproject.toml` installs it by the same rule."""

_LABELS: dict[str, int | float] = {"0": 0, "1": 1}
_OF_OWN_QUESTIONS: dict[str, dict[str, int | float]] = {
    "answer": {"no": 0, "yes": 1},
    "level": {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1},
}
_VERDICTS = ("attributed", "relevant", "useful", "sufficient", "refused", "answer", "level")
_JOINT = "classifications"


@cache
def load(name: str) -> Grammar:
    """The bundled grammar `name`. Raises UsageError if there is none."""
    return from_schema(name, schema_text(name))


def schema_text(name: str) -> str:
    """The JSON schema of the bundled grammar `name`. Raises UsageError if there is none."""
    for key in _VERDICTS:
        if name in {f"reason_{key}", f"{key}_reason"}:
            return _with_reason(_schema(key), before=name.startswith("reason_"))
    return resources.grammar_file(name).read_text(encoding="utf-8")


def from_schema(name: str, schema: str) -> Grammar:
    """A grammar from the text of a JSON schema whose verdict is an enum of 0 and 1, a level or yes or no."""
    tree = json.loads(schema)
    own = [labels for key, labels in _OF_OWN_QUESTIONS.items() if key in tree["properties"]]
    return Grammar(
        name=name,
        pattern=_pattern(tree),
        labels=own[0] if own else _LABELS,
        reason_tokens=_reason_tokens(tree),
        json_schema=schema,
    )


def for_statements(statements: Sequence[str]) -> Grammar:
    """The grammar of one answer about all the statements: every one verbatim, in order, with a reason and a verdict.

    Raises SampleError for a statement that JSON cannot hold.
    """
    schema = _schema(_JOINT)
    entries = schema["properties"][_JOINT]
    entry = entries["items"]
    entries["prefixItems"] = [_entry_about(statement, entry) for statement in statements]
    entries["minItems"] = entries["maxItems"] = len(statements)
    entries["items"] = False
    return Grammar(
        name=_JOINT,
        pattern=_pattern(schema),
        labels=_LABELS,
        verdicts=len(statements),
        reason_tokens=_reason_tokens(entry),
        json_schema=json.dumps(schema),
    )


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(resources.grammar_file(name).read_text(encoding="utf-8"))
    return schema


def _with_reason(schema: dict[str, Any], *, before: bool) -> str:
    """The schema of a verdict with the reason that joint answers have, before or after it."""
    reason = {"reason": _schema(_JOINT)["properties"][_JOINT]["items"]["properties"]["reason"]}
    verdict = schema["properties"]
    properties = {**reason, **verdict} if before else {**verdict, **reason}
    order = "A reason, then the verdict." if before else "The verdict, then a reason."
    description = f"{schema['description']} {order}"
    return json.dumps({**schema, "description": description, "properties": properties, "required": list(properties)})


def _entry_about(statement: str, entry: dict[str, Any]) -> dict[str, Any]:
    try:
        statement.encode()
    except UnicodeEncodeError as error:
        raise SampleError(f"a statement holds a lone surrogate at position {error.start}") from error
    return {**entry, "properties": {**entry["properties"], "statement": {"const": statement}}}


def _pattern(schema: dict[str, Any]) -> str:
    text = json.dumps(schema)
    return _by_outlines(text) if COMPILER == "outlines" else _by_its_core(text)


def _by_outlines(schema: str) -> str:
    """The regular expression of a JSON schema, by Outlines."""
    from outlines.types import JsonSchema
    from outlines.types.dsl import to_regex

    expression: str = to_regex(JsonSchema(schema, whitespace_pattern=""))
    return expression


def _by_its_core(schema: str) -> str:
    """The same expression, by what Outlines calls."""
    from outlines_core.json_schema import build_regex_from_schema

    return f"({build_regex_from_schema(schema, '')})"


def _reason_tokens(schema: dict[str, Any]) -> int:
    return int(schema["properties"].get("reason", {}).get("x-max-tokens", 0))
