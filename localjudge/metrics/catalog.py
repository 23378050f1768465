"""The one table of metrics: a metric is one file, one row here, one golden example."""

import difflib

from localjudge.errors import UsageError
from localjudge.metrics.context_precision import ContextPrecision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.protocol import ComputedMetric, JudgedMetric

AnyMetric = JudgedMetric | ComputedMetric

_METRICS: tuple[AnyMetric, ...] = (
    ContextRecall(),
    ContextRelevancy(),
    ContextRelevancyChunk(),
    Faithfulness(),
    ContextPrecision(),
)


def names() -> tuple[str, ...]:
    """Names of all metrics, in the order in which they are reported."""
    return tuple(metric.name for metric in _METRICS)


def get(name: str) -> AnyMetric:
    """The metric of this name. Raises UsageError with the nearest names if there is none."""
    for metric in _METRICS:
        if metric.name == name:
            return metric
    near = difflib.get_close_matches(name, names()) or names()
    raise UsageError(f"no metric is called {name!r}", hint=f"did you mean {', '.join(near)}?")
