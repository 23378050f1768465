"""Definition of a metric, which yields questions and counts verdicts, but never calls a model.

    steps    yields tasks  ──>  receives one verdict for each, in order  ──>  ...  ──>  returns the outcome

A metric is immutable. Its name, with its non-default options, and its version determine the meaning
of its scores: `document_map`, `hit_rate@3(compare_by=meta.doc)`. An option is a keyword-only text
field of the metric's dataclass.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import Field, FrozenInstanceError, dataclass, fields, is_dataclass
from itertools import islice
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from localjudge.errors import InputError
from localjudge.text.judged_sentences import keeps_thinking
from localjudge.text.responses import PreparedResponse, Statement, prepare
from localjudge.text.responses import statements as statements_in
from localjudge.types import Attribution, Outcome, Sample, Scored, Span, Task, Undefined, Unit, Verdict, context_texts


class About(NamedTuple):
    """Description of a metric for users. All fields are optional.

    `question` is asked about each `unit` ("none" without a judge). `headline` states the mean, with
    `{}` for its value: "in an average answer, {} of the sentences ..." (a mean of shares is not the
    share of all sentences). `counted` follows the fraction: "2 of 3 attributed".
    """

    question: str = ""
    unit: str = ""
    headline: str = ""
    counted: str = ""
    source: str = ""


Steps = Generator[Sequence[Task], Sequence[Verdict], Outcome]
"""Yields tasks, receives one verdict for each, returns the outcome."""

Sentences = Callable[[str], Sequence[Span]]
"""Splits a text into verbatim sentences."""


class Metric(Protocol):
    """Interface of every metric."""

    @property
    def name(self) -> str:
        """Name for selection and reports, with non-default options."""

    @property
    def version(self) -> int:
        """Increased when the same data and verdicts could give another score."""

    @property
    def required_fields(self) -> frozenset[str]:
        """Fields of a sample; if one is null, the outcome is `Undefined`."""

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about the sample and turn the verdicts into an outcome."""


def about_of(metric: object) -> About:
    """Return the metric's `about`, or an empty one."""
    words = getattr(metric, "about", None)
    return words if isinstance(words, About) else About()


class _Frozen:
    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}")


@dataclass(frozen=True)
class BuiltIn(_Frozen):
    """Base class of the built-in metrics: immutable, with version 1 by default."""

    version = 1


# At most nine digits: no ranking is longer.
_FORM = re.compile(r"\s*(?P<base>\w+)(?:@(?P<k>[1-9]\d{0,8}))?\s*(?:\((?P<options>.*)\)\s*)?")


class MetricName(NamedTuple):
    """Parts of a name: `hit_rate@3(compare_by=id)` is `hit_rate`, 3 and `compare_by=id`."""

    base: str
    k: int | None
    options: str


def parse(name: str) -> MetricName | None:
    parts = _FORM.fullmatch(name)
    return parts and MetricName(parts["base"], int(parts["k"]) if parts["k"] else None, parts["options"] or "")


def with_options(base: str, metric: object) -> str:
    options = ",".join(f"{option.name}={value}" for option, value in _options(metric) if value != option.default)
    return f"{base}({options})" if options else base


def options_of(metric: object) -> dict[str, str]:
    return {option.name: value for option, value in _options(metric)}


def _options(metric: object) -> Iterator[tuple[Field[Any], str]]:
    for field in fields(metric) if is_dataclass(metric) and not isinstance(metric, type) else ():
        value = getattr(metric, field.name)
        if field.kw_only and isinstance(value, str):
            yield field, value


class WithOptions(BuiltIn):
    """A metric with a fixed set of values for each option. Raises InputError for others."""

    base: ClassVar[str]

    def __post_init__(self) -> None:
        for option, value in _options(self):
            if value not in (values := get_args(option.type)):
                hint = f"write one of: {', '.join(f'{option.name}={value}' for value in values)}"
                raise InputError(f"{self.base} does not take {option.name}={value!r}", hint=hint)

    @property
    def name(self) -> str:
        return with_options(self.base, self)


SupportTable = NDArray[np.bool_]
"""Shape (sentences, chunks): does the chunk support the sentence?"""

_Source = Literal["reference", "response"]


def prepared_response(sample: Sample, sentences: Sentences) -> PreparedResponse:
    """Return the response without thinking (unless `sentences` keeps it) and without its list of sources."""
    ids = frozenset(context.id for context in sample.retrieved_contexts or () if context.id is not None)
    return prepare(sample.response or "", ids, keep_thinking=keeps_thinking(sentences))


def response_statements(sample: Sample, sentences: Sentences) -> list[Statement]:
    """Return the sentences of the response that are judged, without their citation marks."""
    return statements_in(prepared_response(sample, sentences), sentences)


def shown_if_other(statement: Statement) -> str | None:
    return None if statement.shown == statement.span.text else statement.shown


def chunks(sample: Sample) -> Iterator[Unit]:
    for position, text in enumerate(context_texts(sample.retrieved_contexts)):
        if text.strip():
            span = Span.whole(text)
            yield Unit(kind="chunk", index=position, source="retrieved_contexts", source_index=position, span=span)


def attributions(
    sample: Sample,
    source: _Source,
    statements: Sequence[Span | Statement],
    contexts: tuple[str, ...],
    against: _Source | int | None = None,
) -> list[Attribution]:
    """Return one task for each sentence: can it be attributed to the contexts?"""
    tasks = []
    for index, statement in enumerate(statements):
        unit = _statement_unit(statement, index, source, against)
        tasks.append(Attribution(unit=unit, contexts=contexts, user_input=sample.user_input))
    return tasks


def _statement_unit(statement: Span | Statement, index: int, source: _Source, against: _Source | int | None) -> Unit:
    if isinstance(statement, Span):
        return Unit(kind="statement", index=index, source=source, span=statement, against=against)
    return Unit(
        kind="statement",
        index=index,
        source=source,
        span=statement.span,
        against=against,
        shown=shown_if_other(statement),
    )


def share_of(tasks: Sequence[Task], if_none: str, detail: str | None = None) -> Steps:
    """Ask all tasks and return the share of label 1, or without tasks `Undefined` with the reason `if_none`."""
    if not tasks:
        return Undefined(reason=if_none)
    verdicts = yield tasks
    return Scored.fraction((verdict.label for verdict in verdicts), detail=detail)


def nothing_retrieved(sample: Sample) -> str | None:
    """Return the detail of a score without any context text, or None."""
    return None if any(text.strip() for text in context_texts(sample.retrieved_contexts)) else "no context text"


def against_each_chunk(
    sample: Sample, source: _Source, statements: Sequence[Span | Statement], passages: Sequence[Unit]
) -> list[Attribution]:
    by_chunk = [attributions(sample, source, statements, (chunk.span.text,), chunk.index) for chunk in passages]
    return [task for of_statement in zip(*by_chunk, strict=True) for task in of_statement]


def support_table(verdicts: Iterable[Verdict], rows: int, columns: int) -> SupportTable:
    """Arrange the next `rows * columns` verdicts as a table, row by row. Raises ValueError if there are fewer."""
    labels = [verdict.label for verdict in islice(verdicts, rows * columns)]
    return np.array(labels, dtype=bool).reshape(rows, columns)
