"""Check the gates of a finished run, with its baseline and the labels of both.

`localjudge.analysis.gates` reads and decides a single gate.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, get_args

from localjudge.analysis.breakdowns import Slice, slices
from localjudge.analysis.compare import compare
from localjudge.analysis.comparison import ComparedSlice, Obstacle, RunComparison
from localjudge.analysis.gates import (
    Gate,
    GateDecision,
    Part,
    decide_gate,
    parse_gate,
)
from localjudge.errors import InputError
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.label_rows import LabelRow, stored_labels
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.run_rows import column_values, name_slice
from localjudge.text.names import fold
from localjudge.types import Record
from localjudge.words import option, option_name, suggestion

Undecided = Literal["pass", "fail"]
"""What a gate counts as that too few samples or labels leave undecided."""


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


def checked_obstacles(names: Collection[str]) -> tuple[Obstacle, ...]:
    """Return the kinds of differences in a fixed order. Raises InputError for an unknown one."""
    kinds = get_args(Obstacle)
    listed = list(names)
    if isinstance(names, str):
        listed = [names]
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
    if isinstance(gates, str):
        gates = [gates]
    parsed = [parse_gate(text) for text in gates]
    run = as_run(run)
    baseline_run = None
    if baseline is not None:
        baseline_run = as_run(baseline)
    check_baseline(parsed, baseline_run)
    # Two spellings of one gate, such as of a column in quotes, are one.
    parsed = list(dict.fromkeys(resolve_column(gate, run) for gate in parsed))
    comparison = None
    other_labels: Sequence[LabelRow] = ()
    if baseline_run is not None:
        comparison = compare(baseline_run, run)
        other_labels = stored_labels(baseline_run.directory)
    check_metrics(parsed, run.summary.metrics)
    labels = read_run_labels(run, other_labels)
    decisions = []
    for gate, part in _find_parts(parsed, run, baseline_run, other_labels):
        obstacles = _find_obstacles(gate, part, comparison, allowed)
        decision = decide_gate(gate, part, run, comparison, labels, obstacles)
        has_scores = decision.value is not None or decision.labels is not None
        may_pass = undecided == "pass" and has_scores and not obstacles
        if decision.outcome == "undecided" and may_pass:
            decision = decision.model_copy(update={"passed": True})
        decisions.append(decision)
    return Check(
        comparison=comparison,
        decisions=tuple(decisions),
        labels=labels,
        allow_different=allowed,
    )


def _find_parts(
    gates: Sequence[Gate],
    run: RunRecord,
    baseline: RunRecord | None,
    other_labels: Sequence[LabelRow],
) -> list[tuple[Gate, Part]]:
    """Return each gate with its slice, which is compared with the baseline for a difference."""
    slices_of_columns: dict[tuple[str, bool], Sequence[Slice | ComparedSlice]] = {}
    found: list[tuple[Gate, Part]] = []
    for gate in gates:
        column = gate.column
        if column is None:
            found.append((gate, None))
            continue
        if (column, gate.delta) not in slices_of_columns:
            if gate.delta and baseline is not None:
                compared = compare(baseline, run, by=column).by
                assert compared  # a column was given
                slices_of_columns[column, True] = compared.slices
            else:
                slices_of_columns[column, gate.delta] = slices(run, column, other_labels).slices
        wanted = fold(gate.value or "")
        values: list[str] = []
        matching: list[tuple[Gate, Part]] = []
        for part in slices_of_columns[column, gate.delta]:
            value = name_slice(part.value)
            values.append(value)
            if fold(value) == wanted:
                matching.append((gate, part))
        if not matching:
            hint = suggestion(gate.value or "", values, "its values", show=excerpt)
            problem = f"the gate {gate} uses a value that the column {column} does not have"
            raise InputError(problem, hint=hint)
        found.append(matching[0])
    return found


def _find_obstacles(
    gate: Gate, part: Part, comparison: RunComparison | None, allowed: Collection[Obstacle]
) -> dict[Obstacle, str]:
    """Return why the scores of a difference are not comparable, without what is allowed."""
    if comparison is None or not gate.delta:
        return {}
    assert not isinstance(part, Slice)
    obstacles = comparison.obstacles(gate.metric, part)
    return {kind: words for kind, words in obstacles.items() if kind not in allowed}


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


def resolve_column(gate: Gate, run: RunRecord) -> Gate:
    """Return the gate with the first column of the data that its text can mean.

    The name of a column, and a value, may contain `=`. A name in quotes is taken as it is.
    """
    if gate.column is None or gate.value is None or "=" not in gate.value:
        return gate
    if "=" in gate.column:  # was in quotes
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
