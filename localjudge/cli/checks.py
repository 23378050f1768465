"""What `localjudge run` holds a run to once it has scored it: a baseline, gates, and a JUnit file for CI systems.

All that can be refused is refused before anything is judged.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localjudge.errors import UsageError

if TYPE_CHECKING:
    from localjudge.analysis.comparison import RunComparison
    from localjudge.analysis.gates import GateDecision, Undecided
    from localjudge.record.results import Run


class Findings(NamedTuple):
    """The comparison with the baseline, if there is one, and what became of the gates."""

    comparison: "RunComparison | None"
    decisions: tuple["GateDecision", ...]

    @property
    def missed(self) -> bool:
        """Whether a gate counts as missed."""
        return not all(decision.kept for decision in self.decisions)

    def values(self) -> dict[str, Any]:
        """For JSON: `comparison` and `gates`, where they were asked for."""
        found: dict[str, Any] = {}
        if self.comparison:
            found["comparison"] = self.comparison.model_dump(mode="json")
        if self.decisions:
            found["gates"] = [decision.model_dump(mode="json") for decision in self.decisions]
        return found

    def show(self) -> None:
        """For people: the same."""
        from localjudge.report.comparison import comparison_view, moved_view
        from localjudge.report.gates import gates_view
        from localjudge.report.table import terminal

        console = terminal()
        if self.comparison:
            console.print(comparison_view(self.comparison))
            console.print(moved_view(self.comparison))
        if self.decisions:
            console.print(gates_view(self.decisions))


class Checks:
    """The baseline and the gates of a run to come. Raises UsageError for a gate that could not be decided."""

    def __init__(
        self, gates: Sequence[str], *, baseline: Path | None, undecided: "Undecided", junit: Path | None
    ) -> None:
        from localjudge.analysis.gates import parse_gate, refuse_without_baseline
        from localjudge.record.results import Run
        from localjudge.report.junit import unfinished

        self._gates = [parse_gate(gate) for gate in gates]
        self._baseline = Run.open(baseline) if baseline else None
        self._undecided = undecided
        self._junit = junit
        refuse_without_baseline(self._gates, self._baseline)
        if junit and not gates:
            raise UsageError("--junit tells of gates, and there are none", hint="add --gate, or leave out --junit")
        self._write(unfinished(self._gates))

    def findings(self, run: "Run") -> Findings:
        """Compare and decide; the JUnit file is written anew."""
        from localjudge.analysis.comparison import compare
        from localjudge.analysis.gates import decide_gates
        from localjudge.report.junit import finished

        comparison = compare(self._baseline, run) if self._baseline else None
        decisions = decide_gates(self._gates, run, comparison, undecided=self._undecided)
        self._write(finished(decisions, {"run": str(run.directory), "signature": run.summary.signature}))
        return Findings(comparison, decisions)

    def _write(self, content: str) -> None:
        if self._junit is None:
            return
        try:
            self._junit.write_text(content, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{self._junit} cannot be written: {error.strerror}", hint="name another file") from error
