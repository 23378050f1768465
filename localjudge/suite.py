"""A suite: all that a run is given and held to, in one file beside the data. `localjudge run` picks it up.

    data = ["questions.jsonl"]                          # localjudge.toml
    judge = "/models/judge.gguf"
    metrics = ["context_recall", "faithfulness"]
    gates = ["context_recall>=0.8"]
    baseline = "runs/main"
    threshold = 0.6
    mapping = { reference = "gold_answer" }

    suite = localjudge.read_suite("localjudge.toml")
    run = localjudge.evaluate(**suite.evaluation)
    check = localjudge.check(run, **suite.promises)

Keys are the arguments of `localjudge.evaluate` and `localjudge.check`, and the files to write. Paths are meant from the
folder of the file. What is wrong in it is said before anything is judged, by its key; what the command line or the
call names takes the place of what is here. A suite may be a stranger's: the `Setting` of each key says what it can
reach, and what goes beyond the suite's folder is refused, so it has to be typed.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, get_origin

from pydantic import Field

from localjudge import model_registry
from localjudge.engine.opening import may_be_elsewhere
from localjudge.errors import UsageError
from localjudge.record.directory import excerpt
from localjudge.resources import parse_toml
from localjudge.run.settings import NOT_IN_FILES, SETTINGS, RunSettings, checked, declared
from localjudge.types import Record
from localjudge.words import Setting, flag, suggestion

SUITE = "localjudge.toml"
"""The file that `localjudge run` looks for, in the folder that it is called in."""

_DEEPEST = 100
Texts = tuple[str, ...]
_CLUSTER_HERE = "local"
_BEGINNINGS = {
    "markdown": b"## localjudge: ",
    "junit": b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="localjudge" ',
}
"""How the files begin that runs write, and may replace."""


class SuiteKeys(Record):
    """What a suite may say beside the settings of a run."""

    data: Annotated[Texts, Setting(names="read")] = Field(default=(), description="files with the samples")
    judge: Annotated[str | None, Setting(names="judge", bundled=model_registry.registered)] = Field(
        default=None, description="registered name or GGUF file"
    )
    metrics: Annotated[Texts | None, Setting()] = Field(default=None, description="names of metrics")
    out: Annotated[str | None, Setting(names="written")] = Field(default=None, description="run directory")
    gates: Annotated[Texts, Setting()] = Field(default=(), description="promises such as context_recall>=0.8")
    baseline: Annotated[str | None, Setting(names="read")] = Field(
        default=None, description="earlier run to compare with"
    )
    undecided: Annotated[Literal["pass", "fail"] | None, Setting()] = Field(
        default=None, description='"pass" or "fail"'
    )
    junit: Annotated[str | None, Setting(names="written")] = Field(
        default=None, description="file for the gates as JUnit XML"
    )
    markdown: Annotated[str | None, Setting(names="written")] = Field(
        default=None, description="file for the table as Markdown"
    )
    report: Annotated[bool, Setting()] = Field(default=False, description="true or false: the page report.html")


KEYS: Mapping[str, Setting] = {**declared(SuiteKeys), **SETTINGS}
"""Every key of a suite, with what it can reach."""


class Suite(NamedTuple):
    """A suite as it was read: the file, the sha256 of its bytes, what it says, and the same with paths resolved."""

    file: Path
    sha256: str
    says: Mapping[str, Any]
    arguments: Mapping[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a run among its arguments."""
        return {key: value for key, value in self.arguments.items() if key in RunSettings.model_fields}

    @property
    def evaluation(self) -> dict[str, Any]:
        """The arguments of `localjudge.evaluate`: data, judge, metrics, out and the settings."""
        names = {"data", "judge", "metrics", "out", *RunSettings.model_fields}
        return {key: value for key, value in self.arguments.items() if key in names}

    @property
    def promises(self) -> dict[str, Any]:
        """The arguments of `localjudge.check`: gates, baseline, undecided."""
        return {key: value for key, value in self.arguments.items() if key in ("gates", "baseline", "undecided")}

    @property
    def for_manifest(self) -> dict[str, Any]:
        """What a run's manifest holds of it: not where the judge worked, which names machines."""
        says = {key: value for key, value in self.says.items() if key not in NOT_IN_FILES}
        return {"file": self.file.name, "sha256": self.sha256, "says": says}


def suite_here() -> Path | None:
    """The suite of the folder that we are in."""
    file = Path(SUITE)
    return file if file.is_file() else None


def read_suite(file: str | Path, *, found: bool = False) -> Suite:
    """Read and check a suite. Raises UsageError for a file that cannot be read and a key or value that cannot be.

    It may be a stranger's: what a run writes lies below its folder, and texts stay on this machine. One that was
    `found`, and not named by the user, reads what is below its folder and nothing else, but for models.
    """
    file = Path(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"the suite {file} cannot be read: {error.strerror}", hint="name another file") from error
    says = parse_toml(content, f"the suite {file}")
    _refuse_deep(says, file)
    door = _Door(file.parent, found)
    try:
        arguments = {key: door.let_in(key, _value(key, value)) for key, value in says.items()}
        checked({key: value for key, value in arguments.items() if key in RunSettings.model_fields})
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", hint=error.hint or "mend the file") from error
    return Suite(file, hashlib.sha256(content).hexdigest(), says, arguments)


def _refuse_deep(value: Any, file: Path) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise UsageError(f"the suite {file} has values nested more than {_DEEPEST} deep", hint="no setting is")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _value(key: str, value: Any) -> Any:
    """The value, a list where there may be several. Raises UsageError for a key that is none, and for a wrong kind."""
    if key in RunSettings.model_fields:
        return value
    if key not in SuiteKeys.model_fields:
        raise UsageError(f"a suite has no key {key!r}", hint=suggestion(key, KEYS, "its keys"))
    several = get_origin(SuiteKeys.model_fields[key].annotation) is tuple or key == "metrics"
    given = [value] if isinstance(value, str) and several else value
    try:
        return getattr(
            SuiteKeys.model_validate({key: tuple(given) if isinstance(given, list) else given}, strict=True), key
        )
    except ValueError as error:
        meant = SuiteKeys.model_fields[key].description
        raise UsageError(f"{key} must be {meant}, got {excerpt(value)}", hint="mend the file") from error


class _Door(NamedTuple):
    """What a suite may name, by the kind of its key. Paths are meant from its folder."""

    folder: Path
    found: bool

    def let_in(self, key: str, value: Any) -> Any:
        """The value, its paths resolved. Raises UsageError for what only the user may name."""
        match KEYS[key].names:
            case "value":
                return value
            case "address":
                return self._stays_here(key, value)
        if isinstance(value, list | tuple) and KEYS[key].names != "words":
            return [self._let_in(key, one) for one in value]
        return self._let_in(key, value)

    def _let_in(self, key: str, value: Any) -> Any:
        try:
            return self._path(key, value)
        except (OSError, ValueError) as error:
            raise UsageError(f"{key} = {excerpt(value)} cannot be a path: {error}", hint="mend the file") from error

    def _path(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or (key, value) == ("data", "-") or value in KEYS[key].bundled():
            return value
        if "\0" in value:
            raise ValueError("null character")
        match KEYS[key].names:
            case "judge":
                if may_be_elsewhere(value):
                    raise _not_in_a_suite(key, value, "would send the texts to another machine")
                return str(self.folder / value) if (self.folder / value).exists() else value
            case "written":
                self._refuse_outside(key, value)
                self._refuse_foreign(key, value)
            case _ if self.found:
                self._refuse_elsewhere(key, value)
        return str(self.folder / value)

    def _stays_here(self, key: str, value: Any) -> Any:
        for host in value if isinstance(value, list | tuple) else [value]:
            if key != "ray" or host != _CLUSTER_HERE:
                raise _not_in_a_suite(key, host, "would send the texts to another machine")
        return value

    def _refuse_outside(self, key: str, value: str) -> None:
        """A place that is written is below the folder by its name alone: no link, nothing hidden, as .git is."""
        path = PurePath(value)
        below = not path.is_absolute() and not any(part.startswith((".", "~")) for part in path.parts)
        if not below or any((self.folder / place).is_symlink() for place in (path, *path.parents[:-1])):
            raise _not_in_a_suite(key, value, "would write outside the suite's folder, through a link or a hidden file")

    def _refuse_foreign(self, key: str, value: str) -> None:
        file, beginning = self.folder / value, _BEGINNINGS.get(key)
        if beginning is None or not file.exists():  # a run directory looks after itself
            return
        if file.is_file():
            with file.open("rb") as opened:
                if opened.read(len(beginning)) == beginning:
                    return
        raise _not_in_a_suite(key, value, "would replace a file that no run wrote")

    def _refuse_elsewhere(self, key: str, value: str) -> None:
        """What is read is below the folder wherever links lead, and so is everything in it."""
        path, folder = self.folder / value, os.path.realpath(self.folder)
        paths = (PurePath(os.path.realpath(one)) for one in (path, *path.rglob("*")))
        if value.startswith("~") or not all(one.is_relative_to(folder) for one in paths):
            raise _not_in_a_suite(
                key, value, "would read outside the suite's folder", f", or name the suite with {flag('suite')}"
            )


def _not_in_a_suite(key: str, value: Any, why: str, otherwise: str = "") -> UsageError:
    return UsageError(
        f"{key} = {excerpt(value)} {why}",
        hint=f"take it out of the file; if it is meant, type {flag(key)} on the command line{otherwise}",
    )
