"""Each metric by the values of a column, as a table.

metric          department  samples   mean  95 % interval  undefined  failed
context_recall  cardiology       41  0.712  0.601 - 0.805          0       0
                oncology         12  0.430  0.218 - 0.661          0       0
                (none)            3      -              -          3       0
"""

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from localjudge.analysis.slices import Slices
from localjudge.record.results import Run
from localjudge.record.untrusted import shown
from localjudge.report.terminal import number, safe_text

EACH_ALONE = "each interval is that of its slice alone: of 20 slices, one is expected to miss"
_NOTHING = "-"


def slices_view(run: Run, found: Slices, *, metric: str | None = None, max_failed: int = 0) -> RenderableType:
    """All metrics, or one. More than `max_failed` failed samples in a slice leave it without a mean."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("metric")
    table.add_column(safe_text(shown(found.column)), overflow="fold")
    for heading in ("samples", "mean", "95 % interval", "undefined", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in [metric] if metric else run.summary.metrics:
        for place, one in enumerate(found.slices):
            metric_of = one.metrics[name]
            told = metric_of.failed <= max_failed
            cells = (
                "" if place else name,
                value_in_words(one.value),
                f"{one.samples:,}",
                number(metric_of.mean) if told and metric_of.mean is not None else _NOTHING,
                " - ".join(map(number, metric_of.ci95)) if told and metric_of.ci95 else _NOTHING,
                f"{metric_of.undefined:,}",
                f"{metric_of.failed:,}",
            )
            table.add_row(*map(safe_text, cells))
    lines = []
    if len(found.slices) > 1:
        lines.append(EACH_ALONE)
    lines += [f"judge {run.judge}", f"signature {run.summary.signature}", f"run {run.directory}"]
    return Group(table, *(Padding(safe_text(line), (0, 1), expand=False) for line in lines))


def value_in_words(value: str | None) -> str:
    """The value of a slice; `(none)` for that of the samples that have none."""
    return "(none)" if value is None else shown(value)
