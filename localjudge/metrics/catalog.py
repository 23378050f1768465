"""Table of all metrics. A metric has one file, one row here and one golden example.

An installed package can add metrics by entry points (see `localjudge.metrics`), but not replace
ours. By default, a run computes one metric for each question, if the data has its columns:

    was the needed text retrieved?     context_recall       or, without a reference: context_relevancy_chunk
    is the response grounded in it?    faithfulness
    does the response answer?          answer_correctness   or, without a reference: answer_relevancy
    which documents were retrieved?    all document metrics (no judge), instead of context_relevancy_chunk
"""

import inspect
import logging
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple, get_args

from localjudge.errors import InputError, LocaljudgeError, SampleError
from localjudge.metrics import metric as naming
from localjudge.metrics.abstention import Abstention, ResponseRefusal
from localjudge.metrics.answer_correctness import AnswerCorrectness
from localjudge.metrics.answer_relevancy import AnswerRelevancy
from localjudge.metrics.citations import CitationSupport, CitationValidity
from localjudge.metrics.context_precision import ContextPrecision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
from localjudge.metrics.context_sufficiency import ContextSufficiency
from localjudge.metrics.documents import WHOLE_RANKING, DocumentMetric, hit_rate_at, precision_at, recall_at
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.matrix import MatrixPrecision, MatrixRecall
from localjudge.metrics.metric import About, Metric, Sentences, Steps, attributions, share_of
from localjudge.metrics.noise_sensitivity import NoiseSensitivity
from localjudge.types import Failed, Outcome, Relevance, Sample, Scored, Span, Task, Undefined, Unit, context_texts
from localjudge.words import option, suggestion

_log = logging.getLogger(__name__)
_QUESTIONS = (
    ("context_recall", "context_relevancy_chunk"),
    ("faithfulness",),
    ("answer_correctness", "answer_relevancy"),
)
_DOCUMENTS = tuple(measure.name for measure in WHOLE_RANKING)
FIRST_CHOICES = (*(names[0] for names in _QUESTIONS), *_DOCUMENTS)
"""Default metrics for data with every column."""
ALL_CHOICES = (*(name for names in _QUESTIONS for name in names), *_DOCUMENTS)


def default_metrics(possible: Collection[str]) -> tuple[str, ...]:
    documents = [name for name in _DOCUMENTS if name in possible]
    left_out = "context_relevancy_chunk" if documents else None
    judged = [next((name for name in names if name in possible), None) for names in _QUESTIONS]
    return tuple(name for name in (*judged, *documents) if name and name != left_out)


_LONGEST_MESSAGE = 300
_NAME = re.compile(r"[^\s<>=(),]+(\([^()]*\))?")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs in every process


def guarded_steps(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """Run the metric's steps; any exception becomes a SampleError with its file and line."""
    try:
        outcome = yield from _checked_tasks(metric.steps(sample, sentences))
    except (LocaljudgeError, MemoryError):
        raise
    except Exception as error:  # the package's own code may raise anything
        file = inspect.getfile(metric.steps)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        raise SampleError(f"{_message(error)} ({Path(file).name}:{lines[-1]})" if lines else _message(error)) from error
    if not isinstance(outcome, Scored | Undefined | Failed):
        raise SampleError(f"the metric returned {type(outcome).__name__}, not Scored, Undefined or Failed")
    return outcome


def _checked_tasks(steps: Steps) -> Steps:
    try:
        tasks: Sequence[Task] = tuple(next(steps))  # may be a generator, and is read several times
        while True:
            if wrong := [task for task in tasks if not isinstance(task, Task)]:
                raise SampleError(f"the metric asked {wrong[0]!r:.80}, which is no task")
            tasks = tuple(steps.send((yield tasks)))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def flaw_of(metric: Any) -> str | None:
    if lacks := [part for part in ("name", "version", "required_fields", "steps") if not hasattr(metric, part)]:
        return f"it lacks {', '.join(lacks)}"
    if isinstance(metric, type):
        return "it is a class"
    if not isinstance(metric.required_fields, frozenset | set):
        return f"required_fields must be a frozenset, got {metric.required_fields!r:.80}"
    if not isinstance(metric.version, int):
        return f"version must be a whole number, got {metric.version!r:.80}"
    if not isinstance(metric.name, str) or not _NAME.fullmatch(metric.name):
        return f"its name must be one word, got {metric.name!r:.80}"
    return None


def _message(error: Exception) -> str:
    line = " ".join(_ADDRESS.sub("", "".join(traceback.format_exception_only(error))).split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."


ATTRIBUTION_LABELS = "labelled_statements"
RELEVANCE_LABELS = "labelled_sentences"


class LabelledStatements(Faithfulness):
    """Metric of `calibrate`: can the whole statement be attributed to the contexts?"""

    name = ATTRIBUTION_LABELS

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        statement = Span.whole(sample.response or "")
        tasks = attributions(sample, "response", [statement], context_texts(sample.retrieved_contexts))
        return share_of(tasks, "there is no statement")


class LabelledPassage(ContextRelevancy):
    """Metric of `calibrate`: which sentences of a passage (the contexts) are needed?"""

    name = RELEVANCE_LABELS

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        texts, question = context_texts(sample.retrieved_contexts), sample.user_input or ""
        spans = enumerate(map(Span.whole, texts))
        units = [Unit(kind="sentence", index=i, source="retrieved_contexts", source_index=i, span=s) for i, s in spans]
        tasks = [Relevance(unit=unit, user_input=question, contexts=(" ".join(texts),)) for unit in units]
        return share_of(tasks, "there is no sentence")


_Maker = Callable[..., Metric]
"""Creates a metric from its options."""

_WITHOUT_K: tuple[_Maker, ...] = (
    ContextRecall,
    ContextRelevancy,
    ContextRelevancyChunk,
    Faithfulness,
    ContextPrecision,
    *(partial(DocumentMetric, measure) for measure in WHOLE_RANKING),
    AnswerCorrectness,
    AnswerRelevancy,
    ContextSufficiency,
    ResponseRefusal,
    Abstention,
    CitationSupport,
    CitationValidity,
    MatrixRecall,
    MatrixPrecision,
    NoiseSensitivity,
)
_AT_K: dict[str, Callable[[int], _Maker]] = {
    "matrix_recall": lambda k: partial(MatrixRecall, k),
    "hit_rate": lambda k: partial(DocumentMetric, hit_rate_at(k)),
    "precision": lambda k: partial(DocumentMetric, precision_at(k)),
    "recall": lambda k: partial(DocumentMetric, recall_at(k)),
}
_BY_NAME: dict[str, _Maker] = {make().name: make for make in _WITHOUT_K}
_LABEL_METRICS: dict[str, _Maker] = {ATTRIBUTION_LABELS: LabelledStatements, RELEVANCE_LABELS: LabelledPassage}


def our_names() -> tuple[str, ...]:
    """Return the built-in metrics without options, in report order; `name@k` stands for any k."""
    return (*_BY_NAME, *(f"{name}@k" for name in _AT_K))


def names() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*our_names(), *_installed())))


def place(name: str) -> tuple[int, int, str]:
    parsed = naming.parse(name)
    base, k = (parsed.base, parsed.k or 0) if parsed else (name, 0)
    family = f"{base}@k" if k else base
    order = names()
    return order.index(family) if family in order else len(order), k, name


def example(name: str) -> Metric:
    """Return the metric for one of `names`, with k = 1. Raises the errors of `get`."""
    return get(f"{name.removesuffix('k')}1" if name.endswith("@k") else name)


def get(name: str) -> Metric:
    """Return the metric with this name and its options. Raises InputError if there is none."""
    parsed, make = naming.parse(name), _maker(name)
    if parsed is None or make is None:
        return _installed_metric(name)
    names, options = list(_options(make)), dict[str, str]()
    for text in parsed.options.split(",") if parsed.options.strip() else ():
        option, _, value = (part.strip() for part in text.partition("="))
        if not (option and value) or option in options:
            problem = f"{text.strip()!r} is not an option of the metric {parsed.base}, or is repeated"
            raise InputError(problem, hint=f"write it like this: {parsed.base}(option=value)")
        options[option] = value
    for option in options:
        if option not in names:
            hint = suggestion(option, names, "the options") if names else "omit it: the metric has no options"
            raise InputError(f"the metric {parsed.base} has no option {option!r}", hint=hint)
    return make(**options)


def _options(make: _Maker) -> dict[str, tuple[str, ...]]:
    """Return a metric's options with their values, the default first; () for free text."""
    parameters = inspect.signature(make).parameters.values()
    return {option.name: get_args(option.annotation) for option in parameters if option.kind is option.KEYWORD_ONLY}


def by_id_without_texts(metric: Metric) -> Metric:
    if isinstance(metric, DocumentMetric) and metric.compare_by == "content":
        return replace(metric, compare_by="id")
    return metric


def reads_texts_of(metric: Metric) -> frozenset[str]:
    return frozenset() if isinstance(metric, DocumentMetric) else metric.required_fields


def special_tasks_of(metrics: Iterable[Metric]) -> frozenset[str]:
    """Return the `special_tasks`, which only some judges can do."""
    return frozenset(task for metric in metrics for task in getattr(metric, "special_tasks", ()))


def tasks_of(metrics: Sequence[Metric]) -> frozenset[str]:
    common = frozenset(task for metric in metrics for task in getattr(metric, "common_tasks", ()))
    return common | special_tasks_of(metrics)


@cache
def question_of(name: str) -> str:
    metric = ours(name)
    tasks = tasks_of([metric]) if metric else ()
    return next(iter(tasks)) if len(tasks) == 1 else name


def is_judged(name: str) -> bool:
    """Return whether the metric uses a judge. Unknown metrics count as judged."""
    metric = ours(name)
    return metric is None or bool(tasks_of([metric]))


def lower_is_better(name: str) -> bool:
    return bool(getattr(ours(name), "lower_is_better", False))


def ours(name: str) -> Metric | None:
    try:
        return get(name) if is_ours(name) else None
    except InputError:
        return None


@cache
def is_ours(name: str) -> bool:
    return _maker(name) is not None


def _maker(name: str) -> _Maker | None:
    if (parsed := naming.parse(name)) and parsed.k is not None:
        return _AT_K[parsed.base](parsed.k) if parsed.base in _AT_K else None
    return parsed and (_BY_NAME.get(parsed.base) or _LABEL_METRICS.get(parsed.base))


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="localjudge.metrics")}


def _installed_metric(name: str) -> Metric:
    installed, base = _installed(), name.partition("(")[0]
    if name not in installed and base in installed:
        raise InputError(f"the metric {base} belongs to another package and takes no options", hint=f"write {base}")
    if name not in installed:
        several = re.split(r"[\s,]+", name.strip())
        hint = suggestion(base, names(), "the metrics") if len(several) == 1 else option("metrics", several)
        raise InputError(f"no metric is called {name!r}", hint=hint)
    point = installed[name]
    try:
        metric: Metric = point.load()
    except Exception as error:  # the package's own code may raise anything
        problem = f"the metric {point.name!r} ({point.value}) cannot be loaded: {_message(error)}"
        raise InputError(problem, hint="repair or remove the package that installs it") from error
    flaw = flaw_of(metric)
    if flaw or metric.name != point.name:
        problem = flaw or f"expected an object with the name {point.name!r}"
        hint = "for a complete example: python -m pydoc localjudge.metrics"
        raise InputError(f"{point.value} is not a metric: {problem}", hint=hint)
    return metric


class MetricDescription(NamedTuple):
    """A metric's name (`@k` for any k) and its options with values, the default first (empty: free text).

    `default_metrics`: a run may compute it by default. `instructions`: needs a judge that follows
    instructions.
    """

    name: str
    options: dict[str, tuple[str, ...]]
    fields: tuple[str, ...]
    about: About
    default_metrics: bool
    instructions: bool
    lower_is_better: bool


def described() -> list[MetricDescription]:
    """Describe all metrics. One that cannot be loaded is logged and left out."""
    listed = []
    for name in names():
        try:
            metric = example(name)
        except InputError as error:
            _log.warning("%s", error.in_one_line)
            continue
        make = _maker(name.replace("@k", "@1"))
        about = naming.about_of(metric)
        first_line = (metric.__doc__ or "").strip().partition("\n")[0]
        listed.append(
            MetricDescription(
                name=name,
                options=_options(make) if make else {},
                fields=tuple(sorted(metric.required_fields)),
                about=about._replace(question=about.question or first_line),
                default_metrics=name in ALL_CHOICES,
                instructions=bool(special_tasks_of([metric])),
                lower_is_better=lower_is_better(name),
            )
        )
    return listed
