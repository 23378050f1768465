"""Questions whose answer is obvious: a statement copied from its context, and one about something else."""

import tomllib
from functools import cache
from pathlib import Path

from localjudge.types import Attribution, Label, Record, Relevance, Span, Task, Unit

_FILE = Path(__file__).with_name("plain_cases.toml")


class PlainCase(Record):
    """A question to a judge, and the answer that anybody would give."""

    context: str | None = None
    passage: str | None = None
    question: str
    text: str
    answer: Label

    def task(self) -> Task:
        """Attribution of the text to the context, or relevance of this sentence of the passage to the question."""
        if self.passage is not None:
            start = self.passage.index(self.text)
            span = Span(start=start, end=start + len(self.text), text=self.text)
            unit = Unit(kind="sentence", index=0, source="retrieved_contexts", source_index=0, span=span)
            return Relevance(unit=unit, user_input=self.question, contexts=(self.passage,))
        span = Span.whole(self.text)
        unit = Unit(kind="statement", index=0, source="reference", span=span)
        return Attribution(unit=unit, contexts=(self.context or "",), user_input=self.question)


@cache
def plain_cases() -> tuple[PlainCase, ...]:
    """The cases, in the order of the file."""
    return tuple(PlainCase(**table) for table in tomllib.loads(_FILE.read_text(encoding="utf-8"))["case"])
