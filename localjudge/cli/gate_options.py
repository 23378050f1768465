"""What a run is held to once it is scored: a baseline, gates, and files for CI systems and people about both.

All that can be refused is refused before anything is judged.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from localjudge.errors import UsageError
from localjudge.whole_file import write_output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.analysis.check import Check
    from localjudge.analysis.corrected_means import CorrectedMeans
    from localjudge.analysis.gates import Undecided
    from localjudge.record.results import Run


_Command = TypeVar("_Command", bound=Callable[..., Any])


def gate_options(command: _Command) -> _Command:
    """Give a command the options `--baseline`, `--gate` and `--undecided`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--baseline", type=click.Path(path_type=Path), metavar="RUN", help="Also compare with this earlier run."
    ),
    click.option(
        "--gate",
        "gates",
        multiple=True,
        metavar="GATE",
        help="Promise, decided on the 95 % interval: context_recall>=0.8, or, with --baseline, "
        "context_recall.delta>=-0.02 (may be repeated). Exit code 3 if one is missed.",
    ),
    click.option(
        "--undecided",
        type=click.Choice(["pass", "fail"]),
        default="fail",
        show_default=True,
        help="What a gate counts as when there are too few samples to decide it.",
    ),
)


class Checks:
    """The baseline and the gates of a run to come. Raises UsageError for a gate that could not be decided."""

    def __init__(
        self,
        gates: Sequence[str],
        *,
        baseline: Path | None,
        undecided: "Undecided",
        junit: Path | None = None,
        markdown: Path | None = None,
        with_texts: bool = False,
    ) -> None:
        from localjudge.analysis.gates import parse_gate, refuse_without_baseline
        from localjudge.record.results import Run

        self._gates = [parse_gate(gate) for gate in gates]
        self._baseline = Run.open(baseline) if baseline else None
        self._undecided = undecided
        self._junit, self._markdown, self._with_texts = junit, markdown, with_texts
        refuse_without_baseline(self._gates, self._baseline)
        if with_texts and not markdown:
            raise UsageError("--with-texts is for --markdown", hint="add --markdown FILE, or omit --with-texts")
        if junit and not gates:
            raise UsageError(
                "--junit writes the outcome of gates, and there are none", hint="add --gate, or leave out --junit"
            )

    def refuse_unknown(self, metrics: Collection[str]) -> None:
        """Raise UsageError for a gate about a metric that is not going to be computed."""
        from localjudge.analysis.gates import refuse_unknown

        refuse_unknown(self._gates, metrics)
        if self._baseline is not None and not self._baseline.summary.metrics.keys() & set(metrics):
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
        _write(self._markdown, run_markdown(run, found, with_texts=self._with_texts))
        return found

    def report(
        self, run: "Run", found: "Check", out: Path | None = None, corrected: "CorrectedMeans | None" = None
    ) -> Path:
        """Write the run as a page, with what was found: into its directory, if no file is named."""
        from localjudge.report.page.html_report import write_checked_report

        return write_checked_report(run, found, self._baseline, out, corrected)


def _write(file: Path | None, content: str) -> None:
    if file is not None:
        write_output(file, [content.encode()])


def values(found: "Check") -> dict[str, Any]:
    """For JSON: `comparison` and `gates`, where they were asked for."""
    given: dict[str, Any] = {}
    if found.comparison:
        given["comparison"] = found.comparison.model_dump(mode="json")
    if found.decisions:
        given["gates"] = [decision.model_dump(mode="json") for decision in found.decisions]
    return given


def views(found: "Check", report: Path | None = None) -> "list[RenderableType]":
    """For people: the same, and where the report is."""
    from rich.padding import Padding

    from localjudge.report.comparison_view import comparison_view, gates_view
    from localjudge.report.terminal import safe_text

    shown = [comparison_view(found.comparison)] if found.comparison else []
    shown += [gates_view(found.decisions)] if found.decisions else []
    return [*shown, Padding(safe_text(f"report {report}"), (0, 1), expand=False)] if report else shown
