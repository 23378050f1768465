"""Definition of a metric, which yields questions and counts verdicts, but never calls a model.

    steps    yields tasks  ──>  receives one verdict for each  ──>  ...  ──>  returns the outcome

A metric is immutable. Its name, with its non-default options, and its version determine the meaning
of its scores: `document_map`, `hit_rate@3(compare_by=meta.doc)`. A built-in metric is made by a
function, whose keyword-only arguments are its options.

The code of another package's metric may raise anything, return anything and yield anything. All of
it becomes an error with a reason, of the metric or of one sample.
"""

import inspect
import re
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from localjudge.errors import LocaljudgeError, SampleError
from localjudge.text.responses import PreparedResponse, Statement, prepare
from localjudge.text.responses import statements as statements_in
from localjudge.text.segmenter import keeps_thinking
from localjudge.types import (
    Against,
    Attribution,
    Failed,
    Outcome,
    PlainValue,
    Sample,
    Scored,
    Span,
    Task,
    Undefined,
    Unit,
    Verdict,
    context_texts,
    plain_value,
)


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

Formula = Callable[[Sequence[Unit], Sequence[float]], float]
"""The score from the judged units and a number in [0, 1] for each.

With labels it is the counted score, with probabilities of 1 the expected score.
"""


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

    def steps(self, sample: Sample, sentences: Sentences, /) -> Steps:
        """Ask about the sample and turn the verdicts into an outcome."""


def get_about(metric: object) -> About:
    """Return the metric's `about`, or an empty one."""
    about = getattr(metric, "about", None)
    if isinstance(about, About):
        return about
    return About()


@dataclass(frozen=True)
class BuiltIn:
    """A metric of this package: `steps` asks its questions and computes its outcome.

    `options` has all of them, with their values. `common_tasks` can be done by every judge,
    `special_tasks` only by some. Without a `formula`, the score is the sum of the verdicts over its
    denominator.
    """

    name: str
    steps: Callable[[Sample, Sentences], Steps] = field(compare=False)
    _: KW_ONLY
    required_fields: frozenset[str]
    about: About
    version: int = 1
    options: Mapping[str, str] = field(default_factory=dict, compare=False)
    common_tasks: frozenset[str] = frozenset()
    special_tasks: frozenset[str] = frozenset()
    lower_is_better: bool = False
    formula: Formula | None = field(default=None, compare=False)


_INTERFACE = {"name", "version", "required_fields", "about", "criterion_sha256"}


def get_options(metric: object) -> Mapping[str, PlainValue]:
    """Return all options of a metric with their values.

    The options of another package's metric are its attributes, without `_` at the start, that are
    texts, numbers, booleans, or tuples and frozen sets of these. A module has none.
    """
    if isinstance(metric, BuiltIn):
        return metric.options
    attributes: dict[str, Any] = {}
    if is_dataclass(metric):
        attributes = {each.name: getattr(metric, each.name) for each in fields(metric)}
    elif not inspect.ismodule(metric):
        attributes = getattr(metric, "__dict__", {})
    options: dict[str, PlainValue] = {}
    for name, value in attributes.items():
        option = plain_value(value)
        if name not in _INTERFACE and not name.startswith("_") and option is not None:
            options[name] = option
    return options


# At most nine digits: no ranking is longer.
_FORM = re.compile(r"\s*(?P<base>\w+)(?:@(?P<k>[1-9]\d{0,8}))?\s*(?:\((?P<options>.*)\)\s*)?")


def parse_name(name: str) -> tuple[str, int | None, str] | None:
    """Return the base, k and options of a metric's name, or None if it is not of this form.

    They are `hit_rate`, 3 and `compare_by=id` in `hit_rate@3(compare_by=id)`.
    """
    parts = _FORM.fullmatch(name)
    if parts is None:
        return None
    k = None
    if parts["k"]:
        k = int(parts["k"])
    return parts["base"], k, parts["options"] or ""


def name_with_option(base: str, option: str, value: str, *, default: str) -> str:
    """Return a metric's name, with its option unless that has the default value."""
    if value == default:
        return base
    return f"{base}({option}={value})"


_PARTS = ("name", "version", "required_fields", "steps")
_NAME = re.compile(r"[^\s<>=(),]+(\([^()]*\))?")
_MAX_MESSAGE = 300
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs in every process


def metric_problem(metric: Any) -> str | None:
    """Return why an object cannot be used as a metric, or None."""
    missing = [part for part in _PARTS if not hasattr(metric, part)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if isinstance(metric, type):
        return "it is a class"
    if not isinstance(metric.required_fields, frozenset | set):
        return f"required_fields must be a frozenset, got {metric.required_fields!r:.80}"
    if not isinstance(metric.version, int) or isinstance(metric.version, bool):
        return f"version must be a whole number, got {metric.version!r:.80}"
    if not isinstance(metric.name, str) or not _NAME.fullmatch(metric.name):
        return f"its name must be one word, got {metric.name!r:.80}"
    return None


def guarded_steps(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """Run the metric's steps. Any exception becomes a SampleError with its file and line."""
    try:
        outcome = yield from _checked_tasks(metric.steps(sample, sentences))
    except (LocaljudgeError, MemoryError):
        raise
    except Exception as error:  # the package's own code may raise anything
        file = inspect.getfile(metric.steps)
        location = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == file:
                location = f" ({Path(file).name}:{frame.lineno})"
        raise SampleError(f"{one_line(error)}{location}") from error
    if not isinstance(outcome, Scored | Undefined | Failed):
        raise SampleError(
            f"the metric returned {type(outcome).__name__}, not Scored, Undefined or Failed",
        )
    return outcome


def _checked_tasks(steps: Steps) -> Steps:
    """Run the steps. Raises SampleError for anything yielded that is no task."""
    try:
        tasks: Sequence[Task] = tuple(next(steps))  # may be a generator, and is read several times
        while True:
            for task in tasks:
                if not isinstance(task, Task):
                    raise SampleError(f"the metric asked {task!r:.80}, which is no task")
            verdicts = yield tasks
            tasks = tuple(steps.send(verdicts))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def one_line(error: Exception) -> str:
    """Return the error in one line, without addresses in memory."""
    text = "".join(traceback.format_exception_only(error))
    line = " ".join(_ADDRESS.sub("", text).split())
    if len(line) > _MAX_MESSAGE:
        return f"{line[: _MAX_MESSAGE - 3]}..."
    return line


StatementSource = Literal["reference", "response"]
"""The text that a judged statement is from."""

# Why a score is undefined.
NO_QUESTION = "there is no question"
NO_REFERENCE = "the reference has no sentence"
NO_RESPONSE = "the response has no sentence"
NO_CHUNK = "the contexts have no chunk"


def prepared_response(sample: Sample, sentences: Sentences) -> PreparedResponse:
    """Return the response without thinking (unless `sentences` keeps it) and without its list of
    sources.
    """
    contexts = sample.retrieved_contexts or ()
    ids = frozenset(context.id for context in contexts if context.id is not None)
    return prepare(sample.response or "", ids, keep_thinking=keeps_thinking(sentences))


def response_statements(sample: Sample, sentences: Sentences) -> list[Statement]:
    """Return the sentences of the response that are judged, without their citation marks."""
    return statements_in(prepared_response(sample, sentences), sentences)


def shown_if_other(statement: Statement) -> str | None:
    """Return the text shown to the judge if it is not the verbatim one, otherwise None."""
    if statement.shown == statement.span.text:
        return None
    return statement.shown


def chunks(sample: Sample) -> Iterator[Unit]:
    """Yield the retrieved contexts that are not blank. Their index is the rank, from 0."""
    for position, text in enumerate(context_texts(sample.retrieved_contexts)):
        if text.strip():
            yield Unit(
                kind="chunk",
                index=position,
                source="retrieved_contexts",
                source_index=position,
                span=Span.whole(text),
            )


def attributions(
    sample: Sample,
    source: StatementSource,
    statements: Sequence[Span | Statement],
    contexts: tuple[str, ...],
    against: Against = None,
) -> list[Attribution]:
    """Return one task for each sentence: can it be attributed to the contexts?"""
    tasks = []
    for index, statement in enumerate(statements):
        unit = statement_unit(statement, index, source, against)
        tasks.append(Attribution(unit=unit, contexts=contexts, user_input=sample.user_input))
    return tasks


def statement_unit(
    statement: Span | Statement,
    index: int,
    source: StatementSource,
    against: Against,
) -> Unit:
    if isinstance(statement, Span):
        span = statement
        shown = None
    else:
        span = statement.span
        shown = shown_if_other(statement)
    return Unit(
        kind="statement",
        index=index,
        source=source,
        span=span,
        against=against,
        shown=shown,
    )


def score_share(tasks: Sequence[Task], if_none: str, detail: str | None = None) -> Steps:
    """Ask all tasks and return the share of label 1.

    Without tasks, the outcome is `Undefined` with the reason `if_none`.
    """
    if not tasks:
        return Undefined(reason=if_none)
    verdicts = yield tasks
    return Scored.fraction((verdict.label for verdict in verdicts), detail=detail)


def nothing_retrieved(sample: Sample) -> str | None:
    """Return the detail of a score without any context text, or None."""
    if any(text.strip() for text in context_texts(sample.retrieved_contexts)):
        return None
    return "no context text"


def labels_of(verdicts: Iterable[Verdict]) -> list[float]:
    """Return the labels as numbers for a formula."""
    return [float(verdict.label) for verdict in verdicts]


def units_of(tasks: Iterable[Task]) -> list[Unit]:
    """Return the unit of each task."""
    return [task.unit for task in tasks]
