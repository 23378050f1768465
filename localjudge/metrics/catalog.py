"""The one table of metrics: a metric is one file, one row here, one golden example.

A name may end in `@k` where the metric looks at the first k chunks: `matrix_recall@3`.
"""

import difflib
import re
from collections.abc import Callable

from localjudge.errors import UsageError
from localjudge.metrics.context_precision import ContextPrecision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
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
)
_ON_REQUEST: tuple[AnyMetric, ...] = MATRIX_METRICS
_AT_K: dict[str, Callable[[int], AnyMetric]] = {"matrix_recall": recall_at}
_AT = re.compile(r"(?P<name>\w+)@(?P<k>[1-9]\d*)")


def default_names() -> tuple[str, ...]:
    """Metrics that a run computes if the data has their fields, in the order in which they are reported."""
    return tuple(metric.name for metric in _DEFAULT)


def names() -> tuple[str, ...]:
    """Names of all metrics; `name@k` stands for one metric for each k."""
    return (*(metric.name for metric in (*_DEFAULT, *_ON_REQUEST)), *(f"{name}@k" for name in _AT_K))


def get(name: str) -> AnyMetric:
    """The metric of this name. Raises UsageError with the nearest names if there is none."""
    for metric in (*_DEFAULT, *_ON_REQUEST):
        if metric.name == name:
            return metric
    cut = _AT.fullmatch(name)
    if cut and cut["name"] in _AT_K:
        return _AT_K[cut["name"]](int(cut["k"]))
    near = difflib.get_close_matches(name, names()) or names()
    raise UsageError(f"no metric is called {name!r}", hint=f"did you mean {', '.join(near)}?")
