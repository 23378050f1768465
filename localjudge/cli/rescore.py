"""`localjudge rescore`: the samples of a run once more, with another threshold or other metrics."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import metrics, settings
from localjudge.run.settings import RESCORE_OPTIONS

if TYPE_CHECKING:
    from localjudge.run.settings import Options


@click.command("rescore", cls=GroupedCommand, example="localjudge rescore runs/answers-3f9a1c2e --threshold 0.7")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@metrics("those of RUN.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<data>-<hash>.")
@click.option(
    "--judge",
    metavar="NAME|PATH|URL",
    help="Where the model of RUN is now, if it was moved.",
)
@settings(*RESCORE_OPTIONS, default="as in RUN")
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(directory: Path, quiet: bool, as_json: bool, **options: Any) -> int:
    """Score the samples of RUN with another threshold or other metrics, in a run directory of its own.

    What RUN asked is not asked again, and the data is not needed. RUN is not changed.
    """
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.table import summary_values, summary_view
    from localjudge.report.terminal import put, show
    from localjudge.run.job import rescore_run

    if quiet:
        be_quiet()
    judge, out, names = (options.pop(name) for name in ("judge", "out", "metrics"))
    given = cast("Options", {name: value for name, value in options.items() if value is not None})
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        run = rescore_run(directory, names, given, out=out, judge=judge, progress=progress)
    if as_json:
        put(f"{json.dumps({'run': str(run.directory), **summary_values(run)}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed))
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(run.max_failed) else ExitCode.DONE
