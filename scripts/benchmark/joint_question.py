"""All statements of a sample in one question: instructions with a schema and a worked example first, as RAGAS asks.

The answer repeats each statement, gives a reason and then the verdict, and ends where the model ends it.
"""

import json
from typing import Any

from .cases import Case

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "classifications": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "statement": {"type": "string"},
                    "reason": {"type": "string"},
                    "attributed": {"type": "integer", "enum": [0, 1]},
                },
                "required": ["statement", "reason", "attributed"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["classifications"],
    "additionalProperties": False,
}
_INSTRUCTIONS = """\
You are given a question, a context and an answer. Go through the sentences of the answer one after the other and \
decide for each whether it can be attributed to the context. Use 1 for yes and 0 for no, and give a reason. Reply with \
JSON that follows this schema and nothing else:
{"type": "object", "properties": {"classifications": {"type": "array", "items": {"type": "object", "properties": \
{"statement": {"type": "string", "description": "a sentence of the answer, word for word"}, "reason": {"type": \
"string", "description": "why it can or cannot be attributed"}, "attributed": {"type": "integer", "description": "1 \
or 0"}}, "required": ["statement", "reason", "attributed"]}}}, "required": ["classifications"]}

Example
Input: {"question": "What is known about the Danube?", "context": "The Danube is a river in Europe, the second \
longest after the Volga. It rises in the Black Forest in Germany, flows through ten countries, more than any other \
river in the world, and ends in the Black Sea. Its drainage basin covers 817,000 square kilometres and reaches into \
nine more countries. Its length is about 2,850 kilometres.", "answer": "The Danube rises in the Black Forest. It is \
about 2,850 kilometres long. It passes through ten countries. It was first mapped by Dutch sailors in 1712."}
Output: {"classifications": [{"statement": "The Danube rises in the Black Forest.", "reason": "The context states \
that the river rises in the Black Forest in Germany.", "attributed": 1}, {"statement": "It is about 2,850 kilometres \
long.", "reason": "The context gives this very length.", "attributed": 1}, {"statement": "It passes through ten \
countries.", "reason": "The context states that it flows through ten countries.", "attributed": 1}, {"statement": "It \
was first mapped by Dutch sailors in 1712.", "reason": "The context does not speak of maps or sailors.", \
"attributed": 0}]}

Now do the same for this input.
"""


def joint_prompt(case: Case) -> str:
    """Instructions and example first, then what differs from sample to sample."""
    asked = {"question": case.question, "context": "\n".join(case.passages), "answer": " ".join(case.statements)}
    return f"{_INSTRUCTIONS}Input: {json.dumps(asked, ensure_ascii=False)}\nOutput: "


def verdicts_in(answer: str, asked: int) -> int:
    """How many of the verdicts that were asked for the answer holds; none if it is no JSON, as when it was cut off."""
    try:
        entries = json.loads(answer)["classifications"]
    except (ValueError, KeyError, TypeError):
        return 0
    given = [one.get("attributed") for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    return min(asked, sum(verdict in (0, 1) for verdict in given))
