r"""Grammars of answers in JSON.

Answers follow a JSON schema in `grammars/`, which Outlines converts to a regular expression without
white space:

    {"properties": {"attributed": {"enum": [0, 1]}}}    ->   \{"attributed":(0|1)\}
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from localjudge import resources
from localjudge.types import Grammar

COMPILER = "outlines" if sys.version_info < (3, 14) else "outlines_core"
"""Converts schemas to regular expressions. `pyproject.toml` has the same rule."""
_LABELS: dict[str, dict[str, int | float]] = {
    "attributed": {"0": 0, "1": 1},
    "relevant": {"0": 0, "1": 1},
    "useful": {"0": 0, "1": 1},
    "sufficient": {"0": 0, "1": 1},
    "refused": {"0": 0, "1": 1},
    "answer": {"no": 0, "yes": 1},
    "level": {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1},
}
_REASON = {"type": "string", "minLength": 1, "maxLength": 200, "x-max-tokens": 64}


GRAMMARS = frozenset(
    [
        *_LABELS,
        *(f"reason_{verdict}" for verdict in _LABELS),
        *(f"{verdict}_reason" for verdict in _LABELS),
    ]
)
"""Names of the bundled grammars."""


@cache
def load_grammar(name: str) -> Grammar:
    """Load one of the bundled `GRAMMARS`. Raises InputError if its file is missing."""
    schema = load_schema(name)
    [labels] = [_LABELS[key] for key in schema["properties"] if key in _LABELS]
    pattern = _compile(json.dumps(schema))
    tokens = int(schema["properties"].get("reason", {}).get("x-max-tokens", 0))
    return Grammar(name=name, pattern=pattern, labels=labels, reason_tokens=tokens)


def _compile(schema: str) -> str:
    """Convert a JSON schema to a regular expression without white space."""
    if COMPILER == "outlines":
        from outlines.types import JsonSchema
        from outlines.types.dsl import to_regex

        return str(to_regex(JsonSchema(schema, whitespace_pattern="")))

    from outlines_core.json_schema import build_regex_from_schema

    return f"({build_regex_from_schema(schema, '')})"


def load_schema(name: str) -> dict[str, Any]:
    """Load a schema.

    `reason_attributed` has a reason before the verdict, `attributed_reason` after it.
    """
    for verdict in _LABELS:
        if name == f"reason_{verdict}":
            schema = load_schema(verdict)
            properties = {"reason": _REASON, **schema["properties"]}
            return _with_properties(schema, properties, "A reason, then the verdict.")
        if name == f"{verdict}_reason":
            schema = load_schema(verdict)
            properties = {**schema["properties"], "reason": _REASON}
            return _with_properties(schema, properties, "The verdict, then a reason.")
    text = resources.bundled_file("grammars", f"{name}.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


def _with_properties(
    schema: Mapping[str, Any],
    properties: Mapping[str, Any],
    order: str,
) -> dict[str, Any]:
    return {
        **schema,
        "description": f"{schema['description']} {order}",
        "properties": properties,
        "required": list(properties),
    }
