"""`localjudge calibrate`: a judge held against people's labels. A thin layer over `localjudge.calibrate`."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import metrics, settings
from localjudge.doctor.extent import USES
from localjudge.run.settings import CALIBRATION_OPTIONS

if TYPE_CHECKING:
    from localjudge.doctor.calibrate import CalibrationOptions


@click.command("calibrate", cls=GroupedCommand, example="localjudge calibrate labels.jsonl --judge model.gguf")
@click.argument("labels", metavar="LABELS", type=click.Path())
@click.option(
    "--judge",
    metavar="NAME|PATH|URL",
    help="Registered name or GGUF file.  [default: reference]",
)
@click.option(
    "--weights",
    is_flag=True,
    help="Weigh the judges of a combined RUN by the labels, for localjudge combine --weights.",
)
@click.option("--run", type=click.Path(path_type=Path), metavar="RUN", help="The run whose verdicts are labelled.")
@metrics("all that are labelled. With --run: whose verdicts count.")
@click.option("--name", metavar="NAME", help="Saved under it. Default: <judge>-<question>.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<labels>-<hash>.")
@settings(*CALIBRATION_OPTIONS)
@click.option(
    "--require",
    "required",
    type=click.Choice(USES),
    help="What the judge has to be fit for by these labels, by the limits that doctor has: exit code 3 if it is not.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the calibration as JSON.")
def command(labels: str, quiet: bool, as_json: bool, required: str | None, **options: Any) -> int:
    """Hold a judge against labels of people: how good it is, and from which probability on a verdict should be 1.

    LABELS is JSONL, CSV or Parquet: context, statement and label, or question, sentences and relevant, about which the
    judge is asked; or verdicts of a run with a column human (1 or 0), with --run. The result is saved under a name, for
    localjudge run --calibration NAME. After an interruption the same command goes on.

    Exit code: 0 done; 3 done, and the judge is not fit for what is required; 1 nothing was measured; 4 interrupted.
    """
    from localjudge.doctor.admission import admission_by_labels
    from localjudge.doctor.calibrate import measured
    from localjudge.record.calibration import calibration_file
    from localjudge.report.calibration_view import calibration_view
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.terminal import put, show, terminal

    if quiet:
        be_quiet()
    judge, run, name = (options.pop(one) for one in ("judge", "run", "name"))
    given = cast("CalibrationOptions", _given(options))
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        found = measured(labels, given, judge=judge, run=run, name=name, progress=progress)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(calibration_view(found))
    if not quiet and not as_json:
        advice = f"use it: localjudge run ... --calibration {found.name}"
        if found.guesses:
            advice = "do not use it: this judge is not shown to be better than guessing"
        terminal(stderr=True).print(f"saved as {calibration_file(found.name)}; {advice}", soft_wrap=True)
    admission = admission_by_labels(found)
    if required is None or required in admission.uses:
        return ExitCode.DONE
    terminal(stderr=True).print(f"fit for {required} is required: {admission}", soft_wrap=True)
    return ExitCode.GATE_MISSED


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """What was given: what is left out is as it is by default."""
    from localjudge.run.settings import RunSettings

    fields = RunSettings.model_fields
    return {
        name: value for name, value in options.items() if value != (fields[name].default if name in fields else None)
    }
