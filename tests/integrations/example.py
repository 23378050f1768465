"""Two samples that every tool gets, with localjudge's field names.

With the bundled lexical judge: context_recall (2/2 + 1/2) / 2 = 0.75, context_relevancy (3/4 + 1/2)
/ 2 = 0.625, faithfulness (2/2 + 2/3) / 2 = 0.833.
"""

from collections.abc import Sequence
from typing import Any

from localjudge import Sample

EXAMPLE: list[dict[str, Any]] = [
    {
        "user_input": "What is the tower made of, and how tall is it?",
        "retrieved_contexts": [
            "The tower is made of wrought iron. The iron tower is tall, and made to stay.",
            "The tower is 330 metres tall. Bananas are yellow.",
        ],
        "response": "The tower is made of wrought iron. The tower is 330 metres tall.",
        "reference": "The tower is made of wrought iron. The tower is 330 metres tall.",
    },
    {
        "user_input": "Where does the Danube rise?",
        "retrieved_contexts": [
            "The Danube rises in the Black Forest. The Rhine ends in the Netherlands."
        ],
        "response": (
            "The Danube rises in the Black Forest. It is blue. The Rhine ends in the Netherlands."
        ),
        "reference": "The Danube rises in the Black Forest. It flows through ten countries.",
    },
]
SCORES = {"context_recall": 0.75, "context_relevancy": 0.625, "faithfulness": 5 / 6}
ALL = ("user_input", "retrieved_contexts", "response", "reference")


def said(samples: Sequence[Sample], fields: Sequence[str] = ALL) -> list[dict[str, Any]]:
    return [{field: _texts(getattr(sample, field)) for field in fields} for sample in samples]


def example(fields: Sequence[str] = ALL) -> list[dict[str, Any]]:
    return [{field: row[field] for field in fields} for row in EXAMPLE]


def _texts(value: Any) -> Any:
    return [context.text for context in value] if isinstance(value, tuple) else value
