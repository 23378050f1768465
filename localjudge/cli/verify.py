"""`localjudge verify`: whether a run can be reproduced."""

import sys
from pathlib import Path
from typing import Any

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import settings
from localjudge.errors import UsageError

_SAME = {"identical": {"bit-identical"}, "verdicts": {"bit-identical", "same verdicts"}}


@click.command("verify", cls=GroupedCommand, example="localjudge verify runs/data-3f9a1c2e --sample 200")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--sample", "count", type=click.IntRange(min=1), metavar="N", help="Ask again for only so many answers.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which answers --sample draws.")
@click.option(
    "--judge",
    metavar="NAME|PATH|URL",
    help="Default: the judge of the run.",
)
@click.option(
    "--accept",
    type=click.Choice(["identical", "verdicts"]),
    default="identical",
    show_default=True,
    help="What counts as verified: every bit, or every verdict.",
)
@click.option(
    "--redacted",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="In place of judging again: whether FILE, of export --redacted, is this run.",
)
@click.option(
    "--salt",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --redacted: the salt that it was exported with. Default: salt.key in RUN.",
)
@settings("threads", "ray", "ray_workers", "allow_host")
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(directory: Path, accept: str, judge: str | None, quiet: bool, as_json: bool, **options: Any) -> int:
    """Judge RUN again and say what is the same: bit-identical, same verdicts, or different.

    The judge is asked for the stored answers again. Sentences, scores and intervals are computed again from the
    stored data, and the result files are compared byte for byte. RUN is not changed, and the data is not needed.

    Bytes are promised on the same kind of processor; on another, ask for --accept verdicts.

    With --redacted FILE nothing is judged: FILE is compared with what RUN gives without its texts, byte for byte.

    Exit code: 0 verified; 3 not; 1 the run or its judge cannot be opened; 4 interrupted.
    """
    redacted, salt = options.pop("redacted"), options.pop("salt")
    if redacted is not None:
        return _check_redacted(directory, redacted, salt, as_json)
    if salt is not None:
        raise UsageError("--salt is for --redacted", hint="name the redacted file with --redacted")
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.terminal import put, show
    from localjudge.report.verification import verification_view
    from localjudge.run.verify import verify_run

    if quiet:
        be_quiet()
    found = verify_run(directory, judge=judge, progress=progress_on(sys.stderr, quiet=quiet), **options)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(verification_view(found))
    return ExitCode.DONE if found.result in _SAME[accept] else ExitCode.GATE_MISSED


def _check_redacted(directory: Path, file: Path, salt: Path | None, as_json: bool) -> int:
    from localjudge.record.results import Run
    from localjudge.report.redacted import check_redacted, salt_in
    from localjudge.report.terminal import put, safe_text, show

    found = check_redacted(Run.open(directory), file, salt_in(salt) if salt else None)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    elif found.belongs:
        show(safe_text(f"{file} belongs to {directory}: {found.lines:,} lines, every byte the same"))
    else:
        show(safe_text(f"{file} is not what {directory} gives: line {found.first_difference:,} is another"))
    return ExitCode.DONE if found.belongs else ExitCode.GATE_MISSED
