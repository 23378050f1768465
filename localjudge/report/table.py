"""The summary of a run as a table, with its signature under it.

     metric           mean  95 % interval  scored  undefined  failed
     context_recall  0.583  0.090 - 0.960       2          0       0

     context_recall: between 'some key information is missing' and 'contains all required information'
     judge reference (lexical, not for decisions), sha256 4844085b4a92
     7 verdicts: 29 % within 0.1 of the threshold; median legal mass 1.000
     signature judge:3f9a1c2e|data:77b0d4aa

A mean stands there only if no more samples failed than are allowed; what failures could have made of it is said below.
"""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from localjudge.record.results import Run
from localjudge.record.summary import NEAR, MetricSummary, VerdictSummary
from localjudge.report.bands import meaning
from localjudge.report.terminal import number, safe_text

_NOTHING = "-"


def summary_view(run: Run, *, max_failed: int = 0) -> RenderableType:
    """Table, remarks and signature of a run. More than `max_failed` failed samples leave a metric without a mean."""
    withheld = run.summary.failed_beyond(max_failed)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("metric")
    for heading in ("mean", "95 % interval", "scored", "undefined", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, metric in run.summary.metrics.items():
        table.add_row(*_row(name, metric, withheld=name in withheld))
    lines = [line for name, metric in run.summary.metrics.items() for line in _remarks(name, metric, name in withheld)]
    if run.summary.skipped_rows:
        lines.append(f"{run.summary.skipped_rows:,} rows of the data could not be used and were left out")
    if run.so_far:
        planned = run.manifest.data["rows"]
        lines.append(
            f"not finished: the first {run.summary.samples:,} of {planned:,} samples, in the order of the data"
        )
    if run.part:
        lines.append(f"a part of the data: {run.part}")
    lines.append(f"judge {run.judge}")
    if run.summary.verdicts:
        lines.append(decidedness_line(run.summary.verdicts))
    lines.append(f"signature {run.summary.signature}")
    lines.append(f"run {run.directory}")
    return Group(table, *(Padding(safe_text(line), (0, 1), expand=False) for line in lines))


def decidedness_line(verdicts: VerdictSummary) -> str:
    """How decided the judge was, on one line."""
    if verdicts.near_threshold is None:
        return "no verdict has a probability"
    count = "1 verdict" if verdicts.count == 1 else f"{verdicts.count:,} verdicts"
    mass = "unknown" if verdicts.median_legal_mass is None else number(verdicts.median_legal_mass)
    windows = f"; {verdicts.windowed:,} on windows of contexts that do not fit --n-ctx" if verdicts.windowed else ""
    near = f"{100 * verdicts.near_threshold:.0f} % within {NEAR:g} of the threshold"
    return f"{count}: {near}; median legal mass {mass}{windows}"


def _row(name: str, metric: MetricSummary, *, withheld: bool) -> Iterator[Text]:
    shown = metric.mean is not None and metric.ci95 is not None and not withheld
    yield safe_text(name)
    yield safe_text(number(metric.mean) if shown and metric.mean is not None else _NOTHING)
    yield safe_text(" - ".join(map(number, metric.ci95)) if shown and metric.ci95 else _NOTHING)
    yield from (safe_text(f"{count:,}") for count in (metric.scored, metric.undefined, metric.failed))


def _remarks(name: str, metric: MetricSummary, withheld: bool) -> Iterator[str]:
    if metric.interval is not None and metric.interval.one_cluster:
        yield (
            f"{name}: all samples are in one group, and no interval can be told from one: name a column with several "
            "with --cluster-by, or leave it out"
        )
    if metric.failed and metric.bounds:
        low, high = map(number, metric.bounds)
        no_mean = ", more than allowed (--max-failed): no mean" if withheld else ""
        yield f"{name}: {metric.failed:,} failed{no_mean}; it is from {low} to {high} whatever they are worth"
    if not withheld and metric.ci95 is not None and (words := meaning(name, metric.ci95)):
        yield f"{name}: {words}"
