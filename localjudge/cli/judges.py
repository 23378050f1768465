"""The commands about judges and machines: `calibrate`, `doctor`, `models`."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from localjudge.cli.main import ExitCode
from localjudge.cli.options import (
    PATH,
    GroupedCommand,
    count_option,
    grouped,
    json_option,
    judge_option,
    metrics,
    out_option,
    print_result,
    progress_shown,
    quiet_option,
    require_option,
    settings,
    settings_in,
    suite_option,
    with_suite,
)
from localjudge.errors import InputError
from localjudge.run.settings import settings_with


@click.command("calibrate", cls=GroupedCommand, example="localjudge calibrate labels.jsonl --judge model.gguf")
@click.argument("labels", metavar="LABELS", type=click.Path())
@suite_option
@judge_option()
@grouped("Judge", "--run", type=PATH, metavar="RUN", help="The run whose verdicts are labelled.")
@grouped("Judge", "--weights", is_flag=True, help="Weigh the judges of a combined RUN, for localjudge combine.")
@metrics("With --run: whose verdicts count.  [default: all that are labelled]")
@grouped("Output", "--name", metavar="NAME", help="Name of the calibration.  [default: <judge>-<question>]")
@out_option("Run directory.  [default: runs/<labels>-<hash>]")
@settings(*settings_with("calibration"))
@require_option
@quiet_option
@json_option
def calibrate_command(labels: str, quiet: bool, as_json: bool, required: str | None, **options: Any) -> int:
    """Measure a judge on human labels: how good it is, and the threshold that fits it best.

    LABELS is JSONL, CSV or Parquet: context, statement and label, or question, sentences and relevant, about which the
    judge is asked; or verdicts of a run with a column human (1 or 0), with --run. The result is saved under a name, for
    localjudge run --calibration NAME. After an interruption the same command goes on.

    Exit code: 0 done; 3 done, and the judge is not fit for what is required; 1 nothing was measured; 4 interrupted.
    """
    from localjudge.doctor.calibrate import measure_judge
    from localjudge.doctor.fitness import admission_by_labels
    from localjudge.record.manifest import calibration_file
    from localjudge.report.label_tables import calibration_view
    from localjudge.report.terminal import terminal

    run, name = options["run"], options["name"]
    suite = "none" if run else options["suite"]  # the judge of a run is known
    arguments, _ = with_suite(suite, "judge", *settings_with("calibration"))
    how: dict[str, Any] = {key: arguments[key] for key in ("metrics", "out", "weights") if key in arguments}
    how |= {key: value for key, value in settings_in(arguments).items() if value}
    with progress_shown(quiet=quiet) as progress:
        calibration = measure_judge(labels, how, judge=arguments.get("judge"), run=run, name=name, progress=progress)
    print_result(as_json, calibration, lambda: calibration_view(calibration))
    if not quiet and not as_json:
        advice = f"use it: localjudge run ... --calibration {calibration.name}"
        if calibration.guesses:
            advice = "do not use it: this judge is not shown to be better than guessing"
        terminal(stderr=True).print(f"saved as {calibration_file(calibration.name)}; {advice}", soft_wrap=True)
    admission = admission_by_labels(calibration)
    if required is None or required in admission.uses:
        return ExitCode.DONE
    terminal(stderr=True).print(f"fit for {required} is required: {admission}", soft_wrap=True)
    return ExitCode.GATE_MISSED


def _items(_context: click.Context, _parameter: click.Parameter, count: str | None) -> int | None:
    """A number of items; for `all`, one that is never reached."""
    if count is None or count == "all":
        return sys.maxsize if count else None
    if not count.isdecimal():
        raise click.BadParameter(f"expected a number from 0 on, or all: got {count!r}")
    return int(count)


@click.command("doctor", cls=GroupedCommand, example="localjudge doctor --judge model.gguf")
@suite_option
@judge_option()
@count_option("Judge", "--injections", "Attempts to talk the judge into a verdict.  [default: about two minutes]")
@grouped("Judge", "--probes", callback=_items, metavar="N|all", help="Labelled items.  [default: about five minutes]")
@require_option
@settings(*settings_with("sentences"), *settings_with("doctor"))
@grouped("Data", "--sentences", metavar="FILE", help="Only show where a text (- for standard input) is cut.")
@quiet_option
@json_option
def doctor_command(quiet: bool, as_json: bool, **options: Any) -> int:
    """Check a judge and this machine: does it load, answer, resist injections, and what is it fit for?

    Each finding is printed as soon as it is made; the last says whether the judge is fit for ranking, for means, for
    thresholds or for nothing, by labelled items that are bundled. A judge that does no better than guessing on obvious
    cases has failed, and so has one that is often talked into a verdict by its material. None of your data is read; of
    localjudge.toml, the judge and how it is asked.

    Exit code: 0 all ok, or warnings; 1 something failed; 4 interrupted.
    """
    from localjudge.doctor.examine import examine
    from localjudge.doctor.health_check import HealthCheck
    from localjudge.report.checks import check_view, conclusion_view
    from localjudge.report.terminal import show
    from localjudge.run.judges import DEFAULT_JUDGE

    def show_check(check: HealthCheck) -> None:
        if not as_json:
            show(check_view(check))

    if options["sentences"] is not None:
        arguments, _ = with_suite(options["suite"], *settings_with("sentences"))
        return _show_sentences(options["sentences"], settings_in(arguments), as_json)
    arguments, _ = with_suite(options["suite"], "judge", *settings_with("doctor"))
    arguments.pop("language", None)
    extent = {name: options[name] for name in ("injections", "probes", "required")}
    with progress_shown(quiet=quiet) as progress:
        diagnosis = examine(
            arguments.get("judge") or DEFAULT_JUDGE,
            progress=progress,
            on_check=show_check,
            **extent,
            **settings_in(arguments),
        )
    print_result(as_json, diagnosis, lambda: conclusion_view(diagnosis))
    return ExitCode.NOTHING_JUDGED if diagnosis.result == "failed" else ExitCode.DONE


def _show_sentences(file: str, cuts: dict[str, Any], as_json: bool) -> int:
    from localjudge.report.terminal import Table, put, show
    from localjudge.run.settings import checked
    from localjudge.text.languages import misfit

    how = checked(cuts)
    text = _text(file)
    spans = how.sentences(text)
    if not how.segmenter and (finding := misfit([text], how.language)):
        click.echo(finding, err=True)
    width = max((len(f"{span.start}-{span.end}") for span in spans), default=0)
    rows = [(f"{f'{span.start}-{span.end}':>{width}}", span.text) for span in spans]
    if as_json:
        put("".join(f"{json.dumps(span.model_dump())}\n" for span in spans))
    elif rows:
        show(Table((), rows))
    return ExitCode.DONE


def _text(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}", hint="name a text file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 (byte {error.start})", hint="convert it first") from error


@click.command("models", cls=GroupedCommand, example="localjudge models ~/models")
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@grouped("Output", "--verbose", is_flag=True, help="Also list what cannot judge or was skipped, and why.")
@json_option
def models_command(folders: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """List the models on this machine: registered ones, those that other programs keep, and those in each FOLDER.

    Ollama, LM Studio, the cache of Hugging Face and installed Python packages are searched where their environment
    variables say. A name is what --judge takes. Only headers of files are read, and no network is used. Not every model
    is a good judge: localjudge doctor measures that.
    """
    from localjudge.doctor.machine import inventory
    from localjudge.report.checks import model_list
    from localjudge.report.terminal import put

    models = inventory(folders)
    put(f"{models.model_dump_json(indent=2)}\n" if as_json else model_list(models, verbose=verbose))
