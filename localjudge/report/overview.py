"""Template values for the page of a run, except for its samples.

finding    In an average answer, about 69 % of the sentences are supported by the documents
           (59 to 78).
metrics    corrected mean if there are enough labels, then judge only and labels only
gates      in words, and as marks on the scale of their metric
facts      judge, labels and verification for an auditor
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from localjudge.analysis.breakdowns import pooled_shares
from localjudge.analysis.check import Check, Undecided
from localjudge.analysis.comparison import Obstacle, RunComparison
from localjudge.analysis.gates import Gate, GateDecision, parse_gate
from localjudge.labels.label_source import how_to_label
from localjudge.labels.run_labels import disputed_statements
from localjudge.metrics import catalog
from localjudge.report.comparison_views import (
    BY_JUDGE,
    are_judged,
    change_remarks,
    comparison_notes,
    count_cells,
    explain_decision,
    other_scores,
    quoted_cells,
)
from localjudge.report.conclusions import claims
from localjudge.report.quoted_metrics import (
    QuotedMetric,
    pooled_for_page,
    pooled_sentence,
    quote_metrics,
    select_findings,
)
from localjudge.report.remarks import (
    calibration_lines,
    context_remarks,
    decidedness_line,
    has_expected,
    metric_remarks,
    reading_lines,
    reason_lines,
)
from localjudge.run_directory.files import LastVerification
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.types import Record, readable
from localjudge.words import numbered

_BINS = 10
"""Bins of a distribution: scores from 0 to 0.1, ..., from 0.9 to 1."""
_MIDDLE = 0.5
_MIN_SCALE = 0.05
"""End of the scale of differences if all intervals are narrower."""
_RUNS = ("the baseline", "this run")
_OUTCOMES = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_UNEQUAL = {">=": "not lower", ">": "higher", "<=": "not higher", "<": "lower"}
_DISTANCES = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_MIRRORED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
"""A difference of at least -0.02 is at most 0.02 lower."""

Values = dict[str, Any]


class ReportInputs(Record):
    """Inputs of a report besides the run, sufficient to write it again.

    `baseline` is relative to the run directory, `labels` are the checksums of all label files.
    `examined` is doctor's line on the judge. Commands on the page call the run, or both, by the
    `name` that the directory had.
    """

    writer: str
    title: str | None
    gates: tuple[str, ...]
    undecided: Undecided
    baseline: str | None
    labels: tuple[str, ...]
    verification: LastVerification | None
    examined: str | None
    by: str | None = None
    allow_different: tuple[Obstacle, ...] = ()
    name: str = "RUN"


def overview(run: RunRecord, checked: Check, inputs: ReportInputs) -> Values:
    """Return the values of the page."""
    judge = run.summary.judge.model_copy(update={"examined": inputs.examined})
    gates: list[Gate] = []
    gate_rows: list[tuple[GateDecision, str, str, str]] = []
    for decision in checked.decisions:
        gate = parse_gate(decision.gate)
        gates.append(gate)
        outcome = _OUTCOMES[decision.outcome]
        gate_rows.append((decision, outcome, describe_gate(gate), explain_decision(decision)))
    aims = map(parse_gate, run.manifest.environment.settings.until)
    metrics = quote_metrics(run, checked.labels)
    verification = inputs.verification
    cautions = [judge.caution, judge.examined]
    comparison = checked.comparison
    if comparison and comparison.is_corrected:
        cautions = []  # labels, which they advise, are behind every difference
    said: list[str] = []
    if comparison and comparison.directory:
        said = list(claims(comparison, run.answer_column, with_command=False))
    return {
        **_describe_data(run, inputs),
        "judge": judge,
        "caution": "; ".join(filter(None, cautions)),
        "claims": said,
        "finding": select_findings(metrics),
        "metrics": list_metrics(run, metrics, list(dict.fromkeys([*gates, *aims]))),
        "with_expected": checked.labels is None and has_expected(run.summary.metrics),
        "gates": gate_rows,
        "comparison": comparison and _comparison(comparison, run),
        "labels": checked.labels,
        "disputes": disputed_statements(run, run.summary.metrics),
        "verification": verification,
        "is_verified": verification is not None and verification.is_about(run.directory),
        "facts": [(name, fact) for name, fact in _facts(run, comparison) if fact],
    }


def _describe_data(run: RunRecord, inputs: ReportInputs) -> Values:
    """Return what was judged, and why samples are missing."""
    environment = run.manifest.environment
    metrics = run.summary.metrics
    sources = [Path(source).name for source in environment.sources]
    day = ""
    if environment.sessions:
        day = environment.sessions[0].started[:10]
    ended = run.summary.stopped or ""
    if run.part:
        ended = ended.partition(": ")[2]  # the counts are in `samples`
    instead_of_labels = ""
    if run.sampling.optional_stopping:
        instead_of_labels = how_to_label(run)
    return {
        "title": inputs.title or ", ".join(sources),
        "run_name": inputs.name,
        "day": day,
        "samples": _samples(run),
        "ended": ended,
        "how_to_label": instead_of_labels,
        "skipped": run.summary.skipped_rows,
        "about_contexts": list(context_remarks(run, metrics)),
        "reasons": reason_lines(run, metrics, name=inputs.name),
    }


def _samples(run: RunRecord) -> str:
    """Return the judged samples in words."""
    part = run.part
    if part is None:
        return numbered(run.summary.samples, "sample")
    if run.summary.stopped is None:
        return str(part)
    counts = f"{part.samples:,} of {part.whole:,} samples"
    return f"{counts}, in random order (seed {part.seed})"


def list_metrics(
    run: RunRecord, metrics: Sequence[QuotedMetric], gates: Sequence[Gate] = ()
) -> list[Values]:
    """Return the metrics with what the table of means shows of them."""
    distributions = _distributions(run)
    shares = pooled_shares(run)
    shown: list[Values] = []
    for metric in metrics:
        name = metric.name
        pooled = pooled_sentence(run, metric, shares.get(name), pooled_for_page)
        remarks = metric_remarks(metric.summary, withheld=metric.is_withheld)
        expected = None
        if metric.quoted.mean is not None:
            expected = metric.summary.expected
        shown.append(
            {
                "quote": metric,
                "meaning": _meaning(name, run),
                "pooled": pooled,
                "rows": list(_mean_rows(metric)),
                "expected": expected,
                "distribution": distributions[name],
                "marks": list(_marks(name, gates)),
                "remarks": list(remarks),
            }
        )
    return shown


def _distributions(run: RunRecord) -> dict[str, list[int]]:
    """Return the number of scores in each bin, by metric."""
    distributions: dict[str, list[int]] = {}
    for name in run.summary.metrics:
        distributions[name] = [0] * _BINS
    for score in run.iter_scores():
        if score.metric in distributions and score.score is not None:
            bin_number = min(int(score.score * _BINS), _BINS - 1)
            distributions[score.metric][bin_number] += 1
    return distributions


def _marks(metric: str, gates: Sequence[Gate]) -> Iterator[tuple[float, str]]:
    """Yield the gates on the mean of a metric as marks on its scale.

    The order keeps the words of a mark free of other marks.
    """
    for gate in sorted(gates, key=lambda gate: -abs(gate.threshold - _MIDDLE)):
        if gate.metric == metric and not gate.delta and gate.column is None:
            yield gate.threshold, _bound(gate)


def _mean_rows(metric: QuotedMetric) -> Iterator[Values]:
    """Yield the quoted mean, then other means if labels correct it or are too few."""
    corrected = metric.corrected
    quoted = metric.quoted
    yield {"name": metric.name, "mean": quoted.mean, "interval": quoted.ci95}
    for other in metric.other_means():
        name = f"{other.by} only"
        note = ""
        if other.by == "annotator":
            if metric.basis == "too few labels":
                continue  # the labels of one annotator are too few as well
            name = f"by {other.annotator}"
        elif other.by == "judge" and metric.labels and corrected and corrected.labels_saved:
            note = f"saves about {numbered(corrected.labels_saved, 'label')}"
        yield {"name": name, "mean": other.mean.mean, "interval": other.mean.ci95, "note": note}


def _meaning(name: str, run: RunRecord) -> str:
    """Return the question that a metric answers, or a criterion's."""
    words = catalog.about(name).headline
    if not words:
        criterion = run.manifest.criteria.get(name)
        if criterion is None:
            return ""
        return criterion.question
    question = words.format("how many")
    question = f"{question[0].upper()}{question[1:]}?"
    if catalog.lower_is_better(name):
        question += " Lower is better."
    return question


def _bound(gate: Gate) -> str:
    return f"{_BOUNDS[gate.comparison]} {gate.threshold:g}"


def describe_gate(gate: Gate) -> str:
    """Return the gate as a clause.

    For example, `context recall is at least 0.8`, or `context recall is at most 0.02 lower than in
    the baseline`.
    """
    name = gate.metric
    if catalog.is_ours(name):
        name = name.replace("_", " ")
    if gate.column is not None:
        name += f" ({gate.column} {gate.value})"
    if not gate.delta:
        return f"{name} is {_bound(gate)}"
    if not gate.threshold:
        return f"{name} is {_UNEQUAL[gate.comparison]} than in the baseline"
    comparison: str = gate.comparison
    direction = "higher"
    if gate.threshold < 0:
        comparison = _MIRRORED[gate.comparison]
        direction = "lower"
    bound = f"{_DISTANCES[comparison]} {abs(gate.threshold):g}"
    return f"{name} is {bound} {direction} than in the baseline"


def _comparison(comparison: RunComparison, run: RunRecord) -> Values:
    """Return the changes of each metric, the end of the widest interval, and notes."""
    changes: list[Values] = []
    ends = [_MIN_SCALE]
    is_judged = are_judged(comparison)
    runs = _RUNS
    if comparison.directory:
        runs = (as_run(comparison.baseline).answer_column, run.answer_column)
    for name, change in comparison.metrics.items():
        quoted = change.quoted
        interval = quoted.ci95
        if change.is_equal:
            interval = None
        ends += map(abs, interval or ())
        remarks = list(change_remarks(comparison, name, runs))
        if catalog.is_judged(name) and not is_judged:
            remarks.append(f"better, worse and same samples are counted {BY_JUDGE}")
        changes.append(
            {
                "name": name,
                "scores": quoted_cells(change),
                "counts": count_cells(name, change)[:4],
                "difference": quoted.mean,
                "interval": interval,
                "remarks": remarks,
                "other": other_scores(change),
            }
        )
    counted = ["Better", "Worse", "Same"]
    if is_judged:
        counted = [f"{heading} {BY_JUDGE}" for heading in counted]
    notes = list(comparison_notes(comparison, runs))
    if runs == _RUNS:
        runs = ("Baseline", "This run")
    return {
        "changes": changes,
        "runs": runs,
        "widest": max(ends),
        "notes": notes,
        "counted": counted,
    }


def _facts(run: RunRecord, comparison: RunComparison | None) -> Iterator[tuple[str, str | None]]:
    """Yield what an auditor asks for, None or "" where there is nothing to state."""
    judge = run.judge
    summary = run.summary
    size = ""
    if judge.size is not None:
        size = readable(judge.size)
    yield "Model", ", ".join(filter(None, (size, judge.quantisation)))
    yield "sha256", judge.sha256
    threshold = f"{summary.threshold:g}: a verdict is 1 at this probability or above"
    if summary.thresholds:
        threshold += ", except for metrics with a calibration"
    yield "Threshold", threshold
    for line in calibration_lines(run, summary.metrics):
        yield "Calibration", line
    for line in reading_lines(run):
        yield "Read by", line
    yield "Verdicts", decidedness_line(summary.verdicts)
    yield "Origin", "; ".join(map(str, run.origins))
    yield "Signature", summary.signature
    if comparison is None:
        return
    baseline = f"judge {comparison.baseline_judge}, signature {comparison.baseline_signature}"
    yield "Baseline", baseline
    for name, change in comparison.metrics.items():
        if change.verdicts:
            moved = f"{change.verdicts.up:,} from 0 to 1, {change.verdicts.down:,} from 1 to 0"
            yield "Verdicts changed", f"{name}: {moved}"
