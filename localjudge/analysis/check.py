"""Gates about a finished run, decided on the interval and not on the mean alone.

context_recall>=0.8            the mean is at least 0.8
context_recall.delta>=-0.02    the mean is at most 0.02 below the baseline's, on the samples that both have

pass         every value in the 95 % interval meets it
fail         none does, or more samples failed than are allowed: there is no mean to decide on
undecided    some do: too few samples; counts as failed by default, otherwise having few samples would pass
"""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, cast

from localjudge.analysis.compare import RunComparison, compare
from localjudge.errors import InputError
from localjudge.record.run import Run, as_run
from localjudge.stats.interval import Interval
from localjudge.stats.paired import Comparison, decide
from localjudge.types import Record
from localjudge.words import numbered, option, suggestion

Outcome = Literal["pass", "fail", "undecided"]
Undecided = Literal["pass", "fail"]

_FORM = re.compile(
    r"\s*(?P<metric>[^<>=\s(]+?(?:\([^()]*\))?)(?P<delta>\.delta)?\s*(?P<comparison>[<>]=?)\s*"
    r"(?P<threshold>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)\s*"
)
_EXAMPLES = "write it in quotes, like 'context_recall>=0.8' or 'context_recall.delta>=-0.02'"


class Gate(Record):
    """`metric comparison threshold`; with `delta`, about the difference from the baseline."""

    metric: str
    delta: bool
    comparison: Comparison
    threshold: float

    def __str__(self) -> str:
        return f"{self.metric}{'.delta' if self.delta else ''}{self.comparison}{self.threshold:.15g}"


class GateDecision(Record):
    """The outcome of a gate, on which value, and why. `passed` is what counts for the exit code.

    About `samples_needed` samples would decide it, if the mean stays where it is. `unpaired` samples of either run have
    no partner in the other, and no part in a difference.
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
    reason: str


def parse_gate(text: str) -> Gate:
    """A gate as it is written on the command line. Raises InputError for anything else."""
    parts = _FORM.fullmatch(text)
    if not parts:
        raise InputError(f"{text!r} is not a gate", hint=_EXAMPLES)
    threshold, delta = float(parts["threshold"]), parts["delta"] is not None
    lowest = -1 if delta else 0
    if not lowest <= threshold <= 1:
        raise InputError(f"the gate {text!r} can never be decided: its value lies in [{lowest}, 1]", hint=_EXAMPLES)
    return Gate(
        metric=parts["metric"], delta=delta, comparison=cast(Comparison, parts["comparison"]), threshold=threshold
    )


def check_metrics(gates: Sequence[Gate], metrics: Collection[str], what: str = "is not computed") -> None:
    """Raise InputError for a gate about a metric that is not among these."""
    for gate in gates:
        if gate.metric not in metrics:
            hint = suggestion(gate.metric, metrics, "the metrics")
            raise InputError(f"the gate {gate} is about {gate.metric!r}, which {what}", hint=hint)


def check_baseline(gates: Sequence[Gate], baseline: Run | None) -> None:
    """Raise InputError for a gate about a difference where there is no baseline, or it lacks the metric."""
    deltas = [gate for gate in gates if gate.delta]
    if baseline is not None:
        check_metrics(deltas, baseline.summary.metrics, "is not in the baseline")
    elif deltas:
        hint = f"name an earlier run with {option('baseline')}"
        raise InputError(f"the gate {deltas[0]} needs a baseline", hint=hint)


def decide_gate(
    gate: Gate, run: Run, comparison: RunComparison | None = None, *, undecided: Undecided = "fail"
) -> GateDecision:
    """Decide a gate on a finished run that has its metric; one about a difference on its comparison with the baseline.

    Raises InputError for such a one without a comparison.
    """
    metric = run.summary.metrics[gate.metric]
    failed, interval, unpaired, remark = metric.failed, metric.interval, 0, ""
    if gate.delta:
        if comparison is None or gate.metric not in comparison.metrics:
            raise InputError(f"the gate {gate} needs a baseline with this metric", hint="compare the run with one")
        change = comparison.metrics[gate.metric]
        failed, interval, unpaired = max(failed, change.failed_in_baseline), change.interval, change.unpaired
        remark = f"; {comparison.samples.without_partner}" if unpaired else ""
    needed, reason = None, "there is no score to decide on"
    outcome: Outcome = "undecided"
    if failed > run.max_failed:
        allowed = f"allowed: {run.max_failed:,}; the others alone decide nothing"
        outcome, reason = "fail", f"failed samples: {failed:,}, {allowed}"
    elif interval:
        outcome, needed = decide(interval, gate.comparison, gate.threshold)
        reason = _reason(gate, interval, outcome, needed)
    return GateDecision(
        gate=str(gate),
        metric=gate.metric,
        outcome=outcome,
        passed=outcome == "pass" or (outcome == "undecided" and undecided == "pass"),
        value=interval.mean if interval else None,
        ci95=interval.limits if interval else None,
        samples=interval.n if interval else 0,
        unpaired=unpaired,
        samples_needed=None if interval and interval.one_cluster else needed,
        reason=reason + remark,
    )


def _reason(gate: Gate, interval: Interval, outcome: Outcome, needed: int | None) -> str:
    shape: Callable[[float], str] = signed if gate.delta else "{:.3f}".format
    mean, low, high = map(shape, interval[:3])
    samples, what = numbered(interval.n, "sample"), "difference" if gate.delta else "mean"
    if interval.one_cluster:
        return f"{mean}, {samples}, all in one group: more groups are needed to decide"
    reason = f"{mean}, 95 % interval {low} to {high}, {samples}"
    if outcome != "undecided":
        return reason
    if needed is None:
        return f"{reason}: the {what} is the threshold itself, which no number of samples can decide"
    return f"{reason}: too few to decide; if the {what} stays at {mean}, about {needed:,} would decide it"


def signed(value: float) -> str:
    """A difference with its sign and three digits; what rounds to nothing has no sign."""
    return f"{value:+.3f}" if round(value, 3) else "0.000"


class Check(Record):
    """The comparison with the baseline, if there is one, and the decision on each gate, in their order."""

    comparison: RunComparison | None
    decisions: tuple[GateDecision, ...]

    @property
    def passed(self) -> bool:
        """Whether no gate counts as failed."""
        return all(decision.passed for decision in self.decisions)


def check(
    run: Run | str | Path,
    *,
    gates: Sequence[str] = (),
    baseline: Run | str | Path | None = None,
    undecided: Undecided = "fail",
) -> Check:
    """Compare a run with its baseline, if any, and decide the gates on their 95 % intervals.

    Each run is a `Run` or its directory. `undecided` is what an undecided gate counts as. Raises InputError for what is
    not a gate, for a gate about a metric that was not computed, or about a difference without a baseline;
    RunDirectoryError for a directory that cannot be read.
    """
    parsed = [parse_gate(gate) for gate in ([gates] if isinstance(gates, str) else gates)]
    run, before = as_run(run), None if baseline is None else as_run(baseline)
    check_baseline(parsed, before)
    comparison = compare(before, run) if before else None
    check_metrics(parsed, run.summary.metrics)
    decisions = tuple(decide_gate(gate, run, comparison, undecided=undecided) for gate in parsed)
    return Check(comparison=comparison, decisions=decisions)
