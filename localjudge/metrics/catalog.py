"""The one table of metrics: a metric is one file, one row here, one golden example.

A name may end in `@k` where the metric looks at the first k chunks: `matrix_recall@3`.

Your own: an installed package adds a metric by an entry point in the group `localjudge.metrics` that names a metric
(see `protocol.py`; `foreign.py` guards what it does). Ours win over another's of the same name.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from localjudge.errors import UsageError
from localjudge.metrics import document_at_k, foreign
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
from localjudge.suggestion import suggestion

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
    metric = _ours(name) or _installed_metric(name)
    return replace(metric, compare_by=compare_by) if isinstance(metric, DocumentMetric) else metric


def reads_texts_of(metric: AnyMetric) -> frozenset[str]:
    """Fields whose texts the metric reads: all that it needs, but for document metrics, which may compare ids."""
    return frozenset() if isinstance(metric, DocumentMetric) else metric.requires


def is_ours(name: str) -> bool:
    """Whether the metric of this name is one of ours, and not another package's."""
    return _ours(name) is not None


def _ours(name: str) -> AnyMetric | None:
    for metric in (*_DEFAULT, *_ON_REQUEST):
        if metric.name == name:
            return metric
    cut = _AT.fullmatch(name)
    return _AT_K[cut["name"]](int(cut["k"])) if cut and cut["name"] in _AT_K else None


def _installed_metric(name: str) -> AnyMetric:
    if name in _installed():
        return foreign.load(_installed()[name])  # type: ignore[no-any-return]
    raise UsageError(f"no metric is called {name!r}", hint=suggestion(name, names(), "the metrics"))


def _installed() -> dict[str, EntryPoint]:
    """Entry points of other packages by the metric's name."""
    return {point.name: point for point in entry_points(group="localjudge.metrics")}
