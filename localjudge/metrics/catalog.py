"""Table of all metrics. A metric has a function in a file, a row here and a golden example.

An installed package can add metrics by entry points (see `localjudge.metrics`), but not replace
ours. By default, a run computes one metric for each question, if the data has its columns:

    was the needed text retrieved?    context_recall; without a reference, context_relevancy_chunk
    is the response grounded in it?   faithfulness
    does the response answer?         answer_correctness; without a reference, answer_relevancy
    which documents were retrieved?   all document metrics, and no context_relevancy_chunk
"""

import inspect
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from typing import NamedTuple, get_args

from localjudge.errors import InputError
from localjudge.metrics.abstention import abstention, context_sufficiency, refusal
from localjudge.metrics.attribution import (
    ATTRIBUTION_LABELS,
    answer_correctness,
    context_recall,
    faithfulness,
    labelled_statements,
)
from localjudge.metrics.citations import citation_support, citation_validity
from localjudge.metrics.documents import (
    WHOLE_RANKING,
    get_compared_value,
    hit_rate_at,
    precision_at,
    recall_at,
)
from localjudge.metrics.matrix import matrix_precision, matrix_recall, noise_sensitivity
from localjudge.metrics.metric import (
    About,
    Metric,
    get_about,
    metric_problem,
    one_line,
    parse_name,
)
from localjudge.metrics.relevancy import (
    RELEVANCE_LABELS,
    answer_relevancy,
    context_precision,
    context_relevancy,
    context_relevancy_chunk,
    labelled_sentences,
)
from localjudge.words import option, suggestion

_log = logging.getLogger(__name__)
_QUESTIONS = (
    ("context_recall", "context_relevancy_chunk"),
    ("faithfulness",),
    ("answer_correctness", "answer_relevancy"),
)
_DOCUMENTS = tuple(make().name for make in WHOLE_RANKING)
FIRST_CHOICES = (*(names[0] for names in _QUESTIONS), *_DOCUMENTS)
"""Default metrics for data with every column."""
ALL_CHOICES = (*chain.from_iterable(_QUESTIONS), *_DOCUMENTS)

_Maker = Callable[..., Metric]
"""Creates a metric from its options."""
_WITHOUT_K: tuple[_Maker, ...] = (
    context_recall,
    context_relevancy,
    context_relevancy_chunk,
    faithfulness,
    context_precision,
    *WHOLE_RANKING,
    answer_correctness,
    answer_relevancy,
    context_sufficiency,
    refusal,
    abstention,
    citation_support,
    citation_validity,
    matrix_recall,
    matrix_precision,
    noise_sensitivity,
)
_AT_K: dict[str, Callable[[int], _Maker]] = {
    "matrix_recall": lambda k: partial(matrix_recall, k),
    "hit_rate": hit_rate_at,
    "precision": precision_at,
    "recall": recall_at,
}
_BY_NAME: dict[str, _Maker] = {make().name: make for make in _WITHOUT_K}
_LABEL_METRICS: dict[str, _Maker] = {
    ATTRIBUTION_LABELS: labelled_statements,
    RELEVANCE_LABELS: labelled_sentences,
}


def default_metrics(possible: Collection[str]) -> tuple[str, ...]:
    """Choose the first possible metric for each question, and all possible document metrics."""
    chosen: list[str] = []
    for names in _QUESTIONS:
        candidates = [name for name in names if name in possible]
        chosen += candidates[:1]
    documents = [name for name in _DOCUMENTS if name in possible]
    if documents and "context_relevancy_chunk" in chosen:
        chosen.remove("context_relevancy_chunk")
    return (*chosen, *documents)


def our_names() -> tuple[str, ...]:
    """Return the built-in metrics without options, in report order; `name@k` stands for any k."""
    return (*_BY_NAME, *(f"{name}@k" for name in _AT_K))


def names() -> tuple[str, ...]:
    """Return the built-in metrics, then the metrics of other packages."""
    return tuple(dict.fromkeys((*our_names(), *_installed_metrics())))


def get(name: str) -> Metric:
    """Return the metric with this name and its options. Raises InputError if there is none."""
    parsed = parse_name(name)
    make = _find_maker(name)
    if parsed is None or make is None:
        return _installed_metric(name)
    base, _, text = parsed
    options = _read_options(base, text)
    _check_options(base, options, _options(make))
    return make(**options)


def example(name: str) -> Metric:
    """Return the metric for one of `names`, with k = 1. Raises the errors of `get`."""
    if name.endswith("@k"):
        name = f"{name.removesuffix('k')}1"
    return get(name)


def ours(name: str) -> Metric | None:
    """Return the built-in metric with this name, or None."""
    if not is_ours(name):
        return None
    try:
        return get(name)
    except InputError:
        return None


@cache
def is_ours(name: str) -> bool:
    return _find_maker(name) is not None


def about(name: str) -> About:
    """Return the description of a built-in metric, an empty one for another."""
    return get_about(ours(name))


def report_order(name: str) -> tuple[int, int, str]:
    """Return the sort key of a metric in reports: its family, then k, then its name."""
    family = name
    k = 0
    parsed = parse_name(name)
    if parsed:
        family = parsed[0]
        k = parsed[1] or 0
    if k:
        family = f"{family}@k"
    order = our_names()
    if family not in order:
        order = names()
    if family in order:
        return order.index(family), k, name
    return len(order), k, name


def by_id_without_texts(metric: Metric) -> Metric:
    """Return the metric for documents that are known by id only."""
    if get_compared_value(metric) == "content":
        return get(f"{metric.name}(compare_by=id)")
    return metric


def fields_read_as_text(metric: Metric) -> frozenset[str]:
    """Return the fields that the metric cannot use if only ids are known."""
    if get_compared_value(metric) is not None:
        return frozenset()
    return metric.required_fields


def list_special_tasks(metrics: Iterable[Metric]) -> frozenset[str]:
    """Return the `special_tasks`, which only some judges can do."""
    tasks: set[str] = set()
    for metric in metrics:
        tasks.update(getattr(metric, "special_tasks", ()))
    return frozenset(tasks)


def list_tasks(metrics: Sequence[Metric]) -> frozenset[str]:
    """Return the names of all tasks that the metrics ask."""
    tasks = set(list_special_tasks(metrics))
    for metric in metrics:
        tasks.update(getattr(metric, "common_tasks", ()))
    return frozenset(tasks)


@cache
def get_question(name: str) -> str:
    """Return the task that a metric asks, or the metric's name if it asks several or none.

    Stored labels and calibrations have it. They know a sentence of an answer as any sentence.
    """
    metric = ours(name)
    if metric is None:
        return name
    tasks = tuple(list_tasks([metric]))
    if len(tasks) != 1:
        return name
    if tasks[0] == "answer_sentence":
        return "relevance_sentence"
    return tasks[0]


def is_judged(name: str) -> bool:
    """Return whether the metric uses a judge. Unknown metrics count as judged."""
    metric = ours(name)
    return metric is None or bool(list_tasks([metric]))


def lower_is_better(name: str) -> bool:
    return bool(getattr(ours(name), "lower_is_better", False))


class MetricDescription(NamedTuple):
    """A metric's name (`@k` for any k) and its options with their values, the default first.

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
        make = _find_maker(metric.name)
        options: dict[str, tuple[str, ...]] = {}
        if make:
            options = _options(make)
        words = get_about(metric)
        first_line = (metric.__doc__ or "").strip().partition("\n")[0]
        listed.append(
            MetricDescription(
                name=name,
                options=options,
                fields=tuple(sorted(metric.required_fields)),
                about=words._replace(question=words.question or first_line),
                default_metrics=name in ALL_CHOICES,
                instructions=bool(list_special_tasks([metric])),
                lower_is_better=lower_is_better(name),
            )
        )
    return listed


def _find_maker(name: str) -> _Maker | None:
    """Return what creates a built-in metric, without its options, or None."""
    parsed = parse_name(name)
    if parsed is None:
        return None
    base, k, _ = parsed
    if k is None:
        return _BY_NAME.get(base) or _LABEL_METRICS.get(base)
    if base not in _AT_K:
        return None
    return _AT_K[base](k)


def _read_options(base: str, text: str) -> dict[str, str]:
    """Read "a=b,c=d" in a metric's name. Raises InputError if it is not of this form."""
    options: dict[str, str] = {}
    if not text.strip():
        return options
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        if not name or not value or name in options:
            raise InputError(
                f"{pair.strip()!r} is not an option of the metric {base}, or is repeated",
                hint=f"write it like this: {base}(option=value)",
            )
        options[name] = value
    return options


def _check_options(
    base: str, options: Mapping[str, str], allowed: Mapping[str, Sequence[str]]
) -> None:
    """Raise InputError for an option that a metric lacks, or a value that an option lacks."""
    for name in options:
        if name not in allowed:
            hint = "omit it: the metric has no options"
            if allowed:
                hint = suggestion(name, allowed, "the options")
            raise InputError(f"the metric {base} has no option {name!r}", hint=hint)
    for name, value in options.items():
        if allowed[name] and value not in allowed[name]:
            choices = ", ".join(f"{name}={choice}" for choice in allowed[name])
            raise InputError(
                f"{base} does not take {name}={value!r}",
                hint=f"write one of: {choices}",
            )


def _options(make: _Maker) -> dict[str, tuple[str, ...]]:
    """Return a metric's options with their values, the default first; () for free text."""
    options = {}
    for parameter in inspect.signature(make).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[parameter.name] = get_args(parameter.annotation)
    return options


def _installed_metric(name: str) -> Metric:
    installed = _installed_metrics()
    base = name.partition("(")[0]
    if name in installed:
        return _load_installed(installed[name])
    if base in installed:
        problem = f"the metric {base} belongs to another package and takes no options"
        raise InputError(problem, hint=f"write {base}")
    several = re.split(r"[\s,]+", name.strip())
    hint = suggestion(base, names(), "the metrics")
    if len(several) > 1:
        hint = option("metrics", several)
    raise InputError(f"no metric is called {name!r}", hint=hint)


def _installed_metrics() -> dict[str, EntryPoint]:
    """Return the entry points of metrics by their names."""
    return {point.name: point for point in entry_points(group="localjudge.metrics")}


def _load_installed(point: EntryPoint) -> Metric:
    """Load a metric. Raises InputError if its package cannot be imported, or it is no metric."""
    try:
        metric: Metric = point.load()
    except Exception as error:  # the package's own code may raise anything
        raise InputError(
            f"the metric {point.name!r} ({point.value}) cannot be loaded: {one_line(error)}",
            hint="repair or remove the package that installs it",
        ) from error
    problem = metric_problem(metric)
    if problem is None and metric.name != point.name:
        problem = f"expected an object with the name {point.name!r}"
    if problem:
        hint = "for a complete example: python -m pydoc localjudge.metrics"
        raise InputError(f"{point.value} is not a metric: {problem}", hint=hint)
    return metric
