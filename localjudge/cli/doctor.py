"""`localjudge doctor`: whether a judge and a machine can be trusted with a run."""

import sys
from typing import Any

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import settings
from localjudge.doctor.extent import USES

_ALL = "all"


class ItemCount(click.ParamType[int]):
    """A number of items, or `all`."""

    name = "items"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; for `all`, one that is never reached."""
        if value == _ALL:
            return sys.maxsize
        try:
            return click.IntRange(min=0).convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected a number from 0 on, or {_ALL}: got {value!r}", param, ctx)


@click.command("doctor", cls=GroupedCommand, example="localjudge doctor --judge model.gguf")
@click.option(
    "--judge",
    default="reference",
    show_default=True,
    metavar="NAME|PATH|URL",
    help="Registered name, GGUF file, a name that localjudge models lists, or the address of a server on this machine.",
)
@settings("profile", "prompts", "n_ctx", "threads", "gpu_layers", "allow_host")
@click.option(
    "--injections",
    type=click.IntRange(min=0),
    metavar="N",
    help="Attempts to talk the judge into a verdict; 0 for none. Default: as many as take about two minutes.",
)
@click.option(
    "--probes",
    type=ItemCount(),
    metavar="N|all",
    help="Labelled items that measure it, in passages of 12; 0 for none. Default: as many as take about five minutes.",
)
@click.option(
    "--require",
    "required",
    type=click.Choice(USES),
    help="What the judge has to be fit for: exit code 1 if it is not.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(judge: str, quiet: bool, as_json: bool, **options: Any) -> int:
    """Check a judge and this machine: does it load, answer, resist injections, and what is it fit for?

    None of your data is read. Each finding is printed as soon as it is made; the last says whether the judge is fit for
    ranking, for means, for thresholds or for nothing, by labelled items that are bundled. A judge that does no better
    than guessing on obvious cases has failed, and so has one that is often talked into a verdict by its material.

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
