"""The means of a run beside what labels make of them.

metric                   mean  95 % interval  labels
context_recall          0.708  0.669 - 0.745       -
  corrected             0.641  0.580 - 0.702     100
"""

from collections.abc import Iterator

from localjudge.analysis.corrected_means import CorrectedMeans, CorrectedMetric
from localjudge.report.table import interval_cells
from localjudge.report.table_layout import Table


def corrected_view(found: CorrectedMeans, *, metric: str | None = None) -> Table:
    """Table and remarks, of all labelled metrics or of one."""
    rows = [row for name, one in found.metrics.items() if metric in (None, name) for row in corrected_rows(name, one)]
    notes = [*found.warnings, *corrected_remarks(found, metric), f"labels {found.labels}"]
    return Table(("metric", "mean", "95 % interval", "labels"), rows, notes)


def corrected_rows(name: str, one: CorrectedMetric) -> Iterator[tuple[str, str, str, str]]:
    """The judge's mean and the corrected one: what it is called, mean, interval, labels."""
    yield name, *interval_cells(one.judged), "-"
    yield "  corrected", *interval_cells(one.corrected), f"{one.labelled:,}"


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
