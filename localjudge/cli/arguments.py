"""Arguments of the current command: what the user typed, and what the configuration file adds."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from localjudge.config import CONFIG_FILE, Config, read_config
from localjudge.judging.settings import SETTINGS

NO_CONFIG = "none"
"""Value of `--config` for no configuration file."""


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
    folder unless `none` was typed. A typed threshold replaces the configuration file's calibration,
    and a typed calibration its threshold.
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
    if "threshold" in typed:
        arguments.pop("calibration", None)
    if "calibration" in typed:
        arguments.pop("threshold", None)
    return {**arguments, **typed}, config


def pick(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments with these names."""
    return {name: arguments[name] for name in names if name in arguments}


def pick_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return pick(arguments, SETTINGS)
