"""What is judged: four statements about a bundled passage of four sentences, two that hold and two that do not.

    short    the passage
    long     the passage behind 15 others

The statements are the same in both, so that only the length of the context differs. Any installation has them:
`localjudge/doctor/probes/README.md` says how they were written. `joint_prompt` asks for all of them in one answer, as
RAGAS does: a schema and a worked example first, then each statement repeated, a reason and the verdict.
"""

import json
from typing import Any, NamedTuple

from localjudge.doctor import probes as probe_set
from localjudge.types import Attribution

CONTEXTS = {"short": 0, "long": 15}
"""How many other passages stand before the one that is asked about."""
MOST = len(probe_set.passages()) - 1
"""Samples that there are; the last passage is for warming up."""

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


class Case(NamedTuple):
    """One sample, named after its passage: statements that share a question and contexts."""

    sample: str
    tasks: tuple[Attribution, ...]


def make_case(place: int, context: str) -> Case:
    """The sample about the passage at this place, with contexts of this length."""
    passages = probe_set.passages()
    about = passages[place]
    others = [passages[(place + step) % len(passages)].whole for step in range(1, CONTEXTS[context] + 1)]
    tasks = [
        probe.task.model_copy(update={"contexts": (*others, about.whole)})
        for probe in probe_set.probes()
        if probe.passage == about.title and isinstance(probe.task, Attribution)
    ]
    return Case(about.title, tuple(tasks[::2]))


def warm_up() -> Case:
    """One statement of a sample that is not measured: it has the instructions evaluated."""
    case = make_case(MOST, "short")
    return case._replace(tasks=case.tasks[:1])


def joint_prompt(case: Case) -> str:
    """Instructions and example first, then what differs from sample to sample."""
    first = case.tasks[0]
    answer = " ".join(task.unit.span.text for task in case.tasks)
    asked = {"question": first.user_input, "context": "\n".join(first.contexts), "answer": answer}
    return f"{_INSTRUCTIONS}Input: {json.dumps(asked, ensure_ascii=False)}\nOutput: "


def count_verdicts(answer: str, expected: int) -> int:
    """How many of the expected verdicts a joint answer holds; none if it is not JSON, as when it was cut off."""
    try:
        entries = json.loads(answer)["classifications"]
    except (ValueError, KeyError, TypeError):
        return 0
    verdicts = [entry.get("attributed") for entry in entries if isinstance(entry, dict)] if entries else []
    return min(expected, sum(verdict in (0, 1) for verdict in verdicts))
