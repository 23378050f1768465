"""What `localjudge run` holds a run to once it has scored it: a baseline, gates, and files for CI systems about both.

All that can be refused is refused before anything is judged.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localjudge.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.analysis.check import Check
    from localjudge.analysis.gates import Undecided
    from localjudge.record.results import Run


class Checks:
    """The baseline and the gates of a run to come. Raises UsageError for a gate that could not be decided."""

    def __init__(
        self,
        gates: Sequence[str],
        *,
        baseline: Path | None,
        undecided: "Undecided",
        junit: Path | None,
        markdown: Path | None,
    ) -> None:
        from localjudge.analysis.gates import parse_gate, refuse_without_baseline
        from localjudge.record.results import Run

        self._gates = [parse_gate(gate) for gate in gates]
        self._baseline = Run.open(baseline) if baseline else None
        self._undecided = undecided
        self._junit, self._markdown = junit, markdown
        refuse_without_baseline(self._gates, self._baseline)
        if junit and not gates:
            raise UsageError(
                "--junit writes the outcome of gates, and there are none", hint="add --gate, or leave out --junit"
            )

    def refuse_unknown(self, metrics: Collection[str]) -> None:
        """Raise UsageError for a gate about a metric that is not going to be computed."""
        from localjudge.analysis.gates import refuse_unknown

        refuse_unknown(self._gates, metrics)
        if self._baseline and not self._baseline.summary.metrics.keys() & set(metrics):
            it_has = ", ".join(self._baseline.summary.metrics)
            raise UsageError(
                f"the baseline {self._baseline.directory} has no metric in common with this run",
                hint=f"it has {it_has}; name one of them with --metrics, or another baseline",
            )

    def begin(self) -> None:
        """Write files that cannot be taken for those of an earlier run."""
        from localjudge.report.junit import unfinished
        from localjudge.report.markdown import unfinished_markdown

        _write(self._junit, unfinished(self._gates))
        _write(self._markdown, unfinished_markdown())

    def check(self, run: "Run") -> "Check":
        """Compare and decide; the files are written anew."""
        from localjudge.analysis.check import check
        from localjudge.report.junit import finished
        from localjudge.report.markdown import run_markdown

        found = check(
            run, gates=[str(gate) for gate in self._gates], baseline=self._baseline, undecided=self._undecided
        )
        properties = {"run": str(run.directory), "judge": str(run.judge), "signature": run.summary.signature}
        _write(self._junit, finished(found.decisions, properties))
        _write(self._markdown, run_markdown(run, found))
        return found


def _write(file: Path | None, content: str) -> None:
    if file is None:
        return
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", hint="name another file") from error


def values(found: "Check") -> dict[str, Any]:
    """For JSON: `comparison` and `gates`, where they were asked for."""
    given: dict[str, Any] = {}
    if found.comparison:
        given["comparison"] = found.comparison.model_dump(mode="json")
    if found.decisions:
        given["gates"] = [decision.model_dump(mode="json") for decision in found.decisions]
    return given


def views(found: "Check") -> "list[RenderableType]":
    """For people: the same."""
    from localjudge.report.comparison_view import comparison_view
    from localjudge.report.gates_view import gates_view

    shown = [comparison_view(found.comparison)] if found.comparison else []
    return [*shown, gates_view(found.decisions)] if found.decisions else shown
