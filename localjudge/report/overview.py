"""What the page of a run says before and after its samples: values of its template.

    the finding    Of 100 sentences in the answers, about 69 (59 to 78) are supported by the documents.
                   A person checked 50 of them.
    each mean      corrected by labels, where they suffice; under it the judge alone and the labels alone
    each gate      in words, and as a mark on the scale of its metric
    how            date, judge, labels, verification: what an auditor asks for, and every machine word

A mean counts each sample once, so the 100 are of an average sample.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localjudge.analysis.check import Check, Gate, GateDecision, parse_gate
from localjudge.analysis.compare import RunComparison
from localjudge.engine.hardware import readable
from localjudge.metrics import catalog
from localjudge.record.directory import excerpt
from localjudge.record.files import MetricSummary
from localjudge.record.manifest import kept_criteria
from localjudge.record.run import Run
from localjudge.record.verification import last_verification
from localjudge.report import tables
from localjudge.report.terminal import number
from localjudge.words import numbered

if TYPE_CHECKING:
    from localjudge.analysis.labels import CorrectedMean, RunLabels

_BINS = 10
"""Of a distribution: scores from 0 to 0.1, ..., from 0.9 to 1."""
_MOST_SENTENCES = 3
_RUNS = ("the baseline", "this run")
_OUTCOMES = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_EQUALS = {">=": "not lower", ">": "higher", "<=": "not higher", "<": "lower"}
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

Values = dict[str, Any]


class MeanRow(NamedTuple):
    """A mean with its interval on the page, what it is called in the table, and what has to be said of it."""

    name: str
    mean: float | None
    interval: tuple[float, float] | None
    remark: str = ""


def overview(run: Run, checked: Check, labels: "RunLabels | None" = None, title: str | None = None) -> Values:
    """The values of the template that stand for the run, its labels, its gates and its comparison."""
    data = ", ".join(Path(source).name for source in run.manifest.environment.get("sources", ()))
    corrected = labels.corrected if labels else {}
    skipped = numbered(run.summary.skipped_rows, "row")
    return {
        "title": title or data,
        "day": _day(next((session.get("started") for session in run.manifest.environment["sessions"]), None)),
        "samples": str(run.part or numbered(run.summary.samples, "sample")),
        "skipped": f"{skipped} of the data could not be used" if run.summary.skipped_rows else "",
        "judge": run.judge,
        "mind": "; ".join(filter(None, (run.judge.caution, run.judge.examined))),
        "finding": _finding(run, labels),
        "metrics": list(_metrics(run, corrected, checked.decisions)),
        "gates": [_gate_values(decision) for decision in checked.decisions],
        "comparison": checked.comparison and _comparison(checked.comparison),
        "facts": [
            (name, fact)
            for name, fact in (*_audit(run, labels), *_machinery(run), *_baseline(checked.comparison))
            if fact
        ],
    }


def _day(when: object) -> str:
    """`22 November 2026` of an ISO 8601 time; nothing of anything else."""
    try:
        day = datetime.fromisoformat(str(when))
    except ValueError:
        return ""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _asks_judge(name: str) -> bool:
    metric = catalog.ours(name)
    return metric is None or bool(catalog.tasks_of([metric]))


def in_words(name: str, mean: float, ci95: tuple[float, float] | None) -> str:
    """The mean of a metric as a clause, in the metric's own words: `of 100 answers, about 9 (2 to 22) decline ...`."""
    if words := getattr(catalog.ours(name), "of_100", None):
        share, *ends = (f"{100 * value:.0f}" for value in (mean, *(ci95 or ())))
        return f"of 100 {words.format(f'about {share}{_in_brackets(ends)}')}"
    return f"the mean of {name} is {number(mean)}{_in_brackets([*map(number, ci95 or ())])}"


def _in_brackets(ends: list[str]) -> str:
    return f" ({' to '.join(ends)})" if ends else ""


def _meaning(name: str, run: Run) -> str:
    """What the metric tells, as a question; nothing of a metric whose words are not known."""
    metric = catalog.ours(name)
    if words := getattr(metric, "of_100", None):
        best = " Lower is better." if catalog.lower_is_better(name) else ""
        return f"Of 100 {words.format('how many')}?{best}"
    criterion = kept_criteria(run.manifest).get(name)
    return criterion.question if criterion else ""


def _finding(run: Run, labels: "RunLabels | None") -> Values:
    """Sentences that people checked or that need no judge, then what the judge alone says; of the first metrics only.

    Those with a corrected mean come before the others.
    """
    withheld, corrected = run.summary.failed_beyond(run.max_failed), labels.corrected if labels else {}
    names = [name for name, metric in run.summary.metrics.items() if metric.mean is not None and name not in withheld]
    names = sorted(names, key=lambda name: not _suffices(corrected.get(name)))[:_MOST_SENTENCES]
    people = "People" if labels and len(labels.labellers) > 1 else "A person"
    sentences, judged = list[str](), list[str]()
    for name in names:
        row = _mean_rows(name, run.summary.metrics[name], corrected.get(name))[0]
        clause = in_words(name, row.mean or 0.0, row.interval)
        if _suffices(corrected.get(name)):
            sentences.append(f"{_capital(clause)}. {people} checked {corrected[name].labels:,} of them.")
        elif _asks_judge(name):
            judged.append(clause)
        else:
            sentences.append(f"{_capital(clause)}.")
    lacking = [name for name in names if name in corrected and corrected[name].needed]
    advice = (
        "Nobody has checked this yet:" if labels is None else "Too little of this has been checked:" * bool(lacking)
    )
    return {"sentences": sentences, "judged": judged, "advice": advice, "nothing": not names}


def _capital(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}"


def _suffices(corrected: "CorrectedMean | None") -> bool:
    return corrected is not None and corrected.mean is not None and corrected.ci95 is not None


def _mean_rows(name: str, metric: MetricSummary, corrected: "CorrectedMean | None") -> list[MeanRow]:
    """The headline, and under it what it was made of."""
    alone = corrected.labels_alone if corrected else None
    rows = [MeanRow("judge alone", metric.mean, metric.ci95)]
    if corrected and _suffices(corrected):
        worth = corrected.worth_labels
        remark = f"as good as {numbered(worth, 'label')} more" if worth else ""
        rows = [MeanRow(name, corrected.mean, corrected.ci95), rows[0]._replace(remark=remark)]
    else:
        rows = [rows[0]._replace(name=name)]
    return [*rows, MeanRow("labels alone", alone.mean, alone.ci95)] if alone else rows


def _basis(name: str, corrected: "CorrectedMean | None") -> Iterator[str]:
    """What the headline rests on, and what is missing."""
    if corrected and _suffices(corrected):
        yield f"corrected by {numbered(corrected.labels, 'label')}"
    elif _asks_judge(name):
        yield "by the judge alone"
    if corrected and corrected.needed:
        minutes = f", about {numbered(corrected.minutes, 'minute')}" if corrected.minutes else ""
        yield f"{numbered(corrected.needed, 'more label')}{minutes}, would correct it"
    if corrected and corrected.remark:
        yield corrected.remark


def _metrics(run: Run, corrected: "Mapping[str, CorrectedMean]", gates: Sequence[GateDecision]) -> Iterator[Values]:
    """Of each metric its rows of means, the first without a mean where too many failed or nothing was scored."""
    distributions = {name: [0] * _BINS for name in run.summary.metrics}
    for row in run.iter_scores():
        if row.metric in distributions and row.score is not None:
            distributions[row.metric][min(int(row.score * _BINS), _BINS - 1)] += 1
    withheld = run.summary.failed_beyond(run.max_failed)
    marks = [gate for decision in gates if not (gate := parse_gate(decision.gate)).delta]
    marks.sort(key=lambda gate: -abs(gate.threshold - 0.5))  # no mark then crosses the words of another
    for name, metric in run.summary.metrics.items():
        labelled = corrected.get(name)
        yield {
            "name": name,
            "meaning": _meaning(name, run),
            "rows": [MeanRow(name, None, None)] if name in withheld else _mean_rows(name, metric, labelled),
            "counts": metric,
            "distribution": distributions[name],
            "marks": [(gate.threshold, _bound(gate)) for gate in marks if gate.metric == name],
            "remarks": [*_basis(name, labelled), *tables.metric_remarks(metric, withheld=name in withheld)],
        }


def _bound(gate: Gate) -> str:
    return f"{_BOUNDS[gate.comparison]} {gate.threshold:g}"


def gate_in_words(gate: Gate) -> str:
    """`context recall is at least 0.8`, `context recall is at most 0.02 lower than in the baseline`."""
    name = gate.metric.replace("_", " ") if catalog.is_ours(gate.metric) else gate.metric
    if not gate.delta:
        return f"{name} is {_bound(gate)}"
    if not gate.threshold:
        return f"{name} is {_EQUALS[gate.comparison]} than in the baseline"
    at_least = gate.comparison.startswith(">") == (gate.threshold > 0)
    words = ("at least" if at_least else "at most") if "=" in gate.comparison else ("more" if at_least else "less")
    than = "" if "=" in gate.comparison else " than"
    direction = "higher" if gate.threshold > 0 else "lower"
    return f"{name} is {words}{than} {abs(gate.threshold):g} {direction} than in the baseline"


def _gate_values(decision: GateDecision) -> Values:
    words, reason = gate_in_words(parse_gate(decision.gate)), tables.reason_of(decision)
    outcome = decision.outcome
    return {"outcome": outcome, "said": _OUTCOMES[outcome], "words": words, "gate": decision.gate, "reason": reason}


def _comparison(comparison: RunComparison) -> Values:
    changes: list[Values] = [
        {
            "name": name,
            "scores": tables.score_cells(change.scores),
            "counts": tables.count_cells(name, change)[:4],
            "difference": change.scores and change.scores.difference,
            "interval": change.scores and change.scores.ci95,
            "remarks": list(tables.change_remarks(name, change, _RUNS)),
        }
        for name, change in comparison.metrics.items()
    ]
    ends = [abs(end) for change in changes for end in change["interval"] or ()]
    notes = [tables.shared_samples(comparison.samples, _RUNS), *(f"warning: {text}" for text in comparison.warnings)]
    return {"changes": changes, "widest": max([*ends, 0.05]), "notes": notes}


Facts = Iterator[tuple[str, str | None]]


def _audit(run: Run, labels: "RunLabels | None") -> Facts:
    """Who judged and who checked, and what became of it."""
    judge = run.judge
    yield "Judge", f"{judge.name} ({judge.caution})" if judge.caution else judge.name
    yield "Examined", judge.examined
    if labels:
        named = [(name, mean) for name, mean in labels.corrected.items() if mean.labels]
        people = [f"{excerpt(name)} ({count:,})" for name, count in labels.labellers.items()]
        first, last = _day(labels.first), _day(labels.last)
        yield "Labels", ", ".join(f"{mean.labels:,} of {name}" for name, mean in named)
        yield "Labelled by", f"{', '.join(people)}, {first if first == last else f'{first} to {last}'}"
        yield "Agreement", _agreement(labels)
        yield from (("Judge's errors", f"{name}: {rates}") for name, mean in named if (rates := _rates(mean)))
        yield from (("Warning", warning) for warning in labels.warnings)
    else:
        yield "Labels", "none: localjudge label RUN"
    yield "Verified", _verified(run)
    yield "Interval", "95 %: where the mean of samples like these lies. One by the judge alone leaves out its errors"
    yield "Mean", "each sample counts once, however long it is"


def _agreement(labels: "RunLabels") -> str:
    if labels.agreement is None:
        return "nothing was labelled by two people"
    kappa = labels.agreement.kappa
    both = numbered(labels.agreement.statements, "statement")
    share = f"{both} labelled by two people, {100 * labels.agreement.share:.0f} % the same"
    return share if kappa is None else f"{share} (Cohen's kappa {kappa:.2f})"


def _rates(mean: "CorrectedMean") -> str:
    rates = (("sensitivity", mean.sensitivity), ("specificity", mean.specificity))
    return ", ".join(f"{name} {100 * rate:.0f} %" for name, rate in rates if rate is not None)


def _verified(run: Run) -> str:
    verification = last_verification(run.directory)
    if verification is None:
        return "not yet: localjudge verify RUN"
    if not verification.is_of(run.directory):
        return f"not since it was written again (before: {verification.result}): localjudge verify RUN"
    answers = f"{verification.asked_again:,} of {numbered(verification.stored, 'stored answer')} asked for again"
    asked = f": {answers}" if verification.stored else ""  # a combined run has none of its own
    return f"{verification.result}, {_day(verification.when)}{asked}, on {excerpt(verification.machine)}"


def _machinery(run: Run) -> Facts:
    """What pins the numbers down."""
    judge, summary = run.judge, run.summary
    others = ", of the metrics without a calibration" if summary.thresholds else ""
    size = None if judge.size is None else readable(judge.size)
    yield "Model", ", ".join(filter(None, (size, judge.quantisation)))
    yield "sha256", judge.sha256
    yield "Threshold", f"{summary.threshold:g}: a verdict is 1 from this probability on{others}"
    yield from (("Calibration", line) for line in tables.calibration_lines(run))
    yield "Verdicts", tables.decidedness_line(summary.verdicts)
    yield "Signature", summary.signature


def _baseline(comparison: RunComparison | None) -> Facts:
    if comparison:
        yield "Baseline", f"judge {comparison.baseline_judge}"
        yield "Its signature", comparison.baseline_signature
        for name, change in comparison.metrics.items():
            if change.verdicts:
                flipped = f"{change.verdicts.up:,} from 0 to 1, {change.verdicts.down:,} from 1 to 0"
                yield "Verdicts moved", f"{name}: {flipped}"
