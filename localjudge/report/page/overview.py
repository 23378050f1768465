"""What the first screen of a page says: who judged, each metric with interval and distribution, gates, differences.

The words and numbers are those of the terminal's tables; here they are only put in order for the template.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.analysis.check import Check
from localjudge.analysis.comparison import RunComparison
from localjudge.analysis.corrected_means import CorrectedMeans
from localjudge.engine.hardware import readable
from localjudge.record.result_rows import ScoreRow
from localjudge.record.results import Run
from localjudge.record.summary import MetricSummary
from localjudge.report.comparison_view import change_remarks, count_cells, shared_samples
from localjudge.report.corrected_view import corrected_remarks, corrected_rows
from localjudge.report.gates_view import reason_of
from localjudge.report.score_cells import score_cells
from localjudge.report.table import calibration_lines, decidedness_line, metric_remarks
from localjudge.report.terminal import number
from localjudge.types import JudgeCard

BINS = 10
"""Of a distribution: scores from 0 to 0.1, ..., from 0.9 to 1."""
_REASONS_HELD = 1_000


class MetricOverview(NamedTuple):
    """One metric: `mean` and `interval` are None where too many failed or nothing was scored."""

    name: str
    mean: float | None
    interval: tuple[float, float] | None
    counts: MetricSummary
    distribution: list[int]
    failure: str | None
    remarks: list[str]


class ChangeOverview(NamedTuple):
    """One metric in both runs, in the cells of the terminal's tables; `interval` is that of the difference."""

    name: str
    scores: tuple[str, ...]
    counts: tuple[str, ...]
    difference: float | None
    interval: tuple[float, float] | None
    remarks: list[str]


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
    if summary.verdicts:
        yield "Verdicts", decidedness_line(summary.verdicts)
    if summary.skipped_rows:
        yield "Left out", f"{summary.skipped_rows:,} rows of the data could not be used"
    yield "Signature", summary.signature


def _metrics(run: Run) -> list[MetricOverview]:
    scores = _scores_of_each(run)
    withheld = run.summary.failed_beyond(run.max_failed)
    return [
        MetricOverview(
            name=name,
            mean=None if name in withheld else metric.mean,
            interval=None if name in withheld else metric.ci95,
            counts=metric,
            distribution=scores[name].distribution,
            failure=scores[name].failure,
            remarks=list(metric_remarks(name, metric, withheld=name in withheld)),
        )
        for name, metric in run.summary.metrics.items()
    ]


class _Scores:
    """Scores of one metric: how many lie in each bin, 1 in the last, and why the others failed."""

    def __init__(self) -> None:
        self.distribution = [0] * BINS
        self._reasons: Counter[str] = Counter()

    def add(self, row: ScoreRow) -> None:
        if row.score is not None:
            self.distribution[min(int(row.score * BINS), BINS - 1)] += 1
        elif row.status == "failed" and (row.detail in self._reasons or len(self._reasons) < _REASONS_HELD):
            self._reasons[row.detail or ""] += 1

    @property
    def failure(self) -> str | None:
        """Why samples failed, as most of them say it; None if none did."""
        for reason, count in self._reasons.most_common(1):
            return f"why: {reason}" if len(self._reasons) == 1 else f"why, most often ({count:,}): {reason}"
        return None


def _scores_of_each(run: Run) -> dict[str, _Scores]:
    found = {name: _Scores() for name in run.summary.metrics}
    for row in run.iter_scores():
        if row.metric in found:
            found[row.metric].add(row)
    return found


def _comparison(comparison: RunComparison) -> dict[str, Any]:
    changes = [
        ChangeOverview(
            name=name,
            scores=score_cells(change.scores),
            counts=count_cells(name, change),
            difference=change.scores.difference if change.scores else None,
            interval=change.scores.ci95 if change.scores else None,
            remarks=list(change_remarks(name, change)),
        )
        for name, change in comparison.metrics.items()
    ]
    ends = [abs(end) for change in changes for end in change.interval or ()]
    return {
        "changes": changes,
        "widest": max([*ends, 0.05]),
        "notes": [shared_samples(comparison.samples), *(f"warning: {warning}" for warning in comparison.warnings)],
        "baseline": f"judge {comparison.baseline_judge}, signature {comparison.baseline_signature}",
        "run": f"judge {comparison.judge}, signature {comparison.signature}",
    }


def _corrected(found: CorrectedMeans) -> dict[str, Any]:
    rows = [row for name, one in found.metrics.items() for row in corrected_rows(name, one)]
    return {"rows": rows, "warnings": found.warnings, "notes": [*corrected_remarks(found), f"labels {found.labels}"]}


def distribution_in_words(distribution: list[int]) -> str:
    """For who does not see the drawing: `0 to 0.1: 5, 0.9 to 1: 12 samples`."""
    parts = [f"{at / BINS:g} to {(at + 1) / BINS:g}: {count:,}" for at, count in enumerate(distribution) if count]
    return f"{', '.join(parts)} samples" if parts else "no score"


def interval_in_words(mean: float, interval: tuple[float, float]) -> str:
    """`mean 0.417, 95 % interval 0.063 to 0.913`."""
    return f"mean {number(mean)}, 95 % interval {' to '.join(map(number, interval))}"
