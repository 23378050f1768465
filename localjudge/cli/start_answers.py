"""The questions of `localjudge start`, and the answers by which it plans a run.

 1  Frage          When did the tower open?
 2  Fundstelle 1   It opened in 1889.
 3  Fundstelle 2   It is in Paris.
 4  Antwort        In 1889.
texts that were found, one or several columns [2,3]:
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import click

from localjudge import model_registry
from localjudge.cli.start_folder import StartFolder
from localjudge.dataset.columns import (
    guess_answers,
    guess_columns,
    split_columns,
    unused_evidence,
)
from localjudge.dataset.dataset import AGAINST
from localjudge.dataset.formats import preview_columns
from localjudge.doctor.inventory import inventory
from localjudge.engine.opening import find_model
from localjudge.errors import DataError, InputError
from localjudge.judging.data_report import language_sample
from localjudge.judging.judges import default_judge
from localjudge.judging.metric_choice import suggest_mapping
from localjudge.judging.pair import PairPlan, plan_pair
from localjudge.judging.plan import Plan, plan
from localjudge.judging.settings import checked
from localjudge.report.planning_views import model_facts
from localjudge.text.language_guess import likely_languages
from localjudge.words import flag, numbered, printable, printable_lines

NONE = "none"
_SHARE_OF_NAMES = 0.1
"""Names of texts have fewer letters than this share of the texts."""
_CONTEXTS = "retrieved_contexts"
_QUESTIONS = {
    "user_input": "Which column is the question?",
    _CONTEXTS: "Which columns are the texts that were found? One or several",
    "response": "Which column is the answer of your system?",
    "reference": "Which column is the right answer, written by a person?",
    "id": "Which column is the id of a row?",
}
_QUESTIONS_OF_TWO = {
    "user_input": _QUESTIONS["user_input"],
    _CONTEXTS: _QUESTIONS[_CONTEXTS],
    AGAINST: "Which column is the answer of A, the system to compare with?",
    "response": "Which column is the answer of B, the new system?",
    "reference": _QUESTIONS["reference"],
    "id": _QUESTIONS["id"],
}
_MOST_COLUMNS = {_QUESTIONS[_CONTEXTS]: None, _QUESTIONS["response"]: 2}
"""How many columns may answer a question, None for any number; other questions have one."""
_SETTINGS = ("mapping", "language", "reuse")
"""Settings of a run among the stored answers."""
_NAME_WIDTH = 24
_MIN_WIDTH = 60


def ask_columns(files: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each field, several contexts joined by commas.

    `known` are recognised columns. Where several columns may be the answer, two systems may be
    compared: `AGAINST` is then the column of the baseline. Raises DataError for a file that cannot
    be read or has no columns.
    """
    columns = preview_columns(files)
    _print_columns(columns)
    guesses = _guess_fields(columns)
    mapping: dict[str, str] = {}
    questions = dict(_QUESTIONS)
    if len(guesses["response"]) > 1 and _ask_for_two_systems(guesses["response"]):
        questions = _QUESTIONS_OF_TWO
        guesses = _guess_two_systems(guesses)
        known = {field: column for field, column in known.items() if field != "response"}
    for field, question in questions.items():
        default: Sequence[str] = guesses[field]
        if field in known:
            default = known[field].split(",")
        most = _MOST_COLUMNS.get(question, 1)
        names = _ask_names(question, list(columns), mapping, default, most=most)
        if field == "response" and len(names) > 1:
            mapping[AGAINST], mapping[field] = names
            click.echo(printable(f"two systems: A is {names[0]}, B is {names[1]}"), err=True)
        elif names:
            mapping[field] = ",".join(names)
    return mapping


def _guess_fields(columns: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the columns of each field that their names suggest.

    An id has no text twice. Of several columns of texts, one with far shorter texts has their
    names, such as a column `source` beside `chunks`.
    """
    guesses = guess_columns(columns)
    letters = {name: median(map(len, columns[name] or [""])) for name in guesses[_CONTEXTS]}
    for name, count in letters.items():
        if 0 < count < _SHARE_OF_NAMES * max(letters.values()):
            guesses[_CONTEXTS].remove(name)
    for name in list(guesses["id"]):
        texts = columns[name]
        if not texts or len(set(texts)) < len(texts):
            guesses["id"].remove(name)
    if guesses[_CONTEXTS] and not guesses["response"]:
        guesses["response"] = guess_answers(columns)
    return guesses


def _guess_two_systems(guesses: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the columns of two systems: of several answers, the first is the baseline."""
    old, new, *_ = guesses["response"]
    return {**guesses, AGAINST: [old], "response": [new]}


def guess_mapping_of_two(files: Sequence[str]) -> dict[str, str]:
    """Return the mapping that Enter at each question of two systems gives, with `AGAINST`.

    Returns {} where at most one column may be the answer.
    """
    guesses = _guess_fields(preview_columns(files))
    if len(guesses["response"]) <= 1:
        return {}
    mapping: dict[str, str] = {}
    for field in _QUESTIONS_OF_TWO:
        names = _guess_two_systems(guesses)[field]
        if len(names) == 1 or (names and field == _CONTEXTS):
            mapping[field] = ",".join(names)
    return mapping


def _ask_for_two_systems(names: Sequence[str]) -> bool:
    """Return whether two systems are compared, where several columns may be the answer."""
    columns = ", ".join(map(printable, names))
    click.echo(f"Several columns may be the answer: {columns}", err=True)

    def read(text: str) -> bool:
        if text not in ("1", "2"):
            raise InputError("answer 1 or 2")
        return text == "2"

    return ask("One system (1), or two systems, A against B (2)?", read, "2")


def warn_of_evidence(files: Sequence[str], mapping: Mapping[str, str]) -> None:
    """Name unused columns that look like evidence."""
    contexts = mapping.get(_CONTEXTS, "").split(",")
    for name in unused_evidence(preview_columns(files), split_columns(mapping), contexts):
        warning = f"the column {name} is not used, and looks like a text with evidence"
        click.echo(printable(f"warning: {warning} (--ask asks again)"), err=True)


def _print_columns(columns: Mapping[str, Sequence[str]]) -> None:
    width = max(shutil.get_terminal_size().columns, _MIN_WIDTH)
    name_width = 0
    for name in columns:
        name_width = min(max(name_width, len(printable(name))), _NAME_WIDTH)
    click.echo("Columns of the data, each with an example:", err=True)
    for number, (name, texts) in enumerate(columns.items(), 1):
        line = f"{number:>3}  {printable(name):<{name_width}}  {printable(''.join(texts[:1]))}"
        if len(line) >= width:
            line = f"{line[: width - 4]}..."
        click.echo(line, err=True)
    click.echo(
        f"Answer with a number or name, or {NONE}; Enter takes the value in brackets", err=True
    )


def _ask_names(
    question: str,
    names: Sequence[str],
    mapping: Mapping[str, str],
    default: Sequence[str],
    *,
    most: int | None,
) -> list[str]:
    taken = split_columns(mapping)
    numbers: list[str] = []
    for name in default:
        if name in names and name not in taken:
            numbers.append(str(names.index(name) + 1))
    suggestion = ",".join(numbers)
    if most is not None and len(numbers) > 1:
        suggestion = ""  # the names do not decide
    elif most is not None and not numbers:
        suggestion = NONE

    def read(text: str) -> list[str]:
        chosen = _read_names(text, names)
        _check_names(chosen, taken, most)
        if question == _QUESTIONS["reference"] and not chosen and "response" not in mapping:
            hint = "without an answer and a right answer there is nothing to judge"
            raise InputError("this column is needed, because no column holds the answer", hint=hint)
        return chosen

    return ask(question, read, suggestion or None)


def _check_names(names: Sequence[str], taken: Collection[str], most: int | None) -> None:
    """Raise InputError for too few or too many columns, or one of another field."""
    if most is None and not names:
        hint = "a judge compares an answer with the texts that were found"
        raise InputError("at least one column of texts is needed", hint=hint)
    if most is not None and len(names) > most:
        columns = numbered(most, "column")
        raise InputError(f"at most {columns} can be named here, got {len(names)}")
    for name in names:
        if name in taken:
            raise InputError(f"the column {name} was already chosen", hint="name another, or none")


def _read_names(text: str, names: Sequence[str]) -> list[str]:
    """Return the columns with these names or numbers, separated by commas.

    Raises InputError for others.
    """
    if text in names:
        return [text]
    if text.casefold() == NONE:
        return []
    chosen: list[str] = []
    for part in re.split(r"[,;]", text):
        name = part.strip()
        if name not in names:
            is_number = name.isdecimal() and 1 <= int(name) <= len(names)
            if not is_number:
                raise InputError(
                    f"{name!r} is no column",
                    hint=f"give numbers from 1 to {len(names)}, or names",
                )
            name = names[int(name) - 1]
        if name not in chosen:
            chosen.append(name)
    return chosen


_METRICS = ("faithfulness", "context_recall")
"""The metric to label, by preference."""
_LABELLED_FIELDS = {"retrieved_contexts", "response"}


def ask_and_store(
    folder: StartFolder, judge: str | None, metric: str | None, *, again: bool
) -> None:
    """Ask what is not known yet, and store the answers. Other answers begin another run."""
    stored = folder.answers
    if again or not stored:
        planned, against = plan_with_columns(folder.data, stored.get("mapping", {}), again=again)
        answers: dict[str, Any] = {"mapping": dict(planned.settings.mapping), "against": against}
        answers["language"] = recognise_language(planned)
        answers["judge"] = _absolute(judge or _ask_judge())
    else:
        planned = plan_answers(folder.data, None, stored)
        names = ("mapping", "against", "language", "judge")
        answers = {name: stored.get(name) for name in names}
        if judge:
            answers["judge"] = _absolute(judge)
    if metric:
        answers["metrics"] = [metric]
    elif stored and not again:
        answers["metrics"] = list(stored["metrics"])
    else:
        answers["metrics"] = [choose_default_metric(planned)]
    # Refuses an unknown metric or missing columns before anything is stored.
    plan_answers(folder.data, answers["metrics"], answers)
    is_changed = any(value and stored.get(name) != value for name, value in answers.items())
    if is_changed and folder.run.exists():
        answers["out"] = folder.next_run()
    folder.write_config(answers)


def plan_answers(data: Sequence[str], metrics: object, answers: Mapping[str, Any]) -> Plan:
    """Plan the run, or the new run of two that are compared."""
    planned = _plan(data, metrics, answers)
    if isinstance(planned, PairPlan):
        return planned.run
    return planned


def plan_stored(folder: StartFolder) -> Plan | PairPlan:
    """Plan the run, or both runs, with the stored answers."""
    return _plan(folder.data, folder.answers["metrics"], folder.answers)


def _plan(data: Sequence[str], metrics: object, answers: Mapping[str, Any]) -> Plan | PairPlan:
    settings = checked({name: answers[name] for name in _SETTINGS if answers.get(name)})
    if answers.get("against") is None:
        return plan(list(data), metrics, settings)
    return plan_pair(list(data), metrics, answers["against"], settings)


def plan_with_columns(
    data: Sequence[str], stored: Mapping[str, str], *, again: bool
) -> tuple[Plan, str | None]:
    """Plan the data with known column names, or ask for the columns if these are unclear.

    Also returns the column of the baseline, if two systems are compared.
    """
    files = list(data)
    if not sys.stdin.isatty():
        mapping = guess_mapping_of_two(files)
        against = mapping.pop(AGAINST, None)
        planned = plan_answers(files, None, {"mapping": mapping, "against": against})
        likely = suggest_mapping(planned.dataset)
        if not mapping and likely:  # as Enter at each question
            planned = plan_answers(files, None, {"mapping": likely})
        return planned, against
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
        return planned, None
    return _ask_for_columns(files, planned.dataset.mapping)


def _ask_for_columns(files: list[str], known: Mapping[str, str]) -> tuple[Plan, str | None]:
    while True:
        mapping = ask_columns(files, known)
        against = mapping.pop(AGAINST, None)
        answers = {"mapping": mapping, "against": against}
        try:
            planned = plan_answers(files, None, answers)
        except InputError as error:
            if not _is_about_columns(error):
                raise
            click.echo(printable_lines(str(error)), err=True)
        else:
            used = dict(mapping)
            if against is not None:
                used[AGAINST] = against
            warn_of_evidence(files, used)
            return planned, against


def _is_about_columns(error: InputError) -> bool:
    """Return whether another mapping of columns can avoid the error."""
    return flag("mapping") in str(error)


def recognise_language(planned: Plan) -> str | None:
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


_Value = TypeVar("_Value")


def ask(question: str, read: Callable[[str], _Value], default: str | None = None) -> _Value:
    """Ask until `read` accepts the answer. Enter gives the default; without one, it is asked again.

    `read` raises InputError for an answer to repeat. A DataError ends the command.
    """

    def value(text: str) -> _Value:
        try:
            return read(text.strip())
        except DataError:
            raise
        except InputError as error:
            raise click.UsageError(printable_lines(str(error))) from error

    try:
        answer: _Value = click.prompt(question, default, value_proc=value, err=True)
    except click.Abort:
        click.echo(err=True)
        raise
    return answer
