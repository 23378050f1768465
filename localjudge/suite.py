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
call names takes the place of what is here. What would send texts to another machine has to
be typed: it is refused here.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from localjudge import model_registry
from localjudge.engine.opening import may_be_elsewhere
from localjudge.errors import UsageError
from localjudge.option_spelling import flag
from localjudge.record.untrusted import shown
from localjudge.run.settings import NOT_IN_FILES, RunSettings, checked
from localjudge.suggestion import suggestion
from localjudge.types import Record

SUITE = "localjudge.toml"
"""The file that `localjudge run` looks for, in the folder that it is called in."""

Texts = tuple[str, ...]
_CLUSTERS_HERE = ("local", "auto")
_FILES = ("data", "out", "baseline", "junit", "markdown", "prompts", "reuse")
_NAMES_OR_FILES = ("judge", "criteria", "calibration", "profile", "abbreviations")
"""What may be the name of something bundled or registered: a path where such a file is in the folder."""


class SuiteKeys(Record):
    """What a suite may say beside the settings of a run."""

    data: Texts = Field(default=(), description="files with the samples")
    judge: Texts | None = Field(default=None, description="registered name or GGUF file, or several")
    metrics: Texts | None = Field(default=None, description="names of metrics")
    out: str | None = Field(default=None, description="run directory")
    gates: Texts = Field(default=(), description="promises such as context_recall>=0.8")
    baseline: str | None = Field(default=None, description="earlier run to compare with")
    undecided: Literal["pass", "fail"] | None = Field(default=None, description='"pass" or "fail"')
    junit: str | None = Field(default=None, description="file for the gates as JUnit XML")
    markdown: str | None = Field(default=None, description="file for the table as Markdown")
    report: bool = Field(default=False, description="true or false: the page report.html")


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


def read_suite(file: str | Path) -> Suite:
    """Read and check a suite. Raises UsageError for a file that cannot be read and a key or value that cannot be."""
    file = Path(file)
    try:
        content = file.read_bytes()
        says = tomllib.loads(content.decode())
    except OSError as error:
        raise UsageError(f"the suite {file} cannot be read: {error.strerror}", hint="name another file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the suite {file} is not TOML: {error}", hint="mend the file") from error
    arguments: dict[str, Any] = {}
    for key, value in says.items():
        try:
            given = _value(key, value)
            _refuse_elsewhere(key, given)
            arguments[key] = _resolved(key, given, file.parent)
        except UsageError as error:
            raise UsageError(f"{file}: {error.message}", hint=error.hint or "mend the file") from error
    try:
        checked({key: value for key, value in arguments.items() if key in RunSettings.model_fields})
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", hint=error.hint or "mend the file") from error
    return Suite(file, hashlib.sha256(content).hexdigest(), says, arguments)


def _value(key: str, value: Any) -> Any:
    """The value, a list where there may be several. Raises UsageError for a key that is none, and for a wrong kind."""
    if key in RunSettings.model_fields:
        return [value] if key in ("prompts", "reuse", "criteria", "calibration") and isinstance(value, str) else value
    if key not in SuiteKeys.model_fields:
        known = [*SuiteKeys.model_fields, *RunSettings.model_fields]
        raise UsageError(f"a suite has no key {key!r}", hint=suggestion(key, known, "its keys"))
    given = [value] if isinstance(value, str) and key in ("data", "judge", "metrics", "gates") else value
    try:
        return getattr(
            SuiteKeys.model_validate({key: tuple(given) if isinstance(given, list) else given}, strict=True), key
        )
    except ValueError as error:
        meant = SuiteKeys.model_fields[key].description
        raise UsageError(f"{key} must be {meant}, got {shown(value)}", hint="mend the file") from error


def _refuse_elsewhere(key: str, value: Any) -> None:
    """Raise UsageError for what would send texts to another machine: a suite may be somebody else's, as data is."""
    servers = [judge for judge in value or () if may_be_elsewhere(judge)] if key == "judge" else []
    hosts = value if key == "allow_host" else () if key != "ray" or value in _CLUSTERS_HERE else (value,)
    if servers or hosts:
        named = shown((servers or (hosts if isinstance(hosts, list | tuple) else [hosts]))[0])
        raise UsageError(
            f"{key} = {named} would send the texts to another machine, which a suite cannot ask for",
            hint=f"take it out of the file; if it is meant, type {flag(key)} on the command line",
        )


def _resolved(key: str, value: Any, folder: Path) -> Any:
    """Paths from the folder of the suite; a criterion that is a table of its own is none."""
    if folder == Path() or key not in (*_FILES, *_NAMES_OR_FILES):
        return value
    if not isinstance(value, str):
        return [_resolved(key, one, folder) for one in value] if isinstance(value, list | tuple) else value
    if key in _NAMES_OR_FILES and (value in model_registry.registered() or not (folder / value).exists()):
        return value
    return value if value == "-" else str(folder / value)
