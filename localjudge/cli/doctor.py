"""`localjudge doctor`: whether a judge and a machine can be trusted with a run."""

import sys
from typing import Any

import click

from localjudge.cli.main import ExitCode, be_quiet


@click.command("doctor")
@click.option(
    "--judge", default="reference", show_default=True, metavar="NAME|PATH", help="Registered name or GGUF file."
)
@click.option("--prompt", "prompts", multiple=True, metavar="FILE", help="Word a task yourself (may be repeated).")
@click.option("--n-ctx", type=int, metavar="N", help="Tokens of context. Default: the model's, at most 8192.")
@click.option("--threads", type=int, metavar="N", help="Processor threads. They cannot move a number.")
@click.option("--gpu-layers", type=int, metavar="N", help="Layers on the GPU. Default: all, if there is one.")
@click.option("--skip-injections", is_flag=True, help="Leave out the attempts to talk the judge into a verdict.")
@click.option("--quiet", is_flag=True, help="No progress and no messages, only the result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(judge: str, skip_injections: bool, quiet: bool, as_json: bool, **options: Any) -> int:
    """Check a judge and this machine: does it load, answer, get obvious cases right, resist injections, how fast is it?

    No data of yours is read. With a large model most of the time goes into some 220 attempts to talk it
    into a verdict: --skip-injections leaves them out.

    Exit code: 0 all ok, or warnings; 1 something failed; 4 interrupted or out of a resource.
    """
    from localjudge.doctor.examine import examine
    from localjudge.report.diagnosis import diagnosis_view
    from localjudge.report.table import terminal
    from localjudge.run.progress import progress_on

    if quiet:
        be_quiet()
    found = examine(judge, injections=not skip_injections, progress=progress_on(sys.stderr, quiet=quiet), **options)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        terminal().print(diagnosis_view(found))
    return ExitCode.NOTHING_JUDGED if found.result == "failed" else ExitCode.DONE
