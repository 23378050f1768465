"""`localjudge merge`: one run of the shards that several processes judged. A thin layer over `localjudge.merge`."""

import json
import sys
from contextlib import closing
from pathlib import Path

import click

from localjudge.cli.main import ExitCode
from localjudge.cli.option_groups import GroupedCommand


@click.command("merge", cls=GroupedCommand, example="localjudge merge runs/data-3f9a1c2e-shard-* --out whole")
@click.argument("shards", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Directory of the whole run."
)
@click.option("--quiet", is_flag=True, help="No progress: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(shards: tuple[Path, ...], out: Path, quiet: bool, as_json: bool) -> int:
    """Make one run of all shards that `localjudge run --shard I/N` left in these directories, in any order.

    Its result files are those of one run over all of the data, byte for byte, and it can be shown, verified, compared
    and rescored like one. No model is opened, and the shards are not changed. They have to be of one judge, on one kind
    of processor; one that is missing, or there twice, is named.
    """
    from localjudge.record.merge import merge_shards
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.table import summary_values, summary_view
    from localjudge.report.terminal import put, show

    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        run = merge_shards(shards, out, progress)
    if as_json:
        put(f"{json.dumps({'run': str(run.directory), **summary_values(run)}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed))
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(run.max_failed) else ExitCode.DONE
