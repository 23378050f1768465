"""Ask for the columns, the judge and the metric of `localjudge start`, and store the answers."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from localjudge import model_registry
from localjudge.cli.questions import ask
from localjudge.cli.start_columns import ask_columns, warn_of_evidence
from localjudge.cli.start_folder import StartFolder
from localjudge.doctor.inventory import inventory
from localjudge.engine.opening import find_model
from localjudge.errors import InputError
from localjudge.judging.data_report import language_sample
from localjudge.judging.judges import default_judge
from localjudge.judging.plan import Plan, plan
from localjudge.judging.settings import RunSettings, checked
from localjudge.report.doctor_views import model_facts
from localjudge.text.language_guess import likely_languages
from localjudge.words import flag, printable, printable_lines

_METRICS = ("faithfulness", "context_recall")
"""The metric to label, by preference."""
_LABELLED_FIELDS = {"retrieved_contexts", "response"}


def ask_and_store(
    folder: StartFolder, judge: str | None, metric: str | None, *, again: bool
) -> None:
    """Ask what is not known yet, and store the answers. Other answers begin another run."""
    stored = folder.answers
    if again or not stored:
        planned = plan_with_columns(folder.data, stored.get("mapping", {}), again=again)
        answers: dict[str, Any] = {"mapping": dict(planned.settings.mapping)}
        answers["language"] = _recognise_language(planned)
        answers["judge"] = _absolute(judge or _ask_judge())
    else:
        planned = plan(list(folder.data), None, select_settings(stored))
        answers = {name: stored.get(name) for name in ("mapping", "language", "judge")}
        if judge:
            answers["judge"] = _absolute(judge)
    if metric:
        answers["metrics"] = [metric]
    elif stored and not again:
        answers["metrics"] = list(stored["metrics"])
    else:
        answers["metrics"] = [choose_default_metric(planned)]
    # Refuses an unknown metric or missing columns before anything is stored.
    plan(list(folder.data), answers["metrics"], planned.settings)
    if _differ(answers, stored) and folder.run.exists():
        answers["out"] = folder.next_run()
    folder.write_config(answers)


def _differ(answers: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    return any(value and stored.get(name) != value for name, value in answers.items())


def select_settings(answers: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a run among the stored answers."""
    settings: dict[str, Any] = {}
    for name in ("mapping", "language"):
        if answers.get(name):
            settings[name] = answers[name]
    return checked(settings)


def plan_with_columns(data: Sequence[str], stored: Mapping[str, str], *, again: bool) -> Plan:
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
    is_complete = planned.dataset.fields >= _LABELLED_FIELDS
    if is_complete and not any(planned.dataset.unused):
        return planned
    return _ask_for_columns(files, planned.dataset.mapping)


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


def _recognise_language(planned: Plan) -> str | None:
    """Return the language of the texts, if it is not English, and say so."""
    codes = likely_languages(language_sample(planned.dataset), planned.settings.language)
    if not codes:
        return None
    click.echo(f"the texts are read as language {codes[0]} (--language)", err=True)
    return codes[0]


def choose_default_metric(planned: Plan) -> str:
    names = [metric.name for metric in planned.metrics]
    for name in _METRICS:
        if name in names:
            return name
    return names[0]


def _ask_judge() -> str:
    names, suggested = _list_judges()
    default = default_judge()
    if suggested is not None:
        default = str(names.index(suggested) + 1)

    def read(text: str) -> str:
        name = text
        if text.isdecimal() and 1 <= int(text) <= len(names):
            name = names[int(text) - 1]
        if name not in model_registry.registered_juries():
            find_model(name)
        return name

    return ask("Which judge? A number, or a name for --judge", read, default)


def choose_default_judge() -> str:
    """Print the models that can judge, and return the first without a caution, or the default."""
    _, suggested = _list_judges()
    return suggested or default_judge()


def _list_judges() -> tuple[list[str], str | None]:
    """Print the models that can judge. Return their names, and the first without a caution."""
    names: list[str] = []
    suggested: str | None = None
    for jury in model_registry.registered_juries().values():
        names.append(jury.name)
        _print_judge(len(names), jury.name, jury.note)
    for model in inventory().models:
        if model.cannot_judge is not None:
            continue
        names.append(model.name)
        title = printable(model.name)
        registered = model_registry.packaged_as(str(model.sha256))
        if registered and registered.caution:
            title += f" ({registered.caution})"
        elif suggested is None:
            suggested = model.name
        _print_judge(len(names), title, printable(model_facts(model)))
    return names, suggested


def _print_judge(number: int, title: str, facts: str) -> None:
    click.echo(f"{number:>3}  {title}\n     {facts}", err=True)


def _absolute(judge: str) -> str:
    """Return a file's absolute path, because the configuration file is in another folder.

    A name stays a name.
    """
    if Path(judge).is_file():
        return os.path.abspath(judge)
    return judge
