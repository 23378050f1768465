r"""Grammars: which answers are legal.

Each is a JSON schema in `grammars/`. Outlines turns it into a regular expression with no free white space, so that
every legal answer is short and ends; the engine compiles that expression for a model's vocabulary.

    {"properties": {"attributed": {"enum": [0, 1]}}}   ->   \{"attributed":(0|1)\}
"""

import json
from functools import cache

from localjudge import resources
from localjudge.types import Grammar, Label

_LABELS: dict[str, Label] = {"0": 0, "1": 1}


@cache
def load(name: str) -> Grammar:
    """The bundled grammar `name`. Raises UsageError if there is none."""
    return from_schema(name, resources.grammar_file(name).read_text(encoding="utf-8"))


def from_schema(name: str, schema: str) -> Grammar:
    """A grammar from the text of a JSON schema whose verdict is an enum of 0 and 1."""
    from outlines.types import JsonSchema
    from outlines.types.dsl import to_regex

    pattern = to_regex(JsonSchema(json.dumps(json.loads(schema)), whitespace_pattern=""))
    return Grammar(name=name, pattern=pattern, labels=_LABELS)
