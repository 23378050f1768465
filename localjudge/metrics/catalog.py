"""The one table of metrics: a metric is one file, one row here, one golden example.

A name may end in `@k` where the metric looks at the first k chunks, and may hold options in parentheses:
`matrix_recall@3`, `document_map(compare_by=id)`. `naming.py` says how.

Your own: an installed package adds a metric by an entry point in the group `localjudge.metrics` that names a metric
(the docstring of `localjudge.metrics` shows one). What it raises fails its sample (`foreign.py`). Ours win over
another's of the same name.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import get_args

from localjudge.errors import UsageError
from localjudge.metrics import foreign, naming
from localjudge.metrics.abstention import Abstention
from localjudge.metrics.answer_correctness import AnswerCorrectness
from localjudge.metrics.answer_relevancy import AnswerRelevancy
from localjudge.metrics.citation_support import CitationSupport
from localjudge.metrics.citation_validity import CitationValidity
from localjudge.metrics.context_precision import ContextPrecision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
from localjudge.metrics.context_sufficiency import ContextSufficiency
from localjudge.metrics.document_at_k import hit_rate_at, precision_at, recall_at
from localjudge.metrics.document_map import DOCUMENT_MAP
from localjudge.metrics.document_mrr import DOCUMENT_MRR
from localjudge.metrics.document_ndcg import DOCUMENT_NDCG
from localjudge.metrics.document_recall import DOCUMENT_RECALL_MULTI_HIT, DOCUMENT_RECALL_SINGLE_HIT
from localjudge.metrics.documents import DocumentMetric
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.labelled import ATTRIBUTION_LABELS, RELEVANCE_LABELS, LabelledPassage, LabelledStatements
from localjudge.metrics.matrix import MatrixPrecision, MatrixRecall
from localjudge.metrics.metric import Metric
from localjudge.metrics.noise_sensitivity import NoiseSensitivity
from localjudge.metrics.refusal import ResponseRefusal
from localjudge.suggestion import suggestion

_Maker = Callable[..., Metric]
"""Makes a metric from its options, which are its keyword-only parameters."""

_WITHOUT_K: tuple[_Maker, ...] = (
    ContextRecall,
    ContextRelevancy,
    ContextRelevancyChunk,
    Faithfulness,
    ContextPrecision,
    partial(DocumentMetric, DOCUMENT_RECALL_SINGLE_HIT),
    partial(DocumentMetric, DOCUMENT_RECALL_MULTI_HIT),
    partial(DocumentMetric, DOCUMENT_MRR),
    partial(DocumentMetric, DOCUMENT_MAP),
    partial(DocumentMetric, DOCUMENT_NDCG),
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
_OF_LABELS: dict[str, _Maker] = {ATTRIBUTION_LABELS: LabelledStatements, RELEVANCE_LABELS: LabelledPassage}
"""Not offered: what `localjudge calibrate` asks of rows that people labelled, so that its runs open and verify."""


def our_names() -> tuple[str, ...]:
    """Names of our metrics without their options, in the order in which they are reported; `name@k` as in `names`."""
    return (*_BY_NAME, *(f"{name}@k" for name in _AT_K))


def names() -> tuple[str, ...]:
    """Names of all metrics without their options; `name@k` stands for one metric for each k."""
    ours = our_names()
    return (*ours, *(name for name in _installed() if name not in ours))


def place(name: str) -> tuple[int, int, str]:
    """Where the metric of this name is reported: at the place of its family, `hit_rate@3` before `hit_rate@10`."""
    parsed = naming.parse(name)
    base, k = (parsed.base, parsed.k or 0) if parsed else (name, 0)
    family = f"{base}@k" if k else base
    known = names()
    return known.index(family) if family in known else len(known), k, name


def example(name: str) -> Metric:
    """The metric of one of the `names`; of a `name@k` the one with k = 1. Raises as `get` does."""
    return get(f"{name.removesuffix('k')}1" if name.endswith("@k") else name)


def options_offered(name: str) -> dict[str, tuple[str, ...]]:
    """The options of the metric of one of the `names`, each with its values, the default first; () for any text."""
    parsed = naming.parse(name.replace("@k", "@1"))
    make = _maker(parsed.base, parsed.k) if parsed else None
    options = inspect.signature(make).parameters.values() if make else ()
    return {option.name: get_args(option.annotation) for option in options if option.kind is option.KEYWORD_ONLY}


def get(name: str) -> Metric:
    """The metric of this name, with its options: `document_map(compare_by=id)`.

    Raises UsageError for a metric that does not exist, an option that it does not have, and a value that cannot be,
    with what there is.
    """
    parsed = naming.parse(name)
    make = _maker(parsed.base, parsed.k) if parsed else None
    if parsed is None or make is None:
        return _installed_metric(name)
    known = [
        option.name for option in inspect.signature(make).parameters.values() if option.kind is option.KEYWORD_ONLY
    ]
    options = naming.parse_options(parsed)
    for option in options:
        if option not in known:
            hint = suggestion(option, known, "the options") if known else f"leave it out: {parsed.base} has no options"
            raise UsageError(f"the metric {parsed.base} has no option {option!r}", hint=hint)
    return make(**options)


def reads_texts_of(metric: Metric) -> frozenset[str]:
    """Fields whose texts the metric reads: all that it needs, but for document metrics, which may compare ids."""
    return frozenset() if isinstance(metric, DocumentMetric) else metric.required_fields


def special_tasks_of(metrics: Iterable[Metric]) -> frozenset[str]:
    """The tasks that the metrics ask beyond those that every judge can be asked, as they say by `special_tasks`."""
    return frozenset(task for metric in metrics for task in getattr(metric, "special_tasks", ()))


@cache
def question_of(name: str) -> str:
    """What the verdicts of the metric of this name answer, by the name of its prompt; if not one thing, its own name.

    A threshold that was found on some metric's verdicts holds for all metrics that ask the same.
    """
    metric = ours(name)
    tasks = tasks_of([metric]) if metric else ()
    return next(iter(tasks)) if len(tasks) == 1 else name


def tasks_of(metrics: Iterable[Metric]) -> frozenset[str]:
    """All tasks that the metrics ask, as far as they say: by `special_tasks`, and by `common_tasks` the others."""
    common = frozenset(task for metric in metrics for task in getattr(metric, "common_tasks", ()))
    return common | special_tasks_of(metrics)


def lower_is_better(name: str) -> bool:
    """Whether a smaller value of the metric of this name is the better one, as it says by `lower_is_better = True`."""
    return bool(getattr(ours(name), "lower_is_better", False))


def ours(name: str) -> Metric | None:
    """Our metric of this name; None for another package's, and for a name with an option that cannot be."""
    try:
        return get(name) if is_ours(name) else None
    except UsageError:
        return None


@cache
def is_ours(name: str) -> bool:
    """Whether the metric of this name is one of ours, and not another package's."""
    parsed = naming.parse(name)
    return parsed is not None and _maker(parsed.base, parsed.k) is not None


def _maker(base: str, k: int | None) -> _Maker | None:
    if k is None:
        return _BY_NAME.get(base) or _OF_LABELS.get(base)
    return _AT_K[base](k) if base in _AT_K else None


def _installed_metric(name: str) -> Metric:
    if name in _installed():
        return foreign.load(_installed()[name])
    base = name.partition("(")[0]
    if base in _installed():
        raise UsageError(f"the metric {base} takes no options, as it is another package's", hint=f"name it {base}")
    if len(several := name.split()) > 1:
        raise UsageError(f"no metric is called {name!r}", hint=f"separate names by commas: {','.join(several)}")
    raise UsageError(f"no metric is called {name!r}", hint=suggestion(base, names(), "the metrics"))


def _installed() -> dict[str, EntryPoint]:
    """Entry points of other packages by the metric's name."""
    return {point.name: point for point in entry_points(group="localjudge.metrics")}
