"""The one table of metrics: a metric is one file, one row here, one golden example.

A name may end in `@k` where the metric looks at the first k chunks: `matrix_recall@3`.

Your own: an installed package adds a metric by an entry point in the group `localjudge.metrics` that names a metric
(see `protocol.py`). Ours win over another's of the same name.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from localjudge.errors import UsageError
from localjudge.metrics import document_at_k
from localjudge.metrics.context_precision import ContextPrecision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
from localjudge.metrics.document_map import DOCUMENT_MAP
from localjudge.metrics.document_mrr import DOCUMENT_MRR
from localjudge.metrics.document_ndcg import DOCUMENT_NDCG
from localjudge.metrics.document_recall import DOCUMENT_RECALL_MULTI_HIT, DOCUMENT_RECALL_SINGLE_HIT
from localjudge.metrics.documents import DocumentMetric
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.matrix import MATRIX_METRICS, recall_at
from localjudge.metrics.protocol import ComputedMetric, JudgedMetric

AnyMetric = JudgedMetric | ComputedMetric

_DEFAULT: tuple[AnyMetric, ...] = (
    ContextRecall(),
    ContextRelevancy(),
    ContextRelevancyChunk(),
    Faithfulness(),
    ContextPrecision(),
    DOCUMENT_RECALL_SINGLE_HIT,
    DOCUMENT_RECALL_MULTI_HIT,
    DOCUMENT_MRR,
    DOCUMENT_MAP,
    DOCUMENT_NDCG,
)
_ON_REQUEST: tuple[AnyMetric, ...] = MATRIX_METRICS
_AT_K: dict[str, Callable[[int], AnyMetric]] = {
    "matrix_recall": recall_at,
    "hit_rate": document_at_k.hit_rate,
    "precision": document_at_k.precision,
    "recall": document_at_k.recall,
}
_AT = re.compile(r"(?P<name>\w+)@(?P<k>[1-9]\d{0,8})")


def default_names() -> tuple[str, ...]:
    """Metrics that a run computes if the data has their fields, in the order in which they are reported."""
    return tuple(metric.name for metric in _DEFAULT)


def matrix_names() -> tuple[str, ...]:
    """Metrics that are read off the table of every statement against every chunk."""
    return tuple(metric.name for metric in MATRIX_METRICS)


def names() -> tuple[str, ...]:
    """Names of all metrics; `name@k` stands for one metric for each k."""
    ours = [*(metric.name for metric in (*_DEFAULT, *_ON_REQUEST)), *(f"{name}@k" for name in _AT_K)]
    return (*ours, *(name for name in _installed() if name not in ours))


def get(name: str, compare_by: str = "content") -> AnyMetric:
    """The metric of this name; `compare_by` is what makes two documents the same in a document metric.

    Raises UsageError with the nearest names if there is none, and for a `compare_by` that no document has.
    """
    metric = _find(name)
    return replace(metric, compare_by=compare_by) if isinstance(metric, DocumentMetric) else metric


def _find(name: str) -> AnyMetric:
    for metric in (*_DEFAULT, *_ON_REQUEST):
        if metric.name == name:
            return metric
    cut = _AT.fullmatch(name)
    if cut and cut["name"] in _AT_K:
        return _AT_K[cut["name"]](int(cut["k"]))
    if name in _installed():
        return _loaded(_installed()[name])
    near = difflib.get_close_matches(name, names()) or names()
    raise UsageError(f"no metric is called {name!r}", hint=f"did you mean {', '.join(near)}?")


def _installed() -> dict[str, EntryPoint]:
    """Entry points of other packages by the metric's name."""
    return {point.name: point for point in entry_points(group="localjudge.metrics")}


def _loaded(point: EntryPoint) -> AnyMetric:
    try:
        metric = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the metric {point.name!r} ({point.value}) cannot be loaded: {error}",
            hint="mend or remove the package that installs it",
        ) from error
    missing = [part for part in ("name", "version", "requires") if not hasattr(metric, part)]
    if missing or not (hasattr(metric, "steps") or hasattr(metric, "score")):
        raise UsageError(
            f"{point.value} is not a metric: it lacks {', '.join(missing) or 'steps or score'}",
            hint="localjudge/metrics/protocol.py says what a metric has",
        )
    return metric  # type: ignore[no-any-return]
