"""`localjudge combine`: one run of several judges' runs on the same data. A thin layer over `localjudge.combine`."""

import json
import sys
from contextlib import closing
from pathlib import Path

import click

from localjudge.cli.main import ExitCode
from localjudge.cli.option_groups import GroupedCommand


@click.command("combine", cls=GroupedCommand, example="localjudge combine runs/by-a runs/by-b --out runs/both")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Directory of the new run.")
@click.option(
    "--weights",
    multiple=True,
    metavar="NAME|FILE",
    help="Calibration of a combined run of the same judges (calibrate --weights): its weights and threshold decide the "
    "metrics that ask its question (may be repeated).",
)
@click.option("--quiet", is_flag=True, help="No progress: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(runs: tuple[Path, ...], out: Path, weights: tuple[str, ...], quiet: bool, as_json: bool) -> int:
    """Combine runs of different judges on the same data, with the same metrics: the mean of their log odds decides.

    The result is a run that can be shown, compared, reported, exported and held to gates like any other. No model is
    opened, and the runs are not changed.
    """
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.table import summary_values, summary_view
    from localjudge.report.terminal import put, show
    from localjudge.run.combine import combine_runs

    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        run = combine_runs(runs, out, weights=weights, progress=progress)
    if as_json:
        put(f"{json.dumps({'run': str(run.directory), **summary_values(run)}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed))
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(run.max_failed) else ExitCode.DONE
