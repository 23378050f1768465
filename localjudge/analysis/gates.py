"""Gates as users write them.

context_recall>=0.8            the mean is at least 0.8
context_recall.delta>=-0.02    the mean is at most 0.02 below the baseline's, on the shared samples
context_recall[topic=law]>=0.8 the mean of the samples with this value in a column is at least 0.8
context_recall["a=b"=law]>=0.8 the same; a column with = or a bracket in its name is in quotes

`localjudge.analysis.check` decides them.
"""

import re
from collections.abc import Collection, Sequence
from typing import cast

from localjudge.errors import InputError
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import column_values
from localjudge.stats.paired import Comparison
from localjudge.types import Record
from localjudge.words import option, suggestion

_FORM = re.compile(
    r"\s*(?P<metric>[^<>=\s(]+?(?:\([^()]*\))?)"
    r"(?:\[(?P<column>[^\[\]=\"]+|\"[^\"]+\")=(?P<value>.*)\])?(?P<delta>\.delta)?"
    r"\s*(?P<comparison>[<>]=?)\s*"
    r"(?P<threshold>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)\s*"
)
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
