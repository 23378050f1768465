"""Ask questions in a terminal, until an answer can be used."""

from collections.abc import Callable
from typing import TypeVar

import click

from localjudge.errors import DataError, InputError
from localjudge.words import printable_lines

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
