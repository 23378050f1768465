"""`localjudge doctor`: whether a judge and a machine can be trusted with a run."""

import sys
from typing import Any

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import settings


@click.command("doctor", cls=GroupedCommand, example="localjudge doctor --judge model.gguf")
@click.option(
    "--judge", default="reference", show_default=True, metavar="NAME|PATH", help="Registered name or GGUF file."
)
@settings("profile", "prompts", "n_ctx", "threads", "gpu_layers")
@click.option(
    "--injections",
    type=click.IntRange(min=0),
    metavar="N",
    help="Attempts to talk the judge into a verdict; 0 for none. Default: as many as take about two minutes.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(judge: str, quiet: bool, as_json: bool, **options: Any) -> int:
    """Check a judge and this machine: does it load, answer, get obvious cases right, resist injections, how fast is it?

    None of your data is read. Each finding is printed as soon as it is made. A judge that does no better than
    guessing on obvious cases has failed, and so has one that is often talked into a verdict by its material. After an
    interruption the same command goes on: what the judge has answered is not asked again.

    Exit code: 0 all ok, or warnings; 1 something failed; 4 interrupted.
    """
    from localjudge.doctor.examine import examine
    from localjudge.doctor.health_check import HealthCheck
    from localjudge.report.diagnosis import check_view, conclusion_view
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.terminal import put, show

    def show_check(check: HealthCheck) -> None:
        if not as_json:
            show(check_view(check))

    if quiet:
        be_quiet()
    found = examine(judge, progress=progress_on(sys.stderr, quiet=quiet), on_check=show_check, **options)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(conclusion_view(found))
    return ExitCode.NOTHING_JUDGED if found.result == "failed" else ExitCode.DONE
