"""The metrics that there are, one block each: what it asks, what it needs and costs, where it comes from.

* context_recall
    asks      sentence of the reference: can it be attributed to the retrieved contexts?
    needs     reference, retrieved_contexts
    verdicts  sentences of the reference
    source    RAGAS context_recall
"""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.metrics.description import MetricDescription
from localjudge.report.table_layout import Table, line

_LEGEND = (
    "* computed where no metric is named: the first of those for one question whose columns the data has.",
    "verdicts: the judge gives one for each of these, in every sample.",
)


def metric_list(metrics: Sequence[MetricDescription]) -> RenderableType:
    """A block for each metric, and what the marks mean."""
    return Group(*map(_block, metrics), *(line(text, "dim") for text in _LEGEND))


def _block(metric: MetricDescription) -> RenderableType:
    rows = [(Text(name, style="dim"), text) for name, text in _lines(metric)]
    heading = line(f"{'*' if metric.first_picture else ' '} {metric.name}", "bold")
    return Group(heading, Padding(Table((), rows), (0, 0, 1, 4)))


def _lines(metric: MetricDescription) -> Iterator[tuple[str, str]]:
    options = ", ".join(f"{name}={'|'.join(values) or 'TEXT'}" for name, values in metric.options.items())
    remarks = {
        "only a judge that reads instructions can be asked": metric.instructions,
        "lower is better": metric.lower_is_better,
    }
    lines = {
        "asks": metric.about.asks,
        "needs": ", ".join(metric.fields),
        "options": options,
        "verdicts": metric.about.verdicts,
        "source": metric.about.source,
        "remark": "; ".join(remark for remark, holds in remarks.items() if holds),
    }
    return ((name, text) for name, text in lines.items() if text)
