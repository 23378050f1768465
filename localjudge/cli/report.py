"""`localjudge report`: a finished run as one HTML page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.gate_options import gate_options
from localjudge.cli.label_options import label_options
from localjudge.cli.main import ExitCode
from localjudge.cli.option_groups import GroupedCommand

if TYPE_CHECKING:
    from localjudge.analysis.corrected_means import CorrectedMeans
    from localjudge.analysis.gates import Undecided
    from localjudge.record.results import Run


@click.command("report", cls=GroupedCommand, example="localjudge report runs/new --baseline runs/old")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@gate_options
@label_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: report.html in RUN.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written, and the gates, as JSON.")
def command(
    directory: Path,
    baseline: Path | None,
    gates: tuple[str, ...],
    undecided: "Undecided",
    out: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Write RUN as one HTML page: metrics, every sample with its judged sentences, and what moved since a baseline.

    The page is one file that loads nothing and sends nothing; it holds the texts of the run, and only you can read it.
    An earlier report is replaced, and no other file.

    Exit code: 0 written; 3 written, and a gate was missed; 1 the run cannot be opened or the page not be written.
    """
    from localjudge.cli.gate_options import Checks, values, views
    from localjudge.record.results import Run
    from localjudge.report.terminal import put, show

    checks = Checks(gates, baseline=baseline, undecided=undecided)
    run = Run.open(directory)
    checks.refuse_unknown(run.summary.metrics)
    found = checks.check(run)
    corrected = _corrected(run, **given)
    path = checks.report(run, found, out, corrected)
    if as_json:
        by_labels = {"corrected": corrected.model_dump(mode="json")} if corrected else {}
        written = {"file": str(path), "bytes": path.stat().st_size, **by_labels, **values(found)}
        put(f"{json.dumps(written, indent=2)}\n")
    else:
        show(*views(found, path))
    return ExitCode.DONE if found.kept else ExitCode.GATE_MISSED


def _corrected(run: "Run", *, labels: Path | None, foreign_labels: bool) -> "CorrectedMeans | None":
    from localjudge.analysis.corrected_means import corrected_means

    return corrected_means(run, labels, foreign_labels=foreign_labels) if labels else None
