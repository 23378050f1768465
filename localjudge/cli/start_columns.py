"""Ask which columns of the data hold the question, the texts, the answer and the right answer.

 1  Frage          When did the tower open?
 2  Fundstelle 1   It opened in 1889.
 3  Fundstelle 2   It is in Paris.
 4  Antwort        In 1889.
texts that were found, one or several columns [2,3]:
"""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence

import click

from localjudge.cli.questions import ask
from localjudge.dataset.preview import (
    guess_columns,
    preview_columns,
    unused_evidence,
)
from localjudge.errors import InputError
from localjudge.words import printable

NONE = "none"
_CONTEXTS = "retrieved_contexts"
_QUESTIONS = {
    "user_input": "Which column is the question?",
    _CONTEXTS: "Which columns are the texts that were found? One or several",
    "response": "Which column is the answer of your system?",
    "reference": "Which column is the right answer, written by a person?",
    "id": "Which column is the id of a row?",
}
_NAME_WIDTH = 24
_MIN_WIDTH = 60


def ask_columns(files: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each field, several contexts joined by commas.

    `known` are recognised columns. Raises DataError for a file that cannot be read or has no
    columns.
    """
    columns = preview_columns(files)
    _print_columns(columns)
    guesses = guess_columns(columns)
    guesses["id"] = [name for name in guesses["id"] if _has_different_texts(columns[name])]
    mapping: dict[str, str] = {}
    for field, question in _QUESTIONS.items():
        default: Sequence[str] = guesses[field]
        if field in known:
            default = known[field].split(",")
        names = _ask_names(question, list(columns), mapping, default, several=field == _CONTEXTS)
        if names:
            mapping[field] = ",".join(names)
    return mapping


def _has_different_texts(texts: Sequence[str]) -> bool:
    return bool(texts) and len(set(texts)) == len(texts)


def warn_of_evidence(files: Sequence[str], mapping: Mapping[str, str]) -> None:
    """Name unused columns that look like evidence."""
    contexts = mapping.get(_CONTEXTS, "").split(",")
    used = {*mapping.values(), *_split_columns(mapping)}
    for name in unused_evidence(preview_columns(files), used, contexts):
        warning = f"the column {name} is not used, and looks like a text with evidence"
        click.echo(printable(f"warning: {warning} (--ask asks again)"), err=True)


def _split_columns(mapping: Mapping[str, str]) -> set[str]:
    """Return the names of all mapped columns."""
    names: set[str] = set()
    for column in mapping.values():
        names.update(column.split(","))
    return names


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
    several: bool,
) -> list[str]:
    taken = _split_columns(mapping)
    numbers: list[str] = []
    for name in default:
        if name in names and name not in taken:
            numbers.append(str(names.index(name) + 1))
    suggestion = ",".join(numbers)
    if not several and len(numbers) > 1:
        suggestion = ""  # the names do not decide
    elif not several and not numbers:
        suggestion = NONE

    def read(text: str) -> list[str]:
        chosen = _read_names(text, names)
        _check_names(chosen, taken, several=several)
        if question == _QUESTIONS["reference"] and not chosen and "response" not in mapping:
            hint = "without an answer and a right answer there is nothing to judge"
            raise InputError("this column is needed, because no column holds the answer", hint=hint)
        return chosen

    return ask(question, read, suggestion or None)


def _check_names(names: Sequence[str], taken: Collection[str], *, several: bool) -> None:
    """Raise InputError for too few or too many columns, or one of another field."""
    if several and not names:
        hint = "a judge compares an answer with the texts that were found"
        raise InputError("at least one column of texts is needed", hint=hint)
    if not several and len(names) > 1:
        raise InputError(f"one column is possible here, got {len(names)}")
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
