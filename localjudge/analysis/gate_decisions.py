"""Decide one gate on the 95 % interval, corrected by labels if there are enough.

pass         every value in the interval meets the gate
fail         no value does, or more samples failed than allowed
undecided    too few samples or labels; counts as failed by default, so that small runs cannot pass

A gate on a difference is also undecided, and failed, if the judges or the questions of paired
samples differ, unless `allow_different` allows it: the difference would not be an effect of the
evaluated system.

Where labels exist, they decide: with too few labels for an interval a gate is undecided, even if
the judge's interval decides it.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

from localjudge.analysis.comparison import ComparedSlice, Obstacle, RunComparison, SliceChange
from localjudge.analysis.corrected_change import CorrectedDifference
from localjudge.analysis.gates import (
    Gate,
)
from localjudge.analysis.headline import withholds_mean
from localjudge.analysis.slices import Slice
from localjudge.labels.corrected_mean import NO_SHARE, CorrectedMean
from localjudge.labels.decisions import SECONDS_A_LABEL
from localjudge.labels.run_labels import RunLabels
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import MetricSummary
from localjudge.run_directory.totals import allowed_failures
from localjudge.stats.interval import Interval
from localjudge.stats.paired import Decision, decide, labels_needed
from localjudge.types import Record
from localjudge.words import numbered, option

Outcome = Literal["pass", "fail", "undecided"]
Undecided = Literal["pass", "fail"]

NO_LABELS = "0 labels"
BY_LABELS = "labels"
"""Method of an interval by labels."""


class GateDecision(Record):
    """Outcome of a gate with its value and reason. `passed` determines the exit code.

    About `samples_needed` samples, or `labels_needed` labels for a `corrected` value, would decide
    it at the same mean. `unpaired` samples of either run are excluded from a difference.
    """

    gate: str
    metric: str
    outcome: Outcome
    passed: bool
    value: float | None
    ci95: tuple[float, float] | None
    samples: int
    unpaired: int = 0
    samples_needed: int | None
    corrected: bool = False
    labels: int | None = None
    labels_needed: int | None = None
    reason: str


class _Basis(NamedTuple):
    """The basis of a decision: the interval, corrected by labels if `corrected`.

    With `too_many_failed` samples the gate fails. It stays undecided if the runs are
    `incomparable`, or if there are `too_few_labels` for an interval, which then is None. These are
    reasons, or empty.
    """

    interval: Interval | None
    judge: Interval | None
    corrected: CorrectedMean | CorrectedDifference | None
    too_many_failed: str = ""
    incomparable: str = ""
    too_few_labels: str = ""
    unpaired: int = 0
    remark: str = ""
    failed_remark: str = ""
    labels: int | None = None
    labels_needed: int | None = None

    def labels_to_decide(self, threshold: float) -> int | None:
        """Return the number of labels that would decide the gate at the same mean, or None."""
        if not (self.interval and self.judge and self.corrected):
            return None
        labels = self.corrected.labels
        look = labels
        planned = None
        if isinstance(self.corrected, CorrectedDifference):
            # A difference uses equal numbers of labels of each run, which may share a statement.
            look = self.corrected.look
        elif self.corrected.is_planned:
            planned = labels
        statements_of_look = round(self.corrected.statements * look / labels)
        needed = labels_needed(
            self.interval, self.judge, threshold, look, statements_of_look, planned
        )
        return needed and round(needed * labels / look)


Part = Slice | ComparedSlice | None
"""The slice of a gate, None for the whole run."""


def _find_basis_of_mean(gate: Gate, run: RunRecord, labels: RunLabels | None, part: Part) -> _Basis:
    """Return what decides a gate on a mean."""
    assert not isinstance(part, ComparedSlice)
    summary = run.summary.metrics[gate.metric]
    samples = run.summary.samples
    of_run = None
    if labels:
        of_run = labels.corrected.get(gate.metric)
    corrected = of_run
    if part is not None:
        summary = part.metrics[gate.metric]
        samples = part.samples
        corrected = part.corrected.get(gate.metric)
    basis = _Basis(
        interval=summary.interval,
        judge=summary.interval,
        corrected=None,
        too_many_failed=_explain_failures(
            summary.failed, allowed_failures(run.manifest.environment.settings.max_failed, samples)
        ),
        failed_remark=_describe_failures(summary),
    )
    if corrected and corrected.mean is not None and (corrected.ci95 or corrected.is_complete):
        low, high = corrected.ci95 or (0.0, 1.0)
        interval = Interval(
            corrected.mean, low, high, BY_LABELS, summary.scored, corrected.clusters
        )
        return basis._replace(
            interval=interval,
            corrected=corrected,
            labels=corrected.labels,
            remark=corrected.contradiction or "",
        )
    if of_run and of_run.counts:
        return _without_correction(basis, corrected, of_run)
    return basis


def _without_correction(
    basis: _Basis, corrected: CorrectedMean | None, of_run: CorrectedMean
) -> _Basis:
    """Return the basis with the reason why labels that exist do not decide.

    It is only a remark if the judge may decide: if labels can never correct the metric, or if they
    are another run's and were drawn from other statements, unless the labels contradict the judge.
    """
    assert of_run.counts  # the run has labels
    if corrected is None or corrected.counts is None:
        reason = f"{NO_LABELS}; in the whole run, {of_run.counts.in_words}"
        return basis._replace(interval=None, too_few_labels=reason, labels=0)
    says = corrected.contradiction or corrected.counts.in_words
    if not withholds_mean(corrected):
        return basis._replace(remark=f"{corrected.remark}; {says}")
    needed = None
    if corrected.needed is not None:
        needed = corrected.labelled + corrected.needed
    return basis._replace(
        interval=None,
        too_few_labels=f"{corrected.shortage}; {says}",
        labels=corrected.counts.labelled,
        labels_needed=needed,
    )


def _find_basis_of_difference(
    gate: Gate,
    run: RunRecord,
    comparison: RunComparison,
    part: Part,
    allow_different: Collection[Obstacle],
) -> _Basis:
    """Return what decides a gate on a difference."""
    assert not isinstance(part, Slice)
    whole = comparison.metrics[gate.metric]
    change: SliceChange = whole
    unpaired = whole.unpaired
    if part is not None:
        change = part.metrics[gate.metric]
        unpaired = part.samples - part.paired
    too_many_failed = _explain_failures(whole.failed_in_baseline, whole.allowed_in_baseline)
    if not too_many_failed:
        failed = run.summary.metrics[gate.metric].failed
        too_many_failed = _explain_failures(failed, run.max_failed)
    basis = _Basis(
        interval=change.interval,
        judge=change.judge_interval,
        corrected=change.headline,
        too_many_failed=too_many_failed,
        incomparable=_explain_obstacles(comparison.obstacles(gate.metric, part), allow_different),
        unpaired=unpaired,
    )
    if change.headline:
        return basis._replace(labels=change.headline.labels)
    if whole.corrected is None:
        return basis
    corrected = change.corrected or CorrectedDifference(remark=NO_LABELS)
    remark = f"not corrected by labels: {corrected.remark}"
    contradiction = whole.corrected.contradiction
    if contradiction:
        remark = f"{remark}; {contradiction}"
    elif corrected.remark == NO_SHARE or not whole.corrected.is_labelled:
        return basis._replace(remark=remark)
    return basis._replace(interval=None, too_few_labels=remark, labels=corrected.labels)


def _explain_obstacles(obstacles: Mapping[Obstacle, str], allowed: Collection[Obstacle]) -> str:
    """Say that the scores are not comparable, or return ""."""
    forbidden = {kind: words for kind, words in obstacles.items() if kind not in allowed}
    if not forbidden:
        return ""
    allow = option("allow_different", list(forbidden))
    return f"not comparable: {'; '.join(forbidden.values())} (to decide it anyway: {allow})"


def _explain_failures(failed: int, allowed: int) -> str:
    """Say that too many samples failed, or return ""."""
    if failed <= allowed:
        return ""
    return f"failed samples: {failed:,}, more than allowed ({allowed:,})"


def _describe_failures(summary: MetricSummary) -> str:
    """Return the effect of allowed failures on the mean, or ""."""
    if not summary.failed or summary.bounds is None:
        return ""
    low, high = summary.bounds
    mean = f"the mean would be {low:.3f} to {high:.3f}"
    return f"failed samples: {summary.failed:,}, with whose scores {mean}"


def decide_gate(
    gate: Gate,
    run: RunRecord,
    comparison: RunComparison | None,
    labels: RunLabels | None,
    undecided: Undecided,
    part: Part = None,
    allow_different: Collection[Obstacle] = (),
) -> GateDecision:
    if gate.delta:
        assert comparison  # `check_baseline` has refused the gate otherwise
        basis = _find_basis_of_difference(gate, run, comparison, part, allow_different)
    else:
        basis = _find_basis_of_mean(gate, run, labels, part)
    decision, reason, needed = _decide(gate, basis, labels)
    if basis.unpaired and comparison:
        reason += f"; {comparison.samples.without_partner}"
    is_passed = decision.outcome == "pass"
    if decision.outcome == "undecided" and not basis.incomparable:
        is_passed = undecided == "pass"
    numbers: dict[str, Any] = {"value": None, "ci95": None, "samples": 0, "samples_needed": None}
    interval = basis.interval
    if interval is not None:
        numbers |= {"value": interval.mean, "ci95": interval.limits, "samples": interval.n}
        if not interval.one_cluster and not needed:
            numbers["samples_needed"] = decision.samples_needed
    return GateDecision(
        gate=str(gate),
        metric=gate.metric,
        outcome=decision.outcome,
        passed=is_passed,
        unpaired=basis.unpaired,
        corrected=basis.corrected is not None,
        labels=basis.labels,
        labels_needed=needed,
        reason=reason,
        **numbers,
    )


def _decide(
    gate: Gate, basis: _Basis, labels: RunLabels | None
) -> tuple[Decision, str, int | None]:
    """Return the decision, its reason, and the number of labels that would decide the gate."""
    undecided = Decision("undecided")
    needed = basis.labels_needed
    if basis.too_many_failed:
        return Decision("fail"), basis.too_many_failed, needed
    if basis.incomparable:
        return undecided, basis.incomparable, needed
    if basis.too_few_labels:
        return undecided, basis.too_few_labels, needed
    if basis.interval is None:
        return undecided, "no sample has a score", needed
    decision = decide(basis.interval, gate.comparison, gate.threshold)
    if decision.samples_needed:
        needed = basis.labels_to_decide(gate.threshold)
    reason = _explain_decision(gate, basis.interval, decision, basis, labels, needed)
    if _is_biased_by_gaps(basis, labels):
        decision = undecided
    return decision, reason, needed


def _is_biased_by_gaps(basis: _Basis, labels: RunLabels | None) -> bool:
    """Return whether too many drawn statements behind a corrected mean have no label."""
    if labels is None or basis.corrected is None or not labels.is_incomplete:
        return False
    is_census = isinstance(basis.corrected, CorrectedMean) and basis.corrected.is_complete
    return not is_census


def _explain_decision(
    gate: Gate,
    interval: Interval,
    decision: Decision,
    basis: _Basis,
    labels: RunLabels | None,
    needed: int | None,
) -> str:
    """Return the reason of a decision, with its remarks. About `needed` labels would decide it."""
    reason = _describe_interval(gate, interval, basis.corrected)
    if decision.outcome == "undecided" and not interval.one_cluster:
        pace = SECONDS_A_LABEL
        if labels:
            pace = labels.seconds_a_label
        shortage = _describe_shortage(gate, interval, decision, basis.corrected, needed, pace)
        reason = f"{reason}: {shortage}"
    if labels and not basis.corrected:
        reason = f"by the judge only: {reason}"
    parts = [reason, basis.remark]
    if labels and basis.corrected:
        parts += labels.warnings
    parts.append(basis.failed_remark)
    return "; ".join(filter(None, parts))


def _describe_interval(
    gate: Gate, interval: Interval, corrected: CorrectedMean | CorrectedDifference | None
) -> str:
    write = _number_format(gate)
    mean = write(interval.mean)
    samples = numbered(interval.n, "sample")
    if interval.one_cluster:
        return f"{mean}, {samples}, all in one group: a decision needs more groups"
    words = f"{mean}, 95 % interval {write(interval.low)} to {write(interval.high)}, {samples}"
    if corrected:
        return f"corrected by {corrected.in_words}: {words}"
    return words


def _describe_shortage(
    gate: Gate,
    interval: Interval,
    decision: Decision,
    corrected: CorrectedMean | CorrectedDifference | None,
    needed_labels: int | None,
    pace: float,
) -> str:
    """Say what would decide the gate, with a `pace` in seconds for each label."""
    quantity = "mean"
    if gate.delta:
        quantity = "difference"
    if decision.samples_needed is None:
        return f"the {quantity} equals the threshold, which no number of samples can decide"
    shortage = "samples"
    needed = f"{decision.samples_needed:,}"
    if needed_labels and corrected:
        minutes = math.ceil((needed_labels - corrected.labelled) * pace / 60)
        shortage = "labels"
        needed = f"{needed_labels:,} labels ({numbered(minutes, 'minute')} more)"
    elif corrected:
        needed = f"{needed} with proportionally more labels"
    condition = f"if the {quantity} stays at {_number_format(gate)(interval.mean)}"
    return f"too few {shortage} to decide; {condition}, about {needed} would decide it"


def _number_format(gate: Gate) -> Callable[[float], str]:
    if gate.delta:
        return signed
    return "{:.3f}".format


def signed(value: float) -> str:
    if round(value, 3) == 0:
        return "0.000"
    return f"{value:+.3f}"
