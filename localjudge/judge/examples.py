"""Worked examples, shown to a model that answers about several statements at once.

An example is asked and answered exactly as the real question is: its prompt comes from the same nodes, and its answer
is one that the grammar for its statements allows (a test holds every bundled example to that).
"""

import json

from localjudge.types import Attribution, Label, Record, Span, Unit


class ExampleEntry(Record):
    """One judged statement, its keys in the order of the answer."""

    statement: str
    reason: str
    attributed: Label


class Example(Record):
    """Contexts, a question and judged statements."""

    contexts: tuple[str, ...]
    question: str | None = None
    classifications: tuple[ExampleEntry, ...]

    @property
    def tasks(self) -> tuple[Attribution, ...]:
        """What the example asks."""
        return tuple(
            Attribution(
                unit=Unit(
                    kind="statement",
                    index=index,
                    source="reference",
                    span=Span(start=0, end=len(entry.statement), text=entry.statement),
                ),
                contexts=self.contexts,
                user_input=self.question,
            )
            for index, entry in enumerate(self.classifications)
        )

    @property
    def answer(self) -> str:
        """The whole answer, in JSON with no free white space."""
        entries = [entry.model_dump() for entry in self.classifications]
        return json.dumps({"classifications": entries}, ensure_ascii=False, separators=(",", ":"))
