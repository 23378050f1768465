"""Gates on a finished run, decided on the 95 % interval, corrected by labels if there are enough.

context_recall>=0.8            the mean is at least 0.8
context_recall.delta>=-0.02    the mean is at most 0.02 below the baseline's, on the shared samples
context_recall[topic=law]>=0.8 the mean of the samples with this value in a column is at least 0.8
context_recall["a=b"=law]>=0.8 the same; a column with = or a bracket in its name is in quotes

pass         every value in the interval meets the gate
fail         no value does, or more samples failed than allowed
undecided    too few samples or labels; counts as failed by default, so that small runs cannot pass

A gate on a difference is also undecided, and failed, if the judges or the questions of paired
samples differ, unless `allow_different` allows it: the difference would not be an effect of the
evaluated system.

Where labels exist, they decide: with too few labels for an interval a gate is undecided, whatever
the judge says.
"""

import math
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from localjudge.analysis.compare import ComparedSlice, Obstacle, RunComparison, SliceChange, compare
from localjudge.analysis.corrected_change import CorrectedDifference
from localjudge.analysis.headline import withholds_mean
from localjudge.analysis.slices import Slice, slices
from localjudge.errors import InputError
from localjudge.labels.corrected_mean import NO_SHARE, CorrectedMean
from localjudge.labels.decisions import SECONDS_A_LABEL
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.run_directory.column_values import NO_VALUE, column_values
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.files import allowed_failures
from localjudge.run_directory.label_rows import LabelRow, stored_labels
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.stats.interval import Interval
from localjudge.stats.paired import Comparison, Decision, decide, labels_needed
from localjudge.text.folding import fold
from localjudge.types import Record
from localjudge.words import numbered, option, option_name, suggestion

Outcome = Literal["pass", "fail", "undecided"]
Undecided = Literal["pass", "fail"]

_FORM = re.compile(
    r"\s*(?P<metric>[^<>=\s(]+?(?:\([^()]*\))?)"
    r"(?:\[(?P<column>[^\[\]=\"]+|\"[^\"]+\")=(?P<value>.*)\])?(?P<delta>\.delta)?"
    r"\s*(?P<comparison>[<>]=?)\s*"
    r"(?P<threshold>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)\s*"
)
NO_LABELS = "0 labels"
BY_LABELS = "labels"
"""Method of an interval by labels."""
_EXAMPLES = "write it in quotes, like 'context_recall>=0.8' or 'context_recall.delta>=-0.02'"


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
            is_plain = not re.search(r"[\[\]=]", self.column)
            column = self.column if is_plain else f'"{self.column}"'
            name += f"[{column}={self.value}]"
        if self.delta:
            name += ".delta"
        return f"{name}{self.comparison}{self.threshold:.15g}"


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
    minimum = -1 if delta else 0
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


def check_metrics(
    gates: Sequence[Gate], metrics: Collection[str], what: str = "is not computed"
) -> None:
    for gate in gates:
        if gate.metric not in metrics:
            hint = suggestion(gate.metric, metrics, "the metrics")
            raise InputError(f"the gate {gate} uses {gate.metric!r}, which {what}", hint=hint)


def check_baseline(gates: Sequence[Gate], baseline: RunRecord | None) -> None:
    """Raise InputError for a gate on a difference without a baseline that has the metric."""
    deltas = [gate for gate in gates if gate.delta]
    if baseline is not None:
        check_metrics(deltas, baseline.summary.metrics, "is not in the baseline")
    elif deltas:
        hint = f"name an earlier run with {option('baseline')}"
        raise InputError(f"the gate {deltas[0]} needs a baseline", hint=hint)


class _Failures(NamedTuple):
    """Failed samples of a metric in a run or slice, and the allowed number.

    `bounds` are the means with the worst and the best scores of the failed samples.
    """

    failed: int
    allowed: int
    bounds: tuple[float, float] | None = None

    @property
    def too_many(self) -> str:
        if self.failed <= self.allowed:
            return ""
        return f"failed samples: {self.failed:,}, more than allowed ({self.allowed:,})"

    @property
    def remark(self) -> str:
        """Effect of allowed failures on the mean, or nothing."""
        if not self.failed or self.bounds is None:
            return ""
        low, high = self.bounds
        mean = f"the mean would be {low:.3f} to {high:.3f}"
        return f"failed samples: {self.failed:,}, with whose scores {mean}"


class _Basis(NamedTuple):
    """What decides a gate: the interval, corrected by labels if `corrected`.

    With an `obstacle`, the labels are too few for an interval, so the gate stays undecided.
    """

    interval: Interval | None
    judge: Interval | None
    corrected: CorrectedMean | CorrectedDifference | None
    failures: "_Failures"
    unpaired: int = 0
    obstacle: str = ""
    remark: str = ""
    labels: int | None = None
    labels_needed: int | None = None

    def labels_to_decide(self, threshold: float) -> int | None:
        """Return the number of labels that would decide the gate at the same mean, or None."""
        if not (self.interval and self.judge and self.corrected):
            return None
        # A difference uses equal numbers of labels of each run, which may share a statement.
        labels, statements = self.corrected.labels, self.corrected.statements
        look = labels
        planned = None
        if isinstance(self.corrected, CorrectedDifference):
            look = self.corrected.look
        elif self.corrected.is_planned:
            planned = labels
        statements_of_look = round(statements * look / labels)
        needed = labels_needed(
            self.interval, self.judge, threshold, look, statements_of_look, planned
        )
        return needed and round(needed * labels / look)


_Part = Slice | ComparedSlice | None


def _find_basis(
    gate: Gate,
    run: RunRecord,
    comparison: RunComparison | None,
    labels: RunLabels | None,
    part: _Part,
) -> _Basis:
    if gate.delta:
        assert comparison  # `check_baseline` has refused the gate otherwise
        return _find_basis_of_difference(gate, run, comparison, part)
    summary = run.summary.metrics[gate.metric]
    samples = run.summary.samples
    of_run = labels.corrected.get(gate.metric) if labels else None
    corrected = of_run
    if isinstance(part, Slice):
        summary = part.metrics[gate.metric]
        samples = part.samples
        corrected = part.corrected.get(gate.metric)
    allowed = allowed_failures(run.manifest.environment.settings.max_failed, samples)
    failures = _Failures(summary.failed, allowed, summary.bounds)
    judge = summary.interval
    if corrected and corrected.mean is not None and (corrected.ci95 or corrected.is_complete):
        low, high = corrected.ci95 or (0.0, 1.0)
        scored = summary.scored
        interval = Interval(corrected.mean, low, high, BY_LABELS, scored, corrected.clusters)
        remark = corrected.contradiction or ""
        return _Basis(interval, judge, corrected, failures, remark=remark)
    basis = _Basis(judge, judge, None, failures)
    if of_run and of_run.counts:
        return basis._replace(**_obstacle(corrected, of_run))
    return basis


def _find_basis_of_difference(
    gate: Gate, run: RunRecord, comparison: RunComparison, part: _Part
) -> _Basis:
    whole = comparison.metrics[gate.metric]
    change: SliceChange = whole
    unpaired = whole.unpaired
    if isinstance(part, ComparedSlice):
        change = part.metrics[gate.metric]
        unpaired = part.samples - part.paired
    failures = _Failures(run.summary.metrics[gate.metric].failed, run.max_failed)
    if whole.failed_in_baseline > whole.allowed_in_baseline:
        failures = _Failures(whole.failed_in_baseline, whole.allowed_in_baseline)
    basis = _Basis(change.interval, change.judge_interval, change.headline, failures, unpaired)
    if whole.corrected is None or change.headline:
        return basis
    corrected = change.corrected or CorrectedDifference(remark=NO_LABELS)
    remark = f"not corrected by labels: {corrected.remark}"
    contradiction = whole.corrected.contradiction
    if contradiction:
        remark = f"{remark}; {contradiction}"
    elif corrected.remark == NO_SHARE or not whole.corrected.is_labelled:
        return basis._replace(remark=remark)
    return basis._replace(obstacle=remark, labels=corrected.labels)


def _obstacle(corrected: CorrectedMean | None, of_run: CorrectedMean) -> dict[str, Any]:
    """Return why labels that exist decide nothing, or only a remark if the judge may decide.

    The judge decides if labels can never correct the metric, or if they are another run's and were
    drawn from other statements, unless the labels contradict the judge.
    """
    assert of_run.counts  # the run has labels
    if corrected is None or corrected.counts is None:
        return {"obstacle": f"{NO_LABELS}; in the whole run, {of_run.counts.in_words}", "labels": 0}
    says = corrected.contradiction or corrected.counts.in_words
    if not withholds_mean(corrected):
        return {"remark": f"{corrected.remark}; {says}"}
    needed = None if corrected.needed is None else corrected.labelled + corrected.needed
    return {
        "obstacle": f"{corrected.shortage}; {says}",
        "labels": corrected.counts.labelled,
        "labels_needed": needed,
    }


def _is_census(corrected: CorrectedMean | CorrectedDifference | None) -> bool:
    """Return whether every statement behind the mean has a label, so that none was passed over."""
    return isinstance(corrected, CorrectedMean) and corrected.is_complete


def decide_gate(
    gate: Gate,
    run: RunRecord,
    comparison: RunComparison | None,
    labels: RunLabels | None,
    undecided: Undecided,
    part: _Part = None,
    allow_different: Collection[Obstacle] = (),
) -> GateDecision:
    basis = _find_basis(gate, run, comparison, labels, part)
    interval = None if basis.obstacle else basis.interval
    decision = Decision("undecided")
    more = basis.labels_needed
    reason = "no sample has a score"
    obstacles = _obstacles(gate, comparison, part, allow_different)
    if basis.failures.too_many:
        decision = Decision("fail")
        reason = basis.failures.too_many
    elif obstacles:
        allow = option("allow_different", list(obstacles))
        reason = f"not comparable: {'; '.join(obstacles.values())} (to decide it anyway: {allow})"
    elif basis.obstacle:
        reason = basis.obstacle
    elif interval:
        decision = decide(interval, gate.comparison, gate.threshold)
        if decision.samples_needed:
            more = basis.labels_to_decide(gate.threshold)
        pace = labels.seconds_a_label if labels else SECONDS_A_LABEL
        reason = _reason(gate, interval, decision, basis.corrected, more, pace)
        if labels and not basis.corrected:
            reason = f"by the judge only: {reason}"
        elif labels and labels.is_incomplete and not _is_census(basis.corrected):
            decision = Decision("undecided")
        warnings = labels.warnings if labels and basis.corrected else ()
        remarks = [reason, basis.remark, *warnings, basis.failures.remark]
        reason = "; ".join(filter(None, remarks))
    if basis.unpaired and comparison:
        reason += f"; {comparison.samples.without_partner}"
    is_passed = decision.outcome == "pass"
    if decision.outcome == "undecided":
        is_passed = undecided == "pass" and not obstacles
    has_limits = interval is not None and not interval.one_cluster
    return GateDecision(
        gate=str(gate),
        metric=gate.metric,
        outcome=decision.outcome,
        passed=is_passed,
        value=interval.mean if interval else None,
        ci95=interval.limits if interval else None,
        samples=interval.n if interval else 0,
        unpaired=basis.unpaired,
        samples_needed=decision.samples_needed if has_limits and not more else None,
        corrected=basis.corrected is not None,
        labels=basis.corrected.labels if basis.corrected else basis.labels,
        labels_needed=more,
        reason=reason,
    )


def _obstacles(
    gate: Gate, comparison: RunComparison | None, part: _Part, allowed: Collection[Obstacle]
) -> dict[Obstacle, str]:
    """Return why a difference cannot be decided, except for allowed reasons."""
    if comparison is None or not gate.delta:
        return {}
    compared_part = part if isinstance(part, ComparedSlice) else None
    obstacles = comparison.obstacles(gate.metric, compared_part)
    return {kind: words for kind, words in obstacles.items() if kind not in allowed}


def _reason(
    gate: Gate,
    interval: Interval,
    decision: Decision,
    corrected: CorrectedMean | CorrectedDifference | None,
    needed_labels: int | None,
    pace: float,
) -> str:
    write: Callable[[float], str] = "{:.3f}".format
    quantity = "mean"
    if gate.delta:
        write = signed
        quantity = "difference"
    mean = write(interval.mean)
    samples = numbered(interval.n, "sample")
    if interval.one_cluster:
        return f"{mean}, {samples}, all in one group: a decision needs more groups"
    reason = f"{mean}, 95 % interval {write(interval.low)} to {write(interval.high)}, {samples}"
    if corrected:
        reason = f"corrected by {corrected.in_words}: {reason}"
    if decision.outcome != "undecided":
        return reason
    if decision.samples_needed is None:
        equal = f"the {quantity} equals the threshold"
        return f"{reason}: {equal}, which no number of samples can decide"
    shortage = "samples"
    needed = f"{decision.samples_needed:,}"
    if needed_labels and corrected:
        minutes = math.ceil((needed_labels - corrected.labelled) * pace / 60)
        shortage = "labels"
        needed = f"{needed_labels:,} labels ({numbered(minutes, 'minute')} more)"
    elif corrected:
        needed = f"{needed} with proportionally more labels"
    condition = f"if the {quantity} stays at {mean}"
    return f"{reason}: too few {shortage} to decide; {condition}, about {needed} would decide it"


def signed(value: float) -> str:
    return f"{value:+.3f}" if round(value, 3) else "0.000"


class Check(Record):
    """Comparison with the baseline, if any, decisions in the order of the gates, and labels."""

    comparison: RunComparison | None
    decisions: tuple[GateDecision, ...]
    labels: RunLabels | None = None
    allow_different: tuple[Obstacle, ...] = ()

    @property
    def passed(self) -> bool:
        return all(decision.passed for decision in self.decisions)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        if not self.decisions:
            return "no gates"
        decisions = [f"{each.outcome}: {each.gate}: {each.reason}" for each in self.decisions]
        return "; ".join(decisions)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


def _with_column(gate: Gate, run: RunRecord) -> Gate:
    """Return the gate with the first column of the data that its text can mean.

    The name of a column, and a value, may contain `=`.
    """
    if gate.column is None or gate.value is None or "=" not in gate.value:
        return gate
    parts = f"{gate.column}={gate.value}".split("=")
    for count in range(1, len(parts)):
        column = "=".join(parts[:count])
        try:
            column_values(run, column)
        except InputError:
            continue
        return gate.model_copy(update={"column": column, "value": "=".join(parts[count:])})
    return gate


def _select_part(gate: Gate, parts: Sequence[Slice | ComparedSlice]) -> Slice | ComparedSlice:
    wanted = gate.value or ""
    values = []
    for part in parts:
        value = NO_VALUE if part.value is None else part.value
        if fold(value) == fold(wanted):
            return part
        values.append(value)
    hint = suggestion(wanted, values, "its values", show=excerpt)
    problem = f"the gate {gate} uses a value that the column {gate.column} does not have"
    raise InputError(problem, hint=hint)


def checked_obstacles(names: Collection[str]) -> tuple[Obstacle, ...]:
    """Return the kinds of differences in a fixed order. Raises InputError for an unknown one."""
    kinds = get_args(Obstacle)
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if name not in kinds:
            hint = f"it takes {' and '.join(map(repr, kinds))}"
            raise InputError(f"{option_name('allow_different')} got {name!r:.80}", hint=hint)
    return tuple(kind for kind in kinds if kind in listed)


def check(
    run: RunRecord | str | Path,
    *,
    gates: Sequence[str] = (),
    baseline: RunRecord | str | Path | None = None,
    undecided: Undecided = "fail",
    allow_different: Collection[Obstacle] = (),
) -> Check:
    """Compare a run with its baseline, if any, and decide the gates on their 95 % intervals.

    The intervals are corrected by labels where possible.

    `allow_different` also decides gates on a difference of runs with other "judges", or other
    "questions" of samples. Raises InputError for an invalid gate, a metric that was not computed,
    or a difference without a baseline, and RunDirectoryError for an unreadable directory.
    """
    if undecided not in get_args(Undecided):
        words = [option("undecided", word) for word in get_args(Undecided)]
        raise InputError(
            f"{option_name('undecided')} must be 'pass' or 'fail', got {undecided!r:.80}",
            hint=f"write {' or '.join(words)}",
        )
    allowed = checked_obstacles(allow_different)
    texts = [gates] if isinstance(gates, str) else gates
    parsed = [parse_gate(text) for text in texts]
    run = as_run(run)
    baseline_run = None if baseline is None else as_run(baseline)
    check_baseline(parsed, baseline_run)
    parsed = [_with_column(gate, run) for gate in parsed]
    comparison = None
    other_labels: Sequence[LabelRow] = ()
    if baseline_run is not None:
        comparison = compare(baseline_run, run)
    check_metrics(parsed, run.summary.metrics)
    if baseline_run is not None:
        other_labels = stored_labels(baseline_run.directory)
    labels = read_run_labels(run, other_labels)

    @cache
    def read_parts(column: str, *, delta: bool) -> Sequence[Slice | ComparedSlice]:
        if delta and baseline_run is not None:
            by = compare(baseline_run, run, by=column).by
            return by.slices if by else ()
        return slices(run, column, other_labels).slices

    decisions = []
    for gate in parsed:
        part: _Part = None
        if gate.column:
            part = _select_part(gate, read_parts(gate.column, delta=gate.delta))
        decision = decide_gate(
            gate, run, comparison, labels, undecided, part=part, allow_different=allowed
        )
        decisions.append(decision)
    return Check(
        comparison=comparison,
        decisions=tuple(decisions),
        labels=labels,
        allow_different=allowed,
    )
