"""What the first screen of a page says: who judged, each metric with interval and distribution, gates, differences.

The words and numbers are those of the terminal's tables; here they are only put in order for the template.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localjudge.analysis.check import Check
from localjudge.analysis.comparison import RunComparison
from localjudge.analysis.corrected_means import CorrectedMeans
from localjudge.engine.hardware import readable
from localjudge.record.results import Run
from localjudge.report.comparison_view import change_remarks, count_cells, reason_of, score_cells, shared_samples
from localjudge.report.corrected_view import corrected_view
from localjudge.report.table import calibration_lines, decidedness_line, metric_remarks
from localjudge.report.terminal import number
from localjudge.types import JudgeCard

BINS = 10
"""Of a distribution: scores from 0 to 0.1, ..., from 0.9 to 1."""


def overview(run: Run, checked: Check, corrected: CorrectedMeans | None = None) -> dict[str, Any]:
    """The values of the template that stand for the run, its gates, its comparison and its corrected means."""
    return {
        "data": ", ".join(Path(source).name for source in run.manifest.environment.get("sources", ())),
        "samples": run.summary.samples,
        "judge": run.judge,
        "mind": "; ".join(_to_mind(run.judge)),
        "facts": list(_facts(run)),
        "metrics": _metrics(run),
        "gates": [(decision.outcome, decision.gate, reason_of(decision)) for decision in checked.decisions],
        "comparison": checked.comparison and _comparison(checked.comparison),
        "corrected": corrected and _corrected(corrected),
    }


def _to_mind(judge: JudgeCard) -> Iterator[str]:
    """What must stand beside every number of the judge."""
    if judge.caution:
        yield judge.caution
    if judge.examined:
        yield judge.examined


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    judge, summary = run.judge, run.summary
    model = [readable(judge.size)] if judge.size is not None else []
    model += [judge.quantisation] if judge.quantisation else []
    if model:
        yield "Model", ", ".join(model)
    if judge.sha256:
        yield "sha256", judge.sha256
    others = ", of the metrics without a calibration" if summary.thresholds else ""
    yield "Threshold", f"{summary.threshold:g}: a verdict is 1 from this probability on{others}"
    for line in calibration_lines(run):
        yield "Calibration", line
    yield "Verdicts", decidedness_line(summary.verdicts)
    if summary.skipped_rows:
        yield "Left out", f"{summary.skipped_rows:,} rows of the data could not be used"
    yield "Signature", summary.signature


def _metrics(run: Run) -> list[dict[str, Any]]:
    """`mean` and `interval` are None where too many failed or nothing was scored."""
    distributions = {name: [0] * BINS for name in run.summary.metrics}
    reasons: dict[str, Counter[str]] = {name: Counter() for name in run.summary.metrics}
    for row in run.iter_scores():
        if row.metric not in distributions:
            continue
        if row.score is not None:
            distributions[row.metric][min(int(row.score * BINS), BINS - 1)] += 1
        elif row.status == "failed":
            reasons[row.metric][row.detail or ""] += 1
    withheld = run.summary.failed_beyond(run.max_failed)
    return [
        {
            "name": name,
            "mean": None if name in withheld else metric.mean,
            "interval": None if name in withheld else metric.ci95,
            "counts": metric,
            "distribution": distributions[name],
            "failure": _most_common(reasons[name]),
            "remarks": list(metric_remarks(metric, withheld=name in withheld)),
        }
        for name, metric in run.summary.metrics.items()
    ]


def _most_common(reasons: Counter[str]) -> str | None:
    """Why samples failed, as most of them say it; None if none did."""
    for reason, count in reasons.most_common(1):
        return f"why: {reason}" if len(reasons) == 1 else f"why, most often ({count:,}): {reason}"
    return None


def _comparison(comparison: RunComparison) -> dict[str, Any]:
    changes: list[dict[str, Any]] = [
        {
            "name": name,
            "scores": score_cells(change.scores),
            "counts": count_cells(name, change),
            "difference": change.scores and change.scores.difference,
            "interval": change.scores and change.scores.ci95,
            "remarks": list(change_remarks(name, change)),
        }
        for name, change in comparison.metrics.items()
    ]
    ends = [abs(end) for change in changes for end in change["interval"] or ()]
    return {
        "changes": changes,
        "widest": max([*ends, 0.05]),
        "notes": [shared_samples(comparison.samples), *(f"warning: {warning}" for warning in comparison.warnings)],
        "baseline": f"judge {comparison.baseline_judge}, signature {comparison.baseline_signature}",
        "run": f"judge {comparison.judge}, signature {comparison.signature}",
    }


def _corrected(means: CorrectedMeans) -> dict[str, Any]:
    view = corrected_view(means)
    return {"rows": view.rows, "warnings": means.warnings, "notes": view.notes[len(means.warnings) :]}


def distribution_in_words(distribution: list[int]) -> str:
    """For who does not see the drawing: `0 to 0.1: 5, 0.9 to 1: 12 samples`."""
    parts = [f"{at / BINS:g} to {(at + 1) / BINS:g}: {count:,}" for at, count in enumerate(distribution) if count]
    return f"{', '.join(parts)} samples" if parts else "no score"


def interval_in_words(mean: float, interval: tuple[float, float]) -> str:
    """`mean 0.417, 95 % interval 0.063 to 0.913`."""
    return f"mean {number(mean)}, 95 % interval {' to '.join(map(number, interval))}"
