"""A configuration file: arguments of a run and its gates. `localjudge run` picks it up.

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
from localjudge.analysis.comparison import Obstacle
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
    against: Annotated[str | None, Setting("Data", "COLUMN")] = None
    """column with the answers of the baseline, judged beside the response"""
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
        """Arguments for `localjudge.evaluate`, or with `against` for `evaluate_pair`."""
        values = self._select("data", "judge", "metrics", "out", "against", *SETTINGS)
        if "until" in values:
            values |= self._select("baseline")
        criteria = values.pop("criteria", ())
        if criteria:
            values["metrics"] = [*values.get("metrics", ()), *criteria]
        return values

    @property
    def checks(self) -> dict[str, Any]:
        """Arguments for `Run.check`, with the gates of `until`."""
        values = self._select("gates", "baseline", "undecided", "allow_different")
        until = self.arguments.get("until", ())
        if isinstance(until, str):
            until = (until,)
        if until:
            values["gates"] = (*values.get("gates", ()), *until)
        return values

    def _select(self, *keys: str) -> dict[str, Any]:
        return {key: value for key, value in self.arguments.items() if key in keys}


def read_config(file: str | Path, *, named: bool = True) -> Config:
    """Read and check a configuration file. Raises InputError.

    Files are written below its folder only, and texts stay on this machine. Unless the user has
    `named` the configuration file, files are also read only there, except models.
    """
    file = Path(file)
    title = f"the configuration file {file}"
    try:
        content = file.read_bytes()
    except OSError as error:
        problem = f"{title} cannot be read: {error.strerror}"
        raise InputError(problem, hint="name another file") from error
    values = parse_toml(content, title)
    arguments: dict[str, Any] = {}
    try:
        for key, value in values.items():
            arguments[key] = _resolve_paths(key, _check_value(key, value), file.parent, named)
        checked({key: value for key, value in arguments.items() if key in SETTINGS})
    except InputError as error:
        raise InputError(f"{file}: {error.message}", hint=error.hint) from error
    except RecursionError as error:
        raise InputError(f"{title} has values that are nested too deep") from error
    return Config(file, arguments)


def _check_value(key: str, value: Any) -> Any:
    """Return the value of a key in its type. Settings of a run are checked together later."""
    if key in KEYS and KEYS[key].typed:
        raise _refuse(key, value, "would send texts to other machines")
    if key in SETTINGS:
        return value
    if key not in KEYS:
        hint = suggestion(key, KEYS, "its keys")
        raise InputError(f"a configuration file has no key {key!r}", hint=hint)
    field = ConfigKeys.model_fields[key]
    takes_several = field.annotation in (Texts, tuple[Obstacle, ...])
    if isinstance(value, list) and (takes_several or key == "judge"):
        value = tuple(value)
    elif isinstance(value, str) and takes_several:
        value = (value,)
    try:
        return getattr(ConfigKeys.model_validate({key: value}, strict=True), key)
    except ValueError as error:
        problem = f"{key} must be {field.description}, got {excerpt(value)}"
        raise InputError(problem, hint="correct the file") from error


def _resolve_paths(key: str, value: Any, folder: Path, named_by_user: bool) -> Any:
    """Return a value with its paths relative to the folder.

    Raises InputError for a path that only the user may name.
    """
    role = KEYS[key].path_role
    if role is None or (role == "word_list" and isinstance(value, list)):
        return value
    try:
        if isinstance(value, list | tuple):
            return [_resolve_path(key, item, folder, named_by_user) for item in value]
        return _resolve_path(key, value, folder, named_by_user)
    except (OSError, ValueError) as error:
        problem = f"{key} = {excerpt(value)} cannot be a path: {error}"
        raise InputError(problem, hint="correct the file") from error


def _resolve_path(key: str, value: Any, folder: Path, named_by_user: bool) -> Any:
    if not isinstance(value, str) or (key, value) == ("data", "-"):
        return value
    if value in KEYS[key].bundled():
        return value
    if "\0" in value:
        raise ValueError("null character")
    path = folder / value
    role = KEYS[key].path_role
    if role == "judge" and not path.exists():
        return value
    if role == "written":
        _check_written(key, value, folder)
    elif role != "judge" and not named_by_user:
        # A path below the folder wherever links lead, and everything in it too.
        home = os.path.realpath(folder)
        real_paths = [PurePath(os.path.realpath(each)) for each in (path, *path.rglob("*"))]
        is_inside = all(real_path.is_relative_to(home) for real_path in real_paths)
        if value.startswith("~") or not is_inside:
            raise _refuse(key, value, "would read outside the configuration file's folder")
    return str(path)


def _check_written(key: str, value: str, folder: Path) -> None:
    """Require a path below the folder that replaces only a run's file.

    No part of it may be hidden (.git) or a link.
    """
    path = PurePath(value)
    is_hidden = any(part.startswith((".", "~")) for part in path.parts)
    is_linked = any((folder / part).is_symlink() for part in (path, *path.parents[:-1]))
    if path.is_absolute() or is_hidden or is_linked:
        where = "outside the configuration file's folder, through a link or a hidden file"
        raise _refuse(key, value, f"would write {where}")
    file = folder / value
    beginning = _BEGINNINGS.get(key)
    if beginning and file.exists():
        content = b""
        if file.is_file():
            with file.open("rb") as stream:
                content = stream.read(len(beginning))
        if content != beginning:
            raise _refuse(key, value, "would replace a file of another program")


def _refuse(key: str, value: Any, why: str) -> InputError:
    how = f"type {flag(key)} on the command line"
    if KEYS[key].path_role in ("read", "word_list"):
        how = "name the configuration file with --config"
    return InputError(
        f"{key} = {excerpt(value)} {why}",
        hint=f"remove it from the file, or if you want it, {how}",
    )
