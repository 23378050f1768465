"""`localjudge start`: from data to a report, with at most four questions.

    columns (if unclear), judge, metrics, minutes ──> dry run ──> doctor (if needed) ──> run ──> label ──> report

Each step is the command that it prints.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from localjudge import model_registry
from localjudge.cli import options as cli
from localjudge.cli.main import ExitCode, command_line
from localjudge.doctor.machine import inventory
from localjudge.engine.opening import find_model
from localjudge.errors import InputError
from localjudge.record.examination import NOT_EXAMINED
from localjudge.report.checks import model_facts
from localjudge.report.tables import estimate_view
from localjudge.report.terminal import put, show
from localjudge.run.estimate import estimate_plan
from localjudge.run.judges import DEFAULT_JUDGE
from localjudge.run.plan import NotedProgress, Plan, named_directory, plan, report_data
from localjudge.run.settings import checked
from localjudge.suite import SUITE
from localjudge.words import printable, printable_lines, roughly

_JUDGED_FIELDS = {"user_input", "retrieved_contexts", "reference", "response"}
_DOCTOR_MINUTES = 10
_Value = TypeVar("_Value")


@cli.command("start", "localjudge start data.csv")
@click.argument("data", nargs=-1, required=True, type=click.Path())
@cli.out_option("Run directory.  [default: runs/<data>-<hash>]")
def start_command(data: tuple[str, ...], out: Path | None) -> int:
    """Go from DATA to a report: judge it, and write pages with the report and statements to label.

    Asks for the columns (only if they are unclear), the judge, the metrics and your minutes for labels; Enter accepts
    the value in brackets. Says how long it will take, and prints the command of each step. Without a terminal, only
    prints the commands. After an interruption, the same command with the same answers resumes.

    Exit code: that of localjudge run, or 1 without a terminal.
    """
    planned = _plan_with_columns(list(data))
    judge = _ask_judge()
    default, settings = ",".join(metric.name for metric in planned.metrics), planned.settings
    planned = _ask("metrics", default, lambda text: plan(list(data), cli.metric_names(text), settings))
    minutes = _ask("minutes that you can spend on labels", "15", click.FloatRange(min=0))
    names = [metric.name for metric in planned.metrics]
    path = str(out or named_directory(planned, [planned.dataset.fingerprint, judge, names]))
    suite = ["--suite", "none"] if Path(SUITE).is_file() else []
    maps = [part for pair in settings.mapping.items() for part in ("--map", "=".join(pair))]
    run = ["run", *data, "--judge", judge, "--metrics", ",".join(names), *maps, "--out", path, *suite]
    doctor = ["doctor", "--judge", judge, *suite]
    label = ["label", path, "--minutes", f"{minutes:g}", "--page", str(Path(path, "labels.html"))] if minutes else []
    if sys.stdin.isatty():
        return _run_steps(planned, run, doctor, label, Path(path))
    click.echo("start asks its questions in a terminal; the default answers give these commands:", err=True)
    steps = ([*run, "--dry-run"], doctor, run, label, ["report", path])
    put("".join(f"{_shell_line(step)}\n" for step in steps if step))
    return ExitCode.NOTHING_JUDGED


def _plan_with_columns(data: list[str]) -> Plan:
    def with_mapping(text: str) -> Plan:
        return plan(data, None, checked({"mapping": cli.mapping_of(shlex.split(text))} if text != "none" else {}))

    try:
        planned = with_mapping("none")
    except InputError as error:
        if "--map" not in str(error) or not sys.stdin.isatty():
            raise
        click.echo(printable_lines(str(error)), err=True)
    else:
        if planned.dataset.fields >= _JUDGED_FIELDS or not any(planned.dataset.unused):
            return planned
        with cli.progress_shown(quiet=False) as progress:
            report_data(planned, NotedProgress(progress))
    return _ask("more columns, such as reference=gold user_input='the question'", "none", with_mapping)


def _ask_judge() -> str:
    judges, default = dict[str, str](), ""
    for model in inventory().models:
        if model.cannot_judge is None:
            row = model_registry.packaged_as(str(model.sha256))
            caution = f" ({row.caution})" if row and row.caution else ""
            judges[number := str(len(judges) + 1)] = model.name
            default = default or ("" if caution else number)
            click.echo(f" {number}  {printable(model.name)}{caution}\n    {printable(model_facts(model))}", err=True)

    def checked_name(text: str) -> str:
        find_model(name := judges.get(text, text))
        return name

    return _ask("judge: a number, or a name for --judge", default or DEFAULT_JUDGE, checked_name)


def _ask(question: str, default: str, read: Callable[[str], _Value]) -> _Value:
    """Ask until the answer can be read. Without a terminal, the answer is the default."""

    def value(text: str) -> _Value:
        try:
            return read(text)
        except (InputError, ValueError) as error:  # an unmatched quotation mark
            raise click.UsageError(printable_lines(str(error))) from error

    if not sys.stdin.isatty():
        return read(default)
    try:
        answer: _Value = click.prompt(question, default, value_proc=value, err=True)
    except click.Abort:
        click.echo(err=True)
        raise
    return answer


def _run_steps(planned: Plan, run: list[str], doctor: list[str], label: list[str], directory: Path) -> int:
    put(f"\n$ {_shell_line([*run, '--dry-run'])}\n")
    with cli.progress_shown(quiet=False) as progress:
        estimate = estimate_plan(planned, judge=doctor[2], out=directory, progress=progress)
    show(estimate_view(estimate))
    is_new, seconds = estimate.judge.examined == NOT_EXAMINED, estimate.seconds or 0
    minutes = (float(label[3]) if label else 0, _DOCTOR_MINUTES if is_new else 0)
    parts = f"{roughly(seconds, estimate.seconds_ci95) if seconds else 'no time'} for judging, {minutes[0]:g} minutes"
    parts += f" for labels{f', up to about {minutes[1]} minutes for doctor' if is_new else ''}"
    put(f"\n in total {roughly(seconds + 60 * sum(minutes))}: {parts}\n")
    click.echo("Ctrl-C stops; the same command with the same answers resumes", err=True)
    if is_new:
        _run_step(doctor)
    code = _run_step(run)
    page, files = directory / "labels.html", sorted(directory.glob("labels-*.jsonl"))
    labels = [["label", str(directory), "--read", str(file)] for file in files]
    try:
        for step in labels or [label] * (bool(label) and not page.exists()):
            _run_step(step)
    except InputError as error:
        click.echo(printable_lines(f"no labels: {error}"), err=True)
    _run_step(["report", str(directory)])
    if page.exists() and not files:
        then = f"open {page} in a browser, save its file in {directory}, and run the same command again"
        put(f"\n to correct the means by your labels: {printable(then)}\n")
    return code


def _shell_line(step: Sequence[str]) -> str:
    return printable(shlex.join(["localjudge", *step]))


def _run_step(step: Sequence[str]) -> int:
    put(f"\n$ {_shell_line(step)}\n")
    command = command_line.get_command(click.get_current_context(), step[0])
    assert command
    return command.main(step[1:], standalone_mode=False) or ExitCode.DONE
