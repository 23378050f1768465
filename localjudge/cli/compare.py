"""`localjudge compare`: what changed from one run to another."""

from pathlib import Path

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.errors import UsageError


@click.command("compare", cls=GroupedCommand, example="localjudge compare runs/before runs/after --moved 3")
@click.argument("baseline", metavar="A", type=click.Path(path_type=Path))
@click.argument("run", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--moved",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many of the samples that moved most to show.",
)
@click.option("--by", metavar="COLUMN", help="Also compare each metric by the values of a column of the data of B.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(baseline: Path, run: Path, moved: int, by: str | None, as_json: bool) -> None:
    """Compare run B, the new one, with run A, the baseline, sample by sample.

    Samples are paired by id, those left by content, and those left then by question. Every difference is B - A.
    """
    from localjudge.analysis.comparison import compare
    from localjudge.report.comparison_view import comparison_view
    from localjudge.report.terminal import put, show

    found = compare(baseline, run, moved=moved, by=by)
    if not found.metrics or not found.samples.paired:
        raise UsageError(f"{baseline} and {run} cannot be compared: {found.warnings[0]}")
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(comparison_view(found))
