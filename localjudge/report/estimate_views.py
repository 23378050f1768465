"""What each metric asks, needs and costs, and the estimate of a run: tokens, time and memory."""

from collections.abc import Sequence

from rich.text import Text

from localjudge.judging.estimate import Estimate, Needed
from localjudge.metrics.catalog import MetricDescription
from localjudge.report.terminal import Table
from localjudge.run_directory.directory import excerpt
from localjudge.types import readable
from localjudge.words import numbered, roughly

_LEGEND = (
    "* computed by default; of several metrics for one question, the first with all its columns in "
    "the data.",
    "verdicts: the parts of each sample that get a verdict.",
)


def estimate_view(estimate: Estimate) -> Table:
    """Return the estimate, with what is stored already and the samples that gates need."""
    rows = [
        ("samples", f"{estimate.samples:,}"),
        ("metrics", ", ".join(estimate.metrics)),
        ("verdicts", f"{estimate.verdicts:,}, with {estimate.requests:,} distinct questions"),
    ]
    answered = _describe_answered(estimate)
    if answered:
        rows.append(("answered", answered))
    rows.append(("tokens", f"{estimate.tokens:,} distinct, each evaluated once"))
    rows.append(("time", _describe_time(estimate)))
    memory = f"about {readable(estimate.memory_bytes)}"
    if estimate.workers:
        rows.append(("on", estimate.workers))
        memory += " here, and as much for each worker"
    rows.append(("memory", memory))
    for aim in estimate.until:
        rows.append(("to judge", f"{_describe_aim(aim, estimate)} ({aim.aim})"))
    return Table(rows=rows)


def _describe_answered(estimate: Estimate) -> str:
    """Return how many questions have an answer, stored before or by this estimate, and where."""
    parts: list[str] = []
    places: list[str] = []
    for name, count in estimate.reused.items():
        if count:
            places.append(f"{count:,} in {excerpt(name)}")
    if places:
        parts.append(f"{estimate.requests - estimate.remaining:,} before ({', '.join(places)})")
    if estimate.measured:
        place = excerpt(estimate.directory)
        parts.append(f"{estimate.measured:,} now, kept in {place}, which the run uses")
    if not parts:
        return ""
    return f"{' and '.join(parts)}; {estimate.remaining - estimate.measured:,} remain"


def _describe_time(estimate: Estimate) -> str:
    """Return the time, and what it was measured on."""
    time = "none: no question remains"
    if estimate.seconds is not None:
        time = roughly(estimate.seconds, estimate.seconds_ci95)
    if not estimate.measured:
        return time
    time += f": measured on {estimate.measured:,} of {estimate.remaining:,} questions"
    if not estimate.seconds_ci95:
        time += ", too few for an interval"
    return time


def _describe_aim(aim: Needed, estimate: Estimate) -> str:
    """Return the samples and the time until a gate is decided."""
    needs = "unknown"
    if aim.samples is not None:
        needs = f"about {numbered(aim.samples, 'sample')}"
    if aim.samples is not None and aim.samples > estimate.samples:
        return f"{needs}, more than the {estimate.samples:,} of the run"
    if aim.seconds:
        return f"{needs}, {roughly(aim.seconds)}"
    return needs


def metric_list(metrics: Sequence[MetricDescription]) -> list[Table]:
    """Return what each metric asks, needs and costs."""
    tables: list[Table] = []
    for metric in metrics:
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
        mark = "*" if metric.default_metrics else " "
        tables.append(Table(rows=rows, titles=[f"{mark} {metric.name}"], indent=4))
    return [*tables, Table(notes=_LEGEND)]
