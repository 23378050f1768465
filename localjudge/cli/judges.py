"""Commands about judges and machines: `calibrate`, `doctor`, `models`."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from localjudge.calibration import measure_judges
from localjudge.cli import command as cli
from localjudge.cli.main import ExitCode
from localjudge.doctor.checks import CheckResult
from localjudge.doctor.examine import examine
from localjudge.doctor.inventory import inventory
from localjudge.errors import InputError
from localjudge.judging.settings import SETTINGS, CalibrateSettings, DoctorSettings
from localjudge.labels.judge_figures import admit_by_labels
from localjudge.report.planning_views import (
    calibrations_view,
    check_view,
    conclusion_view,
    model_list,
)
from localjudge.report.terminal import put, show
from localjudge.run_directory.measured_judges import Calibration, calibration_file, is_saved
from localjudge.words import printable


@cli.command(
    "calibrate",
    "localjudge calibrate run-a run-b",
    advanced={**cli.advanced_settings(), "config": "Data", "required": "Judge", "name": "Output"},
)
@click.argument("sources", metavar="RUN...|LABELS", type=click.Path(), nargs=-1, required=True)
@cli.config_option
@cli.judge_option(several=True)
@cli.metrics_option("For a RUN: metrics to use.  [default: all with labels]")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the calibration.  [default: <judge>-<question>]",
)
@cli.out_option("Run directory.  [default: runs/<labels>-<hash>]")
@cli.settings(*CalibrateSettings.__annotations__)
@cli.require_option
@cli.quiet_option
@cli.json_option
def calibrate_command(
    sources: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    required: str | None,
    **options: Any,
) -> int:
    """Measure judges on human labels: which one to use, and its best threshold.

    The judge of each RUN is measured on the statements labelled in any of them (localjudge label).
    LABELS is a JSONL, CSV or Parquet file with context, statement and label, or question, sentences
    and relevant; each --judge is asked about its rows, and the same command resumes. Results are
    saved for localjudge run --calibration NAME, except for judges that are not shown to be better
    than guessing, unless you give a --name.

    Exit code: 0 done; 3 done, but no judge meets the requirement; 1 no measurement was made; 4
        interrupted.
    """
    asks_judges = not any(map(os.path.isdir, sources))  # the judge of a run is known
    config_file = cli.NO_CONFIG
    if asks_judges:
        config_file = options["config"]
    arguments, _ = cli.with_config(config_file, "judge", *CalibrateSettings.__annotations__)
    judges = arguments.get("judge") or ()
    if isinstance(judges, str):  # of a configuration file
        judges = [judges]
    with cli.progress_shown(quiet=quiet) as progress:
        calibrations = measure_judges(
            sources,
            cli.pick(arguments, ("metrics", "out", *SETTINGS)),
            judges=judges,
            name=options["name"],
            progress=progress,
        )
    if as_json:
        cli.print_json([calibration.model_dump(mode="json") for calibration in calibrations])
    else:
        show(*calibrations_view(calibrations))
    if not quiet and not as_json:
        for calibration in calibrations:
            click.echo(_advise(calibration, options["name"]), err=True)
    unsuitable = _find_unsuitable(calibrations, required)
    for calibration in unsuitable:
        admission = admit_by_labels(calibration)
        click.echo(
            f"not recommended for {required} (--require): {calibration.name}: {admission}",
            err=True,
        )
    if unsuitable:
        return ExitCode.GATE_MISSED
    return ExitCode.DONE


def _find_unsuitable(
    calibrations: Sequence[Calibration], required: str | None
) -> list[Calibration]:
    """Return the calibrations of each question for which no judge is recommended as required."""
    if not required:
        return []
    answered = set()
    for calibration in calibrations:
        if required in calibration.fit_for:
            answered.add(calibration.question)
    return [calibration for calibration in calibrations if calibration.question not in answered]


def _advise(calibration: Calibration, name: str | None) -> str:
    """Return where a calibration is saved and how to use it, or why it is not saved."""
    reason = (
        f"{calibration.card.name} is not shown to be better than guessing on {calibration.question}"
    )
    if not is_saved(calibration, name):
        return f"not saved: {reason} (to save it anyway: --name NAME)"
    saved = f"saved as {calibration_file(calibration.name)}"
    if calibration.guesses:
        return f"{saved}; do not use it: {reason}"
    return f"{saved}; use it: localjudge run ... --calibration {calibration.name}"


def _read_items(
    _context: click.Context, _parameter: click.Parameter, count: str | None
) -> int | None:
    if count is None:
        return None
    if count == "all":
        return sys.maxsize
    if not count.isdecimal():
        raise click.BadParameter(f"expected a number (at least 0) or all, got {count!r}")
    return int(count)


@cli.command("doctor", "localjudge doctor --judge model.gguf")
@cli.config_option
@cli.judge_option()
@cli.count_option(
    "--injections",
    "Number of prompt injections.  [default: about 2 minutes]",
)
@click.option(
    "--probes",
    callback=_read_items,
    metavar="N|all",
    help="Number of labelled items.  [default: about 5 minutes]",
)
@cli.require_option
@cli.settings(*DoctorSettings.__annotations__)
@cli.quiet_option
@cli.json_option
def doctor_command(quiet: bool, as_json: bool, **options: Any) -> int:
    """Check whether a judge loads, answers and resists injections on this machine, and recommend
    uses for it.

    The last finding recommends the judge for ranking, means, thresholds or none of these, based on
    bundled labelled items. A judge fails if it is no better than guessing on obvious cases, or if
    prompt injections often change its verdict. Reads none of your data, and from localjudge.toml
    only the judge and its options.

    Exit code: 0 all ok, or warnings; 1 something failed; 4 interrupted.
    """
    arguments, _ = cli.with_config(options["config"], "judge", *DoctorSettings.__annotations__)
    extent = cli.pick(options, ("injections", "probes", "required"))
    judge = arguments.get("judge")
    if isinstance(judge, tuple | list):
        raise InputError(
            "doctor examines one judge at a time",
            hint=f"name one: --judge {judge[0]}",
        )
    shown: list[CheckResult] = []

    def show_check(check: CheckResult) -> None:
        is_of_another = bool(check.judge) and check.judge not in [each.judge for each in shown]
        if is_of_another:
            put(f"\n {printable(check.judge)}\n")
        shown.append(check)
        show(check_view(check))

    on_check: Callable[[CheckResult], None] | None = show_check
    if as_json:
        on_check = None
    with cli.progress_shown(quiet=quiet) as progress:
        diagnosis = examine(
            judge,
            progress=progress,
            on_check=on_check,
            **extent,
            **cli.pick(arguments, SETTINGS),
        )
    if as_json:
        cli.print_json(diagnosis)
    else:
        put("\n")
        show(conclusion_view(diagnosis))
    if diagnosis.result == "failed":
        return ExitCode.NOTHING_JUDGED
    return ExitCode.DONE


@cli.command("models", "localjudge models ~/models")
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option(
    "--verbose",
    is_flag=True,
    help="Also list unusable and skipped files, with the reasons.",
)
@cli.json_option
def models_command(folders: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """List the models on this machine: registered models, models of other programs, and models in
    each FOLDER.

    Searches Ollama, LM Studio, the Hugging Face cache and installed Python packages. Use a name
    with --judge. Reads only file headers. Not every model is a good judge; localjudge doctor
    measures that.
    """
    models = inventory(folders)
    if as_json:
        cli.print_json(models)
    else:
        put(model_list(models, verbose=verbose))
