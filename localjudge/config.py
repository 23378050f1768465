"""A configuration file: what a run is given and checked against, in one file. `localjudge run` picks it up.

    data = ["questions.jsonl"]                          # localjudge.toml
    judge = "/models/judge.gguf"
    gates = ["context_recall>=0.8"]
    mapping = { reference = "gold_answer" }

    config = localjudge.config.read_config("localjudge.toml")
    check = localjudge.evaluate(**config.evaluation).check(**config.checks)

Keys are arguments of `localjudge.evaluate` and `Run.check`, and files to write. Paths are relative
to its folder; the command line takes precedence. A configuration file may be a stranger's, so the
`Setting` of a key limits what its value can reach; anything beyond the folder must be typed.
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict

from localjudge import model_registry
from localjudge.analysis.compare import Obstacle
from localjudge.errors import InputError
from localjudge.judging.settings import SETTINGS, checked, declared_settings
from localjudge.resources import parse_toml
from localjudge.run_directory.directory import excerpt
from localjudge.types import Record
from localjudge.words import Setting, flag, suggestion

CONFIG_FILE = "localjudge.toml"
"""The file that `localjudge run` looks for in its folder."""
_BEGINNINGS = {
    "markdown": b"## localjudge: ",
    "junit": b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="localjudge" ',
}
"""First bytes of files that runs may replace."""
Texts = tuple[str, ...]


class ConfigKeys(Record):
    """Keys besides the settings of a run."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    data: Annotated[Texts, Setting(path_role="read")] = ()
    """files with the samples"""
    judge: Annotated[
        str | Texts | None,
        Setting(path_role="judge", bundled=model_registry.judge_names),
    ] = None
    """registered name or GGUF file; a list: judges that make one verdict together"""
    metrics: Annotated[Texts, Setting()] = ()
    """names of metrics"""
    out: Annotated[str | None, Setting(path_role="written")] = None
    """run directory"""
    gates: Annotated[Texts, Setting()] = ()
    """conditions such as context_recall>=0.8"""
    baseline: Annotated[str | None, Setting(path_role="read")] = None
    """earlier run to compare with"""
    undecided: Annotated[Literal["pass", "fail"] | None, Setting()] = None
    """"pass" or "fail"; the result of a gate that too few samples leave undecided"""
    allow_different: Annotated[tuple[Obstacle, ...], Setting()] = ()
    """"judges" or "questions", or both; decide gates on a difference although these differ"""
    junit: Annotated[str | None, Setting(path_role="written")] = None
    """file for the gates as JUnit XML"""
    markdown: Annotated[str | None, Setting(path_role="written")] = None
    """file for the table as Markdown"""
    report: Annotated[bool, Setting()] = False
    """true or false: the page report.html"""


KEYS: Mapping[str, Setting] = {**declared_settings(ConfigKeys), **SETTINGS}


class Config(NamedTuple):
    """A configuration file with resolved paths."""

    file: Path
    arguments: Mapping[str, Any]

    @property
    def evaluation(self) -> dict[str, Any]:
        """Arguments for `localjudge.evaluate`."""
        values = self._among("data", "judge", "metrics", "out", *SETTINGS)
        values |= self._among("baseline") if "until" in values else {}
        if criteria := values.pop("criteria", ()):
            values["metrics"] = [*values.get("metrics", ()), *criteria]
        return values

    @property
    def checks(self) -> dict[str, Any]:
        """Arguments for `Run.check`, with the gates of `until`."""
        values = self._among("gates", "baseline", "undecided", "allow_different")
        if until := self.arguments.get("until"):
            values["gates"] = (
                *values.get("gates", ()),
                *([until] if isinstance(until, str) else until),
            )
        return values

    def _among(self, *keys: str) -> dict[str, Any]:
        return {key: value for key, value in self.arguments.items() if key in keys}


def read_config(file: str | Path, *, named: bool = True) -> Config:
    """Read and check a configuration file. Raises InputError.

    Files are written below its folder only, and texts stay on this machine. Unless the user has
    `named` the configuration file, files are also read only there, except models.
    """
    file = Path(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(
            f"the configuration file {file} cannot be read: {error.strerror}",
            hint="name another file",
        ) from error
    says = parse_toml(content, f"the configuration file {file}")
    try:
        arguments = {
            key: _reach(key, _value(key, value), file.parent, named) for key, value in says.items()
        }
        checked({key: value for key, value in arguments.items() if key in SETTINGS})
    except InputError as error:
        raise InputError(f"{file}: {error.message}", hint=error.hint) from error
    except RecursionError as error:
        raise InputError(
            f"the configuration file {file} has values that are nested too deep"
        ) from error
    return Config(file, arguments)


def _value(key: str, value: Any) -> Any:
    if key in SETTINGS:
        return value
    if key not in KEYS:
        raise InputError(
            f"a configuration file has no key {key!r}", hint=suggestion(key, KEYS, "its keys")
        )
    field = ConfigKeys.model_fields[key]
    takes_one = field.annotation in (Texts, tuple[Obstacle, ...])
    if isinstance(value, list) and (takes_one or key == "judge"):
        value = tuple(value)
    elif isinstance(value, str) and takes_one:
        value = (value,)
    try:
        return getattr(ConfigKeys.model_validate({key: value}, strict=True), key)
    except ValueError as error:
        raise InputError(
            f"{key} must be {field.description}, got {excerpt(value)}",
            hint="correct the file",
        ) from error


def _reach(key: str, value: Any, folder: Path, named_by_user: bool) -> Any:
    """Resolve paths. Raises InputError for a path that only the user may name."""
    role = KEYS[key].path_role
    values = list(value) if isinstance(value, list | tuple) else [value]
    if role is None or (role == "word_list" and isinstance(value, list)):
        return value
    try:
        paths = [_path(key, item, folder, named_by_user) for item in values]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{key} = {excerpt(value)} cannot be a path: {error}",
            hint="correct the file",
        ) from error
    return paths if isinstance(value, list | tuple) else paths[0]


def _path(key: str, value: Any, folder: Path, named_by_user: bool) -> Any:
    if not isinstance(value, str) or (key, value) == ("data", "-") or value in KEYS[key].bundled():
        return value
    if "\0" in value:
        raise ValueError("null character")
    path = folder / value
    match KEYS[key].path_role:
        case "judge":
            return str(path) if path.exists() else value
        case "written":
            _check_written(key, value, folder)
        case _ if not named_by_user:
            # What is read is below the folder wherever links lead, and so is everything in it.
            home = os.path.realpath(folder)
            inside = (
                PurePath(os.path.realpath(place)).is_relative_to(home)
                for place in (path, *path.rglob("*"))
            )
            if value.startswith("~") or not all(inside):
                raise _not_in_a_config(
                    key, value, "would read outside the configuration file's folder"
                )
    return str(path)


def _check_written(key: str, value: str, folder: Path) -> None:
    """Require a path below the folder, not hidden (.git) or linked, that replaces only a run's file."""
    path = PurePath(value)
    below = not path.is_absolute() and not any(part.startswith((".", "~")) for part in path.parts)
    if not below or any((folder / place).is_symlink() for place in (path, *path.parents[:-1])):
        raise _not_in_a_config(
            key,
            value,
            "would write outside the configuration file's folder, through a link or a hidden file",
        )
    file, beginning = folder / value, _BEGINNINGS.get(key)
    if beginning and file.exists():
        if file.is_file():
            with file.open("rb") as stream:
                if stream.read(len(beginning)) == beginning:
                    return
        raise _not_in_a_config(key, value, "would replace a file of another program")


def _not_in_a_config(key: str, value: Any, why: str) -> InputError:
    reads = KEYS[key].path_role in ("read", "word_list")
    how = (
        "name the configuration file with --config"
        if reads
        else f"type {flag(key)} on the command line"
    )
    return InputError(
        f"{key} = {excerpt(value)} {why}",
        hint=f"remove it from the file, or if you want it, {how}",
    )
