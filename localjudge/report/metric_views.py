"""What each metric asks, needs and costs."""

from collections.abc import Sequence

from rich.text import Text

from localjudge.metrics.catalog import MetricDescription
from localjudge.report.terminal import Table

_LEGEND = (
    "* computed by default; of several metrics for one question, the first with all its columns in "
    "the data.",
    "verdicts: the parts of each sample that get a verdict.",
)


def metric_list(metrics: Sequence[MetricDescription]) -> list[Table]:
    """Return what each metric asks, needs and costs."""
    return [*map(_metric_table, metrics), Table(notes=_LEGEND)]


def _metric_table(metric: MetricDescription) -> Table:
    remarks: list[str] = []
    if metric.instructions:
        remarks.append("needs a judge that follows instructions")
    if metric.lower_is_better:
        remarks.append("lower is better")
    options: list[str] = []
    for name, values in metric.options.items():
        options.append(f"{name}={'|'.join(values) or 'TEXT'}")
    lines = {
        "asks": metric.about.question,
        "needs": ", ".join(metric.fields),
        "options": ", ".join(options),
        "verdicts": metric.about.unit,
        "source": metric.about.source,
        "remark": "; ".join(remarks),
    }
    rows = [(Text(name, style="dim"), text) for name, text in lines.items() if text]
    mark = " "
    if metric.default_metrics:
        mark = "*"
    return Table(rows=rows, titles=[f"{mark} {metric.name}"], indent=4)
