"""The means of a run beside what labels make of them.

metric                   mean  95 % interval  labels
context_recall          0.708  0.669 - 0.745       -
  prediction-powered    0.641  0.580 - 0.702     100
  Rogan-Gladen          0.633  0.561 - 0.709     100

context_recall: the judge says 1 of 97 % of what is 1, and 0 of 71 % of what is 0
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
    """The judge's mean and both corrections: what it is called, mean, interval, labels."""
    yield name, *_cells(one.judged), _NOTHING
    yield "  prediction-powered", *_cells(one.prediction_powered), f"{one.labelled:,}"
    yield "  Rogan-Gladen", *_cells(one.rogan_gladen), f"{one.labelled:,}"


def corrected_remarks(found: CorrectedMeans, metric: str | None = None) -> Iterator[str]:
    """What has to be said beside the numbers, a line each."""
    for name, one in found.metrics.items():
        if metric not in (None, name):
            continue
        yield f"{name}: {one.labelled:,} of {one.verdicts:,} verdicts labelled, of {one.clusters:,} samples or groups"
        if one.sensitivity is not None and one.specificity is not None:
            yield (
                f"{name}: the judge says 1 of {100 * one.sensitivity:.0f} % of what is 1, and 0 of "
                f"{100 * one.specificity:.0f} % of what is 0"
            )
        judged, interval = one.judged.mean, one.prediction_powered.ci95
        if judged is not None and interval is not None and not interval[0] <= judged <= interval[1]:
            yield f"{name}: the judge's mean is too {'high' if judged > interval[1] else 'low'}, by these labels"
        remarks = {one.prediction_powered.remark: "", one.rogan_gladen.remark: "Rogan-Gladen: "}
        remarks |= {one.prediction_powered.remark: ""}
        yield from (f"{name}: {of}{remark}" for remark, of in remarks.items() if remark)


def _cells(mean: CorrectedMean) -> tuple[str, str]:
    interval = " - ".join(map(number, mean.ci95)) if mean.ci95 else _NOTHING
    return _NOTHING if mean.mean is None else number(mean.mean), interval
