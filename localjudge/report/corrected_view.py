"""The means of a run beside what labels make of them.

metric                   mean  95 % interval  labels
context_recall          0.708  0.669 - 0.745       -
  corrected             0.641  0.580 - 0.702     100
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.analysis.corrected_means import CorrectedMean, CorrectedMeans, CorrectedMetric
from localjudge.report.table_layout import NumberTable
from localjudge.report.terminal import number, safe_text

_NOTHING = "-"


def corrected_view(found: CorrectedMeans, *, metric: str | None = None) -> RenderableType:
    """Table and remarks, of all labelled metrics or of one."""
    table = NumberTable("mean", "95 % interval", "labels")
    for name, one in found.metrics.items():
        if metric in (None, name):
            for row, mean, interval, labels in corrected_rows(name, one):
                table.add(row, mean, interval, labels)
    lines = [*found.warnings, *corrected_remarks(found, metric), f"labels {found.labels}"]
    return Group(table, Text(), *(Padding(safe_text(line), (0, 1), expand=False) for line in lines))


def corrected_rows(name: str, one: CorrectedMetric) -> Iterator[tuple[str, str, str, str]]:
    """The judge's mean and the corrected one: what it is called, mean, interval, labels."""
    yield name, *_cells(one.judged), _NOTHING
    yield "  corrected", *_cells(one.corrected), f"{one.labelled:,}"


def corrected_remarks(found: CorrectedMeans, metric: str | None = None) -> Iterator[str]:
    """What has to be said beside the numbers, a line each."""
    for name, one in found.metrics.items():
        if metric not in (None, name):
            continue
        yield f"{name}: {one.labelled:,} of {one.verdicts:,} verdicts labelled, of {one.clusters:,} samples or groups"
        judged, interval = one.judged.mean, one.corrected.ci95
        if judged is not None and interval is not None and not interval[0] <= judged <= interval[1]:
            yield f"{name}: the judge's mean is too {'high' if judged > interval[1] else 'low'}, by these labels"
        if one.corrected.remark:
            yield f"{name}: {one.corrected.remark}"


def _cells(mean: CorrectedMean) -> tuple[str, str]:
    interval = " - ".join(map(number, mean.ci95)) if mean.ci95 else _NOTHING
    return _NOTHING if mean.mean is None else number(mean.mean), interval
