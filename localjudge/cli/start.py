"""`localjudge start`: from data to a mean corrected by labels, one step at each call.

    columns (if unclear), judge ──> localjudge.toml ──> estimate ──> doctor (if needed)
                                ──> run ──> label page, report
    the same command again      ──> reads labels ──> corrected mean and report,
                                                     or the next label page

Each step is the command that it prints.
"""

import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click

from localjudge import model_registry
from localjudge.analysis.headline import choose_headline
from localjudge.cli import options as cli
from localjudge.cli.main import ExitCode, command_line
from localjudge.cli.questions import ask
from localjudge.cli.start_columns import ask_columns, warn_of_evidence
from localjudge.cli.start_folder import StartFolder
from localjudge.config import CONFIG_FILE
from localjudge.doctor.inventory import inventory
from localjudge.engine.opening import find_model
from localjudge.errors import InputError, MissingRun, UnfinishedRun
from localjudge.judging.data_report import language_sample
from localjudge.judging.estimate import estimate_plan
from localjudge.judging.judges import default_judge
from localjudge.judging.plan import Plan, plan
from localjudge.judging.settings import checked
from localjudge.judging.verify import REPORT
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.decisions import SECONDS_A_LABEL
from localjudge.labels.labelling import DEFAULT_COUNT, Labelling
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.report.estimate_views import estimate_view
from localjudge.report.judge_views import model_facts
from localjudge.report.next_step import next_step
from localjudge.report.sentences import state_mean
from localjudge.report.terminal import Table, number, put, show
from localjudge.run_directory.examination import NOT_EXAMINED
from localjudge.run_directory.run_record import RunRecord
from localjudge.text.languages import likely_languages
from localjudge.types import Language
from localjudge.words import flag, numbered, printable, printable_lines, roughly

_METRICS = ("faithfulness", "context_recall")
"""The metric to label, by preference."""
_LABELLED_FIELDS = {"retrieved_contexts", "response"}
_DOCTOR_MINUTES = 10
_labels = "Read this file of labels, saved from the page or a sheet (may be repeated)."
_ask_again = "Ask for columns and judge again."


@cli.command("start", "localjudge start data.csv")
@click.argument("data", nargs=-1, required=True, type=click.Path())
@cli.option("Data", "--labels", type=cli.PATH, multiple=True, metavar="FILE", help=_labels)
@cli.option("Data", "--ask", "again", is_flag=True, help=_ask_again)
@cli.option("Judge", "--judge", metavar="NAME|PATH", help="Do not ask for the judge.")
@cli.option(
    "Scoring", "--metric", metavar="NAME", help="Default: faithfulness, else context_recall."
)
@cli.out_option("Folder for the run, its pages and your answers.  [default: runs/<data>]")
def start_command(
    data: tuple[str, ...],
    labels: tuple[Path, ...],
    again: bool,
    judge: str | None,
    metric: str | None,
    out: Path | None,
) -> int:
    """Go from DATA to a mean that is corrected by labels, step by step.

    Asks for columns (only if they are unclear) and the judge, says how long it will take, judges,
    and writes a page with 50 statements to label. Label them, save the page's file next to the run
    or the data, and run the same command again (or give the file with --labels): it reads the
    labels, corrects the mean, writes the report, and prints the next command. Answers are kept in
    localjudge.toml next to the run.

    Each step prints its command. Without a terminal, the first call only prints the commands. After
    an interruption, the same command resumes.

    Exit code: that of localjudge run, or 1 if commands were only printed.
    """
    if "-" in data:
        raise InputError(
            "start asks questions, so it cannot read data from standard input",
            hint="name a file",
        )
    folder = StartFolder.find(data, out)
    is_known = folder.config is not None
    if not is_known and not sys.stdin.isatty():
        return _print_commands(folder, judge, metric)
    if not is_known or again or judge or metric:
        _ask_and_store(folder, judge, metric, again=again)
    return _continue(folder, labels)


def _ask_and_store(
    folder: StartFolder, judge: str | None, metric: str | None, *, again: bool
) -> None:
    """Ask what is not known yet, and store the answers. Other answers begin another run."""
    config = folder.config
    stored: Mapping[str, Any] = config.arguments if config else {}
    if config is None or again:
        planned = _plan_with_columns(folder.data, stored.get("mapping", {}), again=again)
        answers: dict[str, Any] = {"mapping": dict(planned.settings.mapping)}
        answers["language"] = _recognised_language(planned)
        answers["judge"] = _absolute(judge or _ask_judge())
    else:
        planned = plan(list(folder.data), None, _settings_of(stored))
        answers = {name: stored.get(name) for name in ("mapping", "language", "judge")}
        answers["judge"] = _absolute(judge) if judge else answers["judge"]
    metrics = [metric] if metric else [_default_metric(planned)]
    if stored and not metric and not again:
        metrics = list(stored["metrics"])
    plan(
        list(folder.data), metrics, planned.settings
    )  # refuses an unknown metric or missing columns
    answers["metrics"] = metrics
    is_changed = any(stored.get(name) != value for name, value in answers.items() if value)
    if is_changed and folder.run.exists():
        answers["out"] = folder.next_run()
    folder.write_config(answers)


def _plan_with_columns(data: Sequence[str], stored: Mapping[str, str], *, again: bool) -> Plan:
    """Plan the data with known column names, or ask for the columns if these are unclear."""
    files = list(data)
    if not sys.stdin.isatty():
        return plan(files, None, checked({}))
    if again:
        return _ask_for_columns(files, stored)
    try:
        planned = plan(files, None, checked({}))
    except InputError as error:
        if not _is_about_columns(error):
            raise
        return _ask_for_columns(files, {})
    is_clear = planned.dataset.fields >= _LABELLED_FIELDS and not any(planned.dataset.unused)
    return planned if is_clear else _ask_for_columns(files, planned.dataset.mapping)


def _ask_for_columns(files: list[str], known: Mapping[str, str]) -> Plan:
    while True:
        mapping = ask_columns(files, known)
        try:
            planned = plan(files, None, checked({"mapping": mapping}))
        except InputError as error:
            if not _is_about_columns(error):
                raise
            click.echo(printable_lines(str(error)), err=True)
        else:
            warn_of_evidence(files, mapping)
            return planned


def _is_about_columns(error: InputError) -> bool:
    """Return whether another mapping of columns can avoid the error."""
    return flag("mapping") in str(error)


def _settings_of(stored: Mapping[str, Any]) -> Any:
    return checked({name: stored[name] for name in ("mapping", "language") if stored.get(name)})


def _recognised_language(planned: Plan) -> str | None:
    """Return the language of the texts, if it is not English, and say so."""
    codes = likely_languages(language_sample(planned.dataset), planned.settings.language)
    if not codes:
        return None
    click.echo(f"the texts are read as language {codes[0]} (--language)", err=True)
    return codes[0]


def _default_metric(planned: Plan) -> str:
    names = [metric.name for metric in planned.metrics]
    return next((name for name in _METRICS if name in names), names[0])


def _ask_judge() -> str:
    names, default = _usable_judges()

    def read(text: str) -> str:
        is_number = text.isdecimal() and 1 <= int(text) <= len(names)
        name = names[int(text) - 1] if is_number else text
        if name not in model_registry.registered_juries():
            find_model(name)
        return name

    return ask("Which judge? A number, or a name for --judge", read, default)


def _usable_judges() -> tuple[list[str], str]:
    """Print the models that can judge, and return their names and the one to suggest.

    This is the first without a caution, else the default.
    """
    names: list[str] = []
    default = ""
    for jury in model_registry.registered_juries().values():
        names.append(jury.name)
        click.echo(f"{len(names):>3}  {jury.name}\n     {jury.note}", err=True)
    for model in inventory().models:
        if model.cannot_judge is not None:
            continue
        names.append(model.name)
        row = model_registry.packaged_as(str(model.sha256))
        caution = row.caution if row else None
        if not caution and not default:
            default = str(len(names))
        shown = f"{printable(model.name)} ({caution})" if caution else printable(model.name)
        click.echo(f"{len(names):>3}  {shown}\n     {printable(model_facts(model))}", err=True)
    return names, default or default_judge()


def _absolute(judge: str) -> str:
    """Return a file's absolute path, because the configuration file is in another folder.

    A name stays a name.
    """
    return os.path.abspath(judge) if Path(judge).is_file() else judge


def _print_commands(folder: StartFolder, judge: str | None, metric: str | None) -> int:
    """Print the commands of the default answers for a caller without a terminal."""
    planned = _plan_with_columns(folder.data, {}, again=False)
    name = metric or _default_metric(planned)
    chosen = judge or _default_judge()
    directory = str(folder.run)
    config = ["--config", "none"] if Path(CONFIG_FILE).is_file() else []
    run = ["run", *folder.data, "--judge", chosen, "--metrics", name, "--out", directory, *config]
    page = str(folder.page(DEFAULT_COUNT))
    steps = [
        [*run, "--dry-run"],
        ["doctor", "--judge", chosen, *config],
        run,
        ["label", directory, "--metrics", name, "--page", page],
        ["label", directory, "--read", "labels-NAME.jsonl"],
        ["report", directory],
    ]
    click.echo(
        "start asks its questions in a terminal; the default answers give these commands:",
        err=True,
    )
    put("".join(f"{_shell_line(step)}\n" for step in steps))
    return ExitCode.NOTHING_JUDGED


def _default_judge() -> str:
    names, default = _usable_judges()
    return names[int(default) - 1] if default.isdecimal() else default


class _Task(NamedTuple):
    """A page with `statements` left to label."""

    page: Path
    statements: int


def _continue(folder: StartFolder, labels: Sequence[Path]) -> int:
    """Judge if needed, read labels, write the pages, and name the next command."""
    code = _judge(folder)
    run = RunRecord.open(folder.run)
    metric = next(iter(run))
    before = read_run_labels(run)
    _read_labels(folder, run, labels)
    stored = read_run_labels(run)
    task = _write_page(folder, run, metric, stored)
    if stored != before or not (run.directory / REPORT).exists():
        _run_step(["report", str(run.directory)])
    result = _result_line(run, metric, before, stored)
    put("\n")
    show(Table(notes=[result]))
    for line in _next_lines(folder, run, stored, task):
        put(f" {printable(line)}\n")
    return code


def _next_lines(
    folder: StartFolder, run: RunRecord, labels: RunLabels | None, task: _Task | None
) -> list[str]:
    if task is None:
        return [f"next: {next_step(run, labels)}"]
    minutes = numbered(math.ceil(task.statements * SECONDS_A_LABEL / 60), "minute")
    noun = "more statement" if labels else "statement"
    statements = f"{numbered(task.statements, noun)} (about {minutes})"
    start = shlex.join(["localjudge", "start", *folder.data, *_out_option(folder), "--labels"])
    return [
        f"next: label {statements}: open {task.page} in a browser",
        f"then, with the file that the page saves: {start} FILE",
    ]


def _out_option(folder: StartFolder) -> list[str]:
    return [] if folder == StartFolder.find(folder.data, None) else ["--out", str(folder.path)]


def _judge(folder: StartFolder) -> int:
    """Run the judge unless the run is finished and its data unchanged.

    Returns the exit code of the run.
    """
    config = folder.config
    assert config
    planned = plan(list(folder.data), config.arguments["metrics"], _settings_of(config.arguments))
    state = _state(folder, planned)
    if state == "finished":
        return ExitCode.DONE
    if state == "other data":
        _begin_again(folder)
    run = ["run", "--config", str(folder.config_file)]
    if state != "unfinished":
        doctor = _estimate(folder, planned, run)
        if doctor:
            _run_step(doctor)
    return _run_step(run)


def _state(folder: StartFolder, planned: Plan) -> str:
    """Return `missing`, `unfinished`, `finished`, or `other data` for the current run."""
    try:
        run = RunRecord.open(folder.run)
    except MissingRun:
        return "missing"
    except UnfinishedRun:
        return "unfinished"
    is_same = run.manifest.data == planned.identity
    return "finished" if is_same else "other data"


def _begin_again(folder: StartFolder) -> None:
    """Let the next run judge the changed data, with the answers of the last one."""
    config = folder.config
    assert config
    last = folder.run.name
    answers = {
        name: config.arguments.get(name) for name in ("mapping", "language", "judge", "metrics")
    }
    name = folder.next_run()
    click.echo(
        f"the data changed since {folder.run}: judging it again in {folder.path / name}",
        err=True,
    )
    folder.write_config({**answers, "out": name, "reuse": [last]})


def _estimate(folder: StartFolder, planned: Plan, run: Sequence[str]) -> list[str]:
    """Print how long everything takes; return the command that examines an unknown judge, or []."""
    config = folder.config
    assert config
    judge = config.arguments["judge"]
    put(f"\n$ {_shell_line([*run, '--dry-run'])}\n")
    settings = {
        name: config.arguments[name]
        for name in ("mapping", "language", "reuse")
        if name in config.arguments
    }
    planned = planned._replace(settings=checked(settings))
    with cli.progress_shown(quiet=False) as progress:
        estimate = estimate_plan(planned, judge=judge, out=folder.run, progress=progress)
    show(estimate_view(estimate))
    is_new = estimate.judge.examined == NOT_EXAMINED
    label_minutes = math.ceil(DEFAULT_COUNT * SECONDS_A_LABEL / 60)
    doctor_minutes = _DOCTOR_MINUTES if is_new else 0
    seconds = estimate.seconds or 0
    total = roughly(seconds + 60 * (label_minutes + doctor_minutes))
    judging = roughly(seconds, estimate.seconds_ci95) if seconds else "no time"
    parts = [f"{judging} for judging", f"{label_minutes} minutes for labels"]
    if is_new:
        parts.append(f"up to about {doctor_minutes} minutes for doctor")
    put(f"\n in total {total}: {', '.join(parts)}\n")
    click.echo("Ctrl-C stops; the same command resumes", err=True)
    return ["doctor", "--judge", judge, "--config", "none"] if is_new else []


def _read_labels(folder: StartFolder, run: RunRecord, given: Sequence[Path]) -> None:
    """Read the named files, labels of earlier runs, and label files in the usual places."""
    for file in given:
        _run_step(["label", str(run.directory), "--read", str(file)])
        folder.remember_read(file)
    if read_run_labels(run) is None:
        for other in folder.other_runs():
            if read_run_labels(other) is not None:
                _try_to_read(run, other)
    files = list(folder.label_files())
    is_read = len(files) > 1 and _try_to_read(run, *files)
    for file in files:
        if is_read or _try_to_read(run, file):
            folder.remember_read(file)


def _try_to_read(run: RunRecord, *sources: Path) -> bool:
    """Read all sources in one command, so that parts of one sheet count as one plan."""
    options = [word for source in sources for word in ("--read", str(source))]
    try:
        _run_step(["label", str(run.directory), *options])
    except InputError as error:
        click.echo(printable_lines(f"not read: {error}"), err=True)
        return False
    return True


def _write_page(
    folder: StartFolder, run: RunRecord, metric: str, labels: RunLabels | None
) -> _Task | None:
    """Write the page of the next statements to label.

    Returns None if no label is needed or helps.
    """
    mean = _corrected(labels, metric)
    if mean and mean.unsettled:
        labelling = Labelling(run, metrics=[metric], disputed=True)
        page = folder.page(len(labelling.rows), "disputed")
        how = ["--disputed"]
    elif mean and (mean.ci95 or not mean.needed):
        return None
    else:
        count = _statements_to_draw(labels, mean)
        try:
            labelling = Labelling(run, metrics=[metric], sample=count)
        except InputError:  # no verdicts
            return None
        page = folder.page(count)
        how = ["--sample", str(count)]
    for remark in labelling.remarks:
        click.echo(printable(remark), err=True)
    if labelling.remarks or not labelling.rows:
        return None
    if not page.exists():
        language = _page_language(folder)
        _run_step(
            [
                "label",
                str(run.directory),
                "--metrics",
                metric,
                *how,
                "--page",
                str(page),
                *language,
            ],
        )
    return _Task(page, len(labelling.rows))


def _statements_to_draw(labels: RunLabels | None, mean: CorrectedMean | None) -> int:
    answered = labels.statements + labels.unsure if labels else 0
    if answered < DEFAULT_COUNT:
        return DEFAULT_COUNT
    needed = mean.needed if mean else None
    return answered + (needed or DEFAULT_COUNT)


def _page_language(folder: StartFolder) -> list[str]:
    config = folder.config
    language = str(config.arguments.get("language")) if config else ""
    return ["--language", language] if language in get_args(Language) else []


def _corrected(labels: RunLabels | None, metric: str) -> CorrectedMean | None:
    return labels.corrected.get(metric) if labels else None


def _result_line(
    run: RunRecord, metric: str, labels_before: RunLabels | None, labels: RunLabels | None
) -> str:
    """Return the mean in words, and what new labels changed. Too few labels leave no mean."""
    summary = run.summary.metrics[metric]
    now = _corrected(labels, metric)
    headline = choose_headline(summary, now)
    if headline.basis == "too few labels":
        return f"{metric}: {now.shortage or 'too few labels'}" if now else metric
    if headline.mean is None:
        return f"{metric} has no mean"
    line = state_mean(metric, headline.mean, headline.ci95)
    if headline.basis == "judge" or now is None:
        counted = f"{numbered(labels.statements, 'label')} so far" if labels else "no label yet"
        return f"{line}, by the judge only; {counted}"
    line = f"{line}, by {now.in_words}"
    before = choose_headline(summary, _corrected(labels_before, metric))
    if before.basis != "labels":
        return f"{line}; {number(summary.mean)} is the mean by the judge only"
    if before.mean != headline.mean:
        return f"{line}; it was {number(before.mean)} before the new labels"
    return line


def _shell_line(step: Sequence[str]) -> str:
    return printable(shlex.join(["localjudge", *step]))


def _run_step(step: Sequence[str]) -> int:
    put(f"\n$ {_shell_line(step)}\n")
    command = command_line.get_command(click.get_current_context(), step[0])
    assert command
    code: int | None = command.main(list(step[1:]), standalone_mode=False, obj=cli.STEP)
    return code or ExitCode.DONE
