"""Template values for the page of a run, except for its samples.

finding    In an average answer, about 69 % of the sentences are supported by the documents (59 to 78).
metrics    corrected mean if there are enough labels, then judge only and labels only
gates      in words, and as marks on the scale of their metric
facts      judge, labels and verification for an auditor
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.analysis.check import Check, Gate, parse_gate
from localjudge.analysis.compare import RunComparison
from localjudge.analysis.headline import Headline, headline_of
from localjudge.analysis.pooled import pooled_shares
from localjudge.engine.hardware import readable
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.labelled_statements import disputed_statements
from localjudge.labels.run_labels import RunLabels, how_to_label
from localjudge.metrics import catalog
from localjudge.metrics.metric import get_about
from localjudge.report.comparison_views import (
    change_remarks,
    comparison_notes,
    count_cells,
    score_cells,
)
from localjudge.report.gate_views import explain_decision
from localjudge.report.remarks import (
    calibration_lines,
    decidedness_line,
    metric_remarks,
    reason_lines,
)
from localjudge.report.sentences import pooled_for_page, pooled_sentence, state_headline
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.verification import LastVerification
from localjudge.words import numbered

_BINS = 10
"""Bins of a distribution: scores from 0 to 0.1, ..., from 0.9 to 1."""
_MOST_SENTENCES = 3
_RUNS = ("the baseline", "this run")
_OUTCOMES = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_UNEQUAL = {">=": "not lower", ">": "higher", "<=": "not higher", "<": "lower"}

Values = dict[str, Any]


class MeanRow(NamedTuple):
    """A row in the table of means."""

    name: str
    mean: float | None
    interval: tuple[float, float] | None
    note: str = ""


def overview(
    run: RunRecord,
    checked: Check,
    title: str | None = None,
    verification: LastVerification | None = None,
    examined: str | None = None,
) -> Values:
    environment = run.manifest.environment
    judge = run.summary.judge.model_copy(update={"examined": examined})
    gates = [parse_gate(decision.gate) for decision in checked.decisions]
    aims = map(parse_gate, environment.settings.until)
    metrics = list(_metrics(run, checked.labels, [*dict.fromkeys([*gates, *aims])]))
    sentences = [metric for metric in metrics if metric["sentence"]]
    stopped = run.summary.stopped or ""
    return {
        "title": title or ", ".join(Path(source).name for source in environment.sources),
        "day": next((session.started for session in environment.sessions), "")[:10],
        "samples": _samples(run),
        "ended": stopped.partition(": ")[2] if run.part else stopped,
        "how_to_label": how_to_label(run) if run.sampling.optional_stopping else "",
        "skipped": run.summary.skipped_rows,
        "judge": judge,
        "caution": "; ".join(filter(None, (judge.caution, judge.examined))),
        "finding": sorted(sentences, key=lambda metric: not metric["checked"])[:_MOST_SENTENCES],
        "metrics": metrics,
        "reasons": reason_lines(run),
        "gates": [
            (decision, _OUTCOMES[decision.outcome], describe_gate(gate), explain_decision(decision))
            for decision, gate in zip(checked.decisions, gates, strict=True)
        ],
        "comparison": checked.comparison and _comparison(checked.comparison),
        "labels": checked.labels,
        "disputes": disputed_statements(run, run.summary.metrics),
        "verification": verification,
        "is_verified": verification is not None and verification.is_of(run.directory),
        "facts": [(name, fact) for name, fact in _facts(run, checked.comparison) if fact],
    }


def _samples(run: RunRecord) -> str:
    if run.part is None or run.summary.stopped is None:
        return str(run.part or numbered(run.summary.samples, "sample"))
    return f"{run.part.samples:,} of {run.part.whole:,} samples, in random order (seed {run.part.seed})"


def _metrics(run: RunRecord, labels: RunLabels | None, gates: Sequence[Gate]) -> Iterator[Values]:
    """Yield the values of each metric. Its first row has no mean if too many samples failed or none was scored."""
    distributions = {name: [0] * _BINS for name in run.summary.metrics}
    for score in run.iter_scores():
        if score.metric in distributions and score.score is not None:
            distributions[score.metric][min(int(score.score * _BINS), _BINS - 1)] += 1
    withheld, shares = run.summary.failed_beyond(run.max_failed), pooled_shares(run)
    gates = [gate for gate in gates if gate.column is None]
    gates.sort(key=lambda gate: -abs(gate.threshold - 0.5))  # no mark crosses the words of another
    for name, summary in run.summary.metrics.items():
        corrected = labels.corrected.get(name) if labels else None
        judge = MeanRow("judge only", summary.mean, summary.ci95)
        headline = headline_of(summary, corrected)
        rows = [MeanRow(name, None, None)]
        if name in withheld:
            headline = Headline(None, None, "judge")
        else:
            rows = _mean_rows(name, judge, headline, corrected)
        is_corrected = headline.basis == "labels"
        checked = corrected.labels if corrected and is_corrected else 0
        yield {
            "name": name,
            "meaning": _meaning(name, run),
            "basis": headline.basis,
            "sentence": state_headline(name, headline, corrected),
            "contradiction": corrected.contradiction if corrected else None,
            "pooled": pooled_sentence(run, name, shares.get(name), corrected, pooled_for_page),
            "judged": catalog.is_judged(name) and headline.basis == "judge",
            "checked": checked,
            "corrected": corrected,
            "needed": corrected.needed if corrected else None,
            "rows": rows,
            "counts": summary,
            "distribution": distributions[name],
            "marks": [
                (gate.threshold, _bound(gate))
                for gate in gates
                if gate.metric == name and not gate.delta and gate.column is None
            ],
            "remarks": list(metric_remarks(summary, withheld=name in withheld)),
        }


def _mean_rows(
    name: str, judge: MeanRow, headline: Headline, corrected: CorrectedMean | None
) -> list[MeanRow]:
    rows = [MeanRow(name, headline.mean, headline.ci95)]
    if headline.basis == "too few labels":
        rows.append(judge)
    elif corrected and headline.basis == "labels":
        saved = corrected.worth_labels
        note = f"saves about {numbered(saved, 'label')}" if saved else ""
        by = [
            MeanRow(f"by {who}", mean.mean, mean.ci95)
            for who, mean in (corrected.by_annotator or {}).items()
        ]
        rows += [*by, judge._replace(note=note)]
    labels_only = corrected.labels_alone if corrected else None
    return (
        [*rows, MeanRow("labels only", labels_only.mean, labels_only.ci95)] if labels_only else rows
    )


def _meaning(name: str, run: RunRecord) -> str:
    if words := get_about(catalog.ours(name)).headline:
        question = words.format("how many")
        lower = " Lower is better." if catalog.lower_is_better(name) else ""
        return f"{question[0].upper()}{question[1:]}?{lower}"
    criterion = run.manifest.criteria.get(name)
    return criterion.question if criterion else ""


def _bound(gate: Gate) -> str:
    return f"{_BOUNDS[gate.comparison]} {gate.threshold:g}"


def describe_gate(gate: Gate) -> str:
    """Return `context recall is at least 0.8`, `context recall is at most 0.02 lower than in the baseline`."""
    name = gate.metric.replace("_", " ") if catalog.is_ours(gate.metric) else gate.metric
    name += "" if gate.column is None else f" ({gate.column} {gate.value})"
    if not gate.delta:
        return f"{name} is {_bound(gate)}"
    if not gate.threshold:
        return f"{name} is {_UNEQUAL[gate.comparison]} than in the baseline"
    is_least, is_strict = (
        gate.comparison.startswith(">") == (gate.threshold > 0),
        "=" not in gate.comparison,
    )
    bound = (
        ("more than" if is_least else "less than")
        if is_strict
        else ("at least" if is_least else "at most")
    )
    direction = "higher" if gate.threshold > 0 else "lower"
    return f"{name} is {bound} {abs(gate.threshold):g} {direction} than in the baseline"


def _comparison(comparison: RunComparison) -> Values:
    changes: list[Values] = [
        {
            "name": name,
            "scores": score_cells(change.headline or change.scores),
            "counts": count_cells(name, change)[:4],
            "difference": change.interval and change.interval.mean,
            "interval": change.interval and change.interval.limits,
            "remarks": list(
                change_remarks(name, change, _RUNS, obstacles=comparison.obstacles(name)),
            ),
        }
        for name, change in comparison.metrics.items()
    ]
    ends = [abs(end) for change in changes for end in change["interval"] or ()]
    notes = list(comparison_notes(comparison, _RUNS))
    return {"changes": changes, "widest": max([*ends, 0.05]), "notes": notes}


def _facts(run: RunRecord, comparison: RunComparison | None) -> Iterator[tuple[str, str | None]]:
    judge, summary = run.judge, run.summary
    others = ", except for metrics with a calibration" if summary.thresholds else ""
    size = None if judge.size is None else readable(judge.size)
    yield "Model", ", ".join(filter(None, (size, judge.quantisation)))
    yield "sha256", judge.sha256
    yield "Threshold", f"{summary.threshold:g}: a verdict is 1 at this probability or above{others}"
    yield from (("Calibration", line) for line in calibration_lines(run))
    yield "Verdicts", decidedness_line(summary.verdicts)
    yield "Origin", "; ".join(map(str, run.origins))
    yield "Signature", summary.signature
    if comparison:
        yield (
            "Baseline",
            f"judge {comparison.baseline_judge}, signature {comparison.baseline_signature}",
        )
    for name, change in comparison.metrics.items() if comparison else ():
        if change.verdicts:
            yield (
                "Verdicts changed",
                f"{name}: {change.verdicts.up:,} from 0 to 1, {change.verdicts.down:,} from 1 to 0",
            )
