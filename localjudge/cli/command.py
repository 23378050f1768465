"""The commands: how they are declared and shown in their help, what they take, and what they print.

What a command takes are the words that the user typed, and what the configuration file adds.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from pydantic import BaseModel

from localjudge.config import CONFIG_FILE, Config, read_config
from localjudge.judging.settings import SETTINGS, override
from localjudge.progress import Progress
from localjudge.report.shown_progress import progress_on
from localjudge.report.terminal import put

_EVERYDAY = "Options"
_SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")
NO_CONFIG = "none"
"""Value of `--config` for no configuration file."""
STEP = object()
"""Object of a command's context within `localjudge start`, which names the next command itself."""


class Command(click.Command):
    """A command of `localjudge`.

        @command("label", "localjudge label runs/data", advanced={"seed": "Data"})

    `advanced` has the sections of options, by parameter name. Other options are listed before them.
    `rewrite` changes the typed words before they are parsed.
    """

    def __init__(
        self,
        *arguments: Any,
        example: str,
        advanced: Mapping[str, str],
        rewrite: Callable[[Sequence[str]], list[str]],
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.advanced = advanced
        self._example = example
        self._rewrite = rewrite

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._rewrite(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
        for section in _SECTIONS:
            rows[section] = []
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row and isinstance(parameter, click.Option):
                section = self.advanced.get(str(parameter.name), _EVERYDAY)
                rows[section].append(row)
        for section, options in rows.items():
            title = section
            if section != _EVERYDAY:
                title = f"Advanced: {section.lower()}"
            if options:
                with formatter.section(title):
                    formatter.write_dl(options)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            formatter.write(f"{' ' * formatter.current_indent}{self._example}\n")


def command(
    name: str,
    example: str,
    *,
    advanced: Mapping[str, str] | None = None,
    rewrite: Callable[[Sequence[str]], list[str]] = list,
) -> Callable[[Any], Any]:
    return click.command(
        name, cls=Command, example=example, advanced=advanced or {}, rewrite=rewrite
    )


def advanced_settings() -> dict[str, str]:
    """Return the sections of the settings that are not for every day."""
    sections: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        if setting.group and not setting.everyday:
            sections[name] = setting.group
    return sections


def typed_arguments() -> dict[str, Any]:
    """Return the arguments of the current command that the user typed."""
    context = click.get_current_context()
    arguments: dict[str, Any] = {}
    for name, value in context.params.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            arguments[name] = value
    return arguments


def with_config(file: str | None, *keys: str) -> tuple[dict[str, Any], Config | None]:
    """Return the arguments in the configuration file together with the typed ones, and the file.

    With `keys`, only these are read from the configuration file. It is `file`, or the one in this
    folder unless `none` was typed.
    """
    typed = typed_arguments()
    path = file
    if file is None and Path(CONFIG_FILE).is_file():
        path = CONFIG_FILE
    if path is None or path == NO_CONFIG:
        return typed, None
    config = read_config(path, named=file is not None)
    arguments = dict(config.arguments)
    if keys:
        arguments = pick(arguments, keys)
    return override(arguments, typed), config


def pick(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments with these names."""
    return {name: arguments[name] for name in names if name in arguments}


def pick_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return pick(arguments, SETTINGS)


def names_next_step() -> bool:
    """Return whether the current command names the next one."""
    return click.get_current_context().obj is not STEP


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Progress]:
    """Show progress on standard error, or only warnings if `quiet`."""
    if quiet:
        logging.getLogger("localjudge").setLevel(logging.WARNING)
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        yield progress


def print_json(values: object) -> None:
    """Print a record or plain values as JSON."""
    if isinstance(values, BaseModel):
        put(f"{values.model_dump_json(indent=2)}\n")
        return
    put(f"{json.dumps(values, indent=2)}\n")
