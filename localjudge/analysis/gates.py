"""Gates as users write them, and each decided on a 95 % interval.

context_recall>=0.8            the mean is at least 0.8
context_recall.delta>=-0.02    the mean is at most 0.02 below the baseline's, on the shared samples
context_recall[topic=law]>=0.8 the mean of the samples with this value in a column is at least 0.8
context_recall["a=b"=law]>=0.8 the same; a column with = or a bracket in its name is in quotes

pass         every value in the interval meets the gate
fail         no value does, or more samples failed than allowed
undecided    too few samples or labels: not passed, so that small runs cannot pass

A gate on a difference is also undecided if the judges or the questions of paired samples differ:
the difference would not be an effect of the evaluated system. `localjudge.analysis.check` says what
is allowed and what undecided gates count as.

Where labels exist, they decide: with too few labels for an interval a gate is undecided, even if
the judge's interval decides it. The reason says what would decide a gate:

    corrected by 20 labels: 0.650, 95 % interval 0.181 to 0.940, 90 samples: too few labels to
    decide; if the mean stays at 0.650, about 50 labels (9 minutes more) would decide it
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import cast

from localjudge.analysis.breakdowns import Slice
from localjudge.analysis.comparison import (
    ComparedSlice,
    Corrected,
    CorrectedDifference,
    Obstacle,
    RunComparison,
    SliceChange,
    count_labels_to_decide,
)
from localjudge.errors import InputError
from localjudge.labels.corrected_mean import quote_mean
from localjudge.labels.decisions import SECONDS_A_LABEL
from localjudge.labels.run_labels import RunLabels, find_corrected
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import MetricSummary, allowed_failures
from localjudge.stats.interval import Mean
from localjudge.stats.paired import (
    Comparison,
    GateOutcome,
    decide,
    samples_to_decide,
)
from localjudge.types import Record
from localjudge.words import numbered, option, signed_difference, three_digits

_FORM = re.compile(
    r"\s*(?P<metric>[^<>=\s(]+?(?:\([^()]*\))?)"
    r"(?:\[(?P<column>[^\[\]=\"]+|\"[^\"]+\")=(?P<value>.*)\])?(?P<delta>\.delta)?"
    r"\s*(?P<comparison>[<>]=?)\s*"
    r"(?P<threshold>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)\s*"
)
_EXAMPLES = "write it in quotes, like 'context_recall>=0.8' or 'context_recall.delta>=-0.02'"
NO_LABELS = "0 labels"


class Gate(Record):
    """`metric comparison threshold`, in a slice if it has a column.

    With `delta`, on the difference of two runs.
    """

    metric: str
    delta: bool
    comparison: Comparison
    threshold: float
    column: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        name = self.metric
        if self.column is not None:
            column = self.column
            if re.search(r"[\[\]=]", column):
                column = f'"{column}"'
            name += f"[{column}={self.value}]"
        if self.delta:
            name += ".delta"
        return f"{name}{self.comparison}{self.threshold:.15g}"


def parse_gate(text: str) -> Gate:
    """Parse a gate as written on the command line. Raises InputError for an invalid one."""
    parts = _FORM.fullmatch(text)
    if not parts:
        raise InputError(f"{text!r} is not a gate", hint=_EXAMPLES)
    threshold = float(parts["threshold"])
    digits = re.split("[eE]", parts["threshold"])[0]
    if threshold == 0 and re.search("[1-9]", digits):
        raise InputError(f"the number in the gate {text!r} is too close to 0", hint=_EXAMPLES)
    delta = parts["delta"] is not None
    minimum = 0
    if delta:
        minimum = -1
    if not minimum <= threshold <= 1:
        problem = f"the number in the gate {text!r} is not in [{minimum}, 1]"
        raise InputError(problem, hint=_EXAMPLES)
    return Gate(
        metric=parts["metric"],
        delta=delta,
        comparison=cast(Comparison, parts["comparison"]),
        threshold=threshold,
        column=parts["column"] and parts["column"].strip('"'),
        value=parts["value"],
    )


class GateDecision(Record):
    """Outcome of a gate with its value and reason. `passed` determines the exit code.

    About `samples_needed` samples, or `labels_needed` labels for a `corrected` value, would decide
    it at the same mean. `unpaired` samples of either run are excluded from a difference.
    """

    gate: str
    metric: str
    outcome: GateOutcome
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


Part = Slice | ComparedSlice | None
"""The slice of a gate, None for the whole run."""


def decide_gate(
    gate: Gate,
    part: Part,
    run: RunRecord,
    comparison: RunComparison | None,
    labels: RunLabels | None,
    obstacles: Mapping[Obstacle, str],
) -> GateDecision:
    """Decide a gate. One on a difference needs the comparison of the run with its baseline.

    The `obstacles` are why the scores of a difference are not comparable. An undecided gate has not
    passed.
    """
    if gate.delta:
        assert comparison  # `check_baseline` has refused the gate otherwise
        assert not isinstance(part, Slice)
        decision = _decide_difference(gate, comparison, labels, part)
        change = comparison.metrics[gate.metric]
        failures = _explain_failures(change.failed_in_baseline, change.allowed_in_baseline)
        if not failures:
            failures = _explain_failures(run.summary.metrics[gate.metric].failed, run.max_failed)
    else:
        assert not isinstance(part, ComparedSlice)
        decision = _decide_mean(gate, run, labels, part)
        failures = _explain_failures_of_part(gate, run, part)
    if failures:
        decision = _overrule(decision, "fail", failures)
    elif obstacles:
        allow = option("allow_different", list(obstacles))
        words = "; ".join(obstacles.values())
        reason = f"not comparable: {words} (to decide it anyway: {allow})"
        decision = _overrule(decision, "undecided", reason)
    if decision.unpaired and comparison:
        reason = f"{decision.reason}; {comparison.samples.without_partner}"
        decision = decision.model_copy(update={"reason": reason})
    return decision


def _overrule(decision: GateDecision, outcome: GateOutcome, reason: str) -> GateDecision:
    """Replace the outcome by one that no number of samples or labels would change."""
    update = {
        "outcome": outcome,
        "passed": False,
        "reason": reason,
        "samples_needed": None,
        "labels_needed": None,
    }
    return decision.model_copy(update=update)


def _decide_mean(
    gate: Gate, run: RunRecord, labels: RunLabels | None, part: Slice | None
) -> GateDecision:
    """Decide a gate on the mean of a run or slice.

    The judge's mean decides without labels, if labels can never correct the metric, or if they are
    another run's and were drawn from other statements, unless they contradict the judge.
    """
    summary = run.summary.metrics[gate.metric]
    of_run = find_corrected(labels, gate.metric)
    corrected = of_run
    if part is not None:
        summary = part.metrics[gate.metric]
        corrected = part.corrected.get(gate.metric)
    judge = summary.by_judge
    quoted = quote_mean(summary, corrected)
    failures = _describe_failures(summary)
    if corrected and isinstance(quoted, Mean) and quoted.basis == "labels":
        remarks = [corrected.contradiction, *_list_warnings(labels), failures]
        return _decide_on_mean(gate, quoted, labels, remarks, corrected, judge)
    if not of_run or not of_run.counts:
        return _decide_on_mean(gate, judge, labels, [failures])
    if corrected is None or corrected.counts is None:
        reason = f"{NO_LABELS}; in the whole run, {of_run.counts.in_words}"
        return _without_interval(gate, reason, labels=0)
    description = corrected.contradiction or corrected.counts.in_words
    if not corrected.withholds_judge:
        remarks = [f"{corrected.remark}; {description}", failures]
        return _decide_on_mean(gate, judge, labels, remarks)
    needed = None
    if corrected.needed is not None:
        needed = corrected.labelled + corrected.needed
    reason = f"{corrected.shortage}; {description}"
    return _without_interval(gate, reason, corrected.counts.labelled, needed)


def _decide_difference(
    gate: Gate,
    comparison: RunComparison,
    labels: RunLabels | None,
    part: ComparedSlice | None,
) -> GateDecision:
    """Decide a gate on the difference of two runs, or of a slice of them.

    The judge's difference decides without labels, and if labels can never correct it or are not of
    this run, unless they contradict the judge.
    """
    whole = comparison.metrics[gate.metric]
    change: SliceChange = whole
    unpaired = whole.unpaired
    if part is not None:
        change = part.metrics[gate.metric]
        unpaired = part.samples - part.paired
    judge = change.by_judge
    quoted = change.quoted
    if isinstance(quoted, Mean) and quoted.basis == "labels":
        warnings = _list_warnings(labels)
        decision = _decide_on_mean(gate, quoted, labels, warnings, change.headline, judge)
    elif whole.corrected is None:
        decision = _decide_on_mean(gate, judge, labels, [])
    else:
        corrected = change.corrected or CorrectedDifference(remark=NO_LABELS)
        contradiction = whole.corrected.contradiction
        remark = f"not corrected by labels: {corrected.remark}"
        if contradiction:
            remark = f"{remark}; {contradiction}"
        if change.is_withheld:
            decision = _without_interval(gate, remark, corrected.labels)
        else:
            decision = _decide_on_mean(gate, judge, labels, [remark])
    return decision.model_copy(update={"unpaired": unpaired})


def _without_interval(
    gate: Gate, reason: str, labels: int | None = None, labels_to_decide: int | None = None
) -> GateDecision:
    """Leave a gate undecided because no sample has a score, or labels are too few."""
    return GateDecision(
        gate=str(gate),
        metric=gate.metric,
        outcome="undecided",
        passed=False,
        value=None,
        ci95=None,
        samples=0,
        samples_needed=None,
        labels=labels,
        labels_needed=labels_to_decide,
        reason=reason,
    )


def _decide_on_mean(
    gate: Gate,
    mean: Mean | None,
    labels: RunLabels | None,
    remarks: Sequence[str | None],
    corrected: Corrected | None = None,
    judge: Mean | None = None,
) -> GateDecision:
    """Decide a gate on the mean by the judge, or on one that labels `corrected`.

    The latter has the mean by the `judge` beside it, and is undecided if too many drawn statements
    have no label. `remarks` follow the reason.
    """
    if mean is None:
        return _without_interval(gate, "no sample has a score")
    outcome = decide(mean, gate.comparison, gate.threshold)
    reason = _describe_interval(gate, mean)
    larger_sample = None
    labels_to_decide = None
    if outcome == "undecided":
        larger_sample = samples_to_decide(mean, gate.threshold)
        if larger_sample and judge and corrected:
            labels_to_decide = count_labels_to_decide(gate.threshold, mean, judge, corrected)
        if not mean.one_cluster:
            shortage = _describe_shortage(
                gate, mean, larger_sample, labels_to_decide, corrected, labels
            )
            reason = f"{reason}: {shortage}"
    if labels and not corrected:
        reason = f"by the judge only: {reason}"
    if corrected and corrected.has_gaps:
        outcome = "undecided"
        larger_sample = None
        statements = numbered(corrected.passed_over, "drawn statement")
        remarks = [f"{statements} behind it without a label are too many to decide", *remarks]
    if mean.one_cluster or labels_to_decide:
        larger_sample = None
    labels_used = None
    if corrected:
        labels_used = corrected.labels
    return GateDecision(
        gate=str(gate),
        metric=gate.metric,
        outcome=outcome,
        passed=outcome == "pass",
        value=mean.mean,
        ci95=mean.ci95,
        samples=mean.n,
        samples_needed=larger_sample,
        corrected=corrected is not None,
        labels=labels_used,
        labels_needed=labels_to_decide,
        reason="; ".join(filter(None, [reason, *remarks])),
    )


def _list_warnings(labels: RunLabels | None) -> Sequence[str]:
    if labels is None:
        return ()
    return labels.warnings


def _explain_failures_of_part(gate: Gate, run: RunRecord, part: Slice | None) -> str:
    """Say that too many samples of a run or slice failed, or return ""."""
    summary = run.summary.metrics[gate.metric]
    samples = run.summary.samples
    if part is not None:
        summary = part.metrics[gate.metric]
        samples = part.samples
    max_failed = run.manifest.environment.settings.max_failed
    return _explain_failures(summary.failed, allowed_failures(max_failed, samples))


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
    mean = f"the mean would be {three_digits(low)} to {three_digits(high)}"
    return f"failed samples: {summary.failed:,}, with whose scores {mean}"


def _describe_interval(gate: Gate, mean: Mean) -> str:
    value, low, high = _write_numbers(gate, mean)
    samples = numbered(mean.n, "sample")
    if mean.one_cluster:
        return f"{value}, {samples}, all in one group: a decision needs more groups"
    words = f"{value}, 95 % interval {low} to {high}, {samples}"
    if mean.basis == "labels":
        return f"corrected by {mean.based_on}: {words}"
    return words


def _describe_shortage(
    gate: Gate,
    mean: Mean,
    larger_sample: int | None,
    labels_to_decide: int | None,
    corrected: Corrected | None,
    labels: RunLabels | None,
) -> str:
    """Say what would decide the gate: a sample size, or a number of labels with the time left."""
    quantity = "mean"
    if gate.delta:
        quantity = "difference"
    if larger_sample is None:
        return f"the {quantity} equals the threshold, which no number of samples can decide"
    shortage = "samples"
    needed = f"{larger_sample:,}"
    if labels_to_decide and corrected:
        pace = SECONDS_A_LABEL
        if labels:
            pace = labels.seconds_a_label
        minutes = math.ceil((labels_to_decide - corrected.labelled) * pace / 60)
        shortage = "labels"
        needed = f"{labels_to_decide:,} labels ({numbered(minutes, 'minute')} more)"
    elif corrected:
        needed = f"{needed} with proportionally more labels"
    condition = f"if the {quantity} stays at {_write_numbers(gate, mean)[0]}"
    return f"too few {shortage} to decide; {condition}, about {needed} would decide it"


def _write_numbers(gate: Gate, mean: Mean) -> tuple[str, str, str]:
    """Return the mean and both ends of its interval, each visibly on its side of the threshold."""
    limits = (mean.low, mean.high)
    if gate.delta:
        return signed_difference(mean.mean, limits, gate.threshold)
    value, low, high = (three_digits(number, gate.threshold) for number in (mean.mean, *limits))
    return value, low, high
