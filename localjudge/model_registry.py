"""Names for models, pinned by sha256.

Two tables of the same shape: the packaged `models/registry.toml`, which is read only, and the user's own
`registry.toml` in the state directory. A judge is named by either, or by a path to any GGUF file.

A file that is pinned is verified before it is used. Reading gigabytes for a checksum takes time, so the sum of a file
is remembered in the state directory under its path, size, modification time and inode; a changed file is read again.

A file is known by its checksum, wherever it lies and whatever it is called: a registered model is the same judge by its
name and by the path of a copy.

A model in several files (`NAME-00001-of-00003.gguf` ...) is named by the first. Its checksum is that of all its parts,
one after another: `cat NAME-*.gguf | sha256sum`.
"""

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from localjudge import resources
from localjudge.errors import ModelError
from localjudge.types import Record

_CHUNK_BYTES = 1 << 20
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


class RegisteredModel(Record):
    """One row of a registry. `file` is relative to the registry's folder; `path` is absolute."""

    name: str
    file: str | None = None
    path: str | None = None
    sha256: str
    size: int
    licence: str = ""
    source: str = ""
    profile: str
    n_ctx: int | None = None
    note: str = ""
    caution: str = ""


class ModelFile(Record):
    """A model on disk, its checksum known and, where it was pinned, verified."""

    path: Path
    sha256: str
    size: int
    profile: str | None = None
    n_ctx: int | None = None
    name: str
    note: str = ""
    caution: str = ""
    """What must stand beside every number that this model judged."""


def registered() -> dict[str, RegisteredModel]:
    """Every registered model by name; the user's own win over the packaged ones."""
    packaged = _read(resources.model_registry_file())
    own = _read(resources.state_directory() / "registry.toml")
    return {**packaged, **own}


def find(name_or_path: str) -> ModelFile:
    """The model registered under this name, or the GGUF at this path.

    Raises ModelError if there is neither, if the file cannot be read, or if a pinned file is not what was pinned.
    """
    models = registered()
    if name_or_path in models:
        return _verified(models[name_or_path])
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise ModelError(
            f"no judge is called {name_or_path!r}, and there is no such file",
            hint=f"name a registered judge ({', '.join(models)}) or give the path to a GGUF file",
        )
    if not path.is_file():
        raise ModelError(f"{path} is not a file", hint=_hint_for_folder(path))
    path = path.absolute()
    checksum = sha256_of(path)
    known = registered_as(checksum)
    if known:
        return _model_file(known, path)
    return ModelFile(path=path, sha256=checksum, size=size_of(path), name=path.stem)


def registered_as(sha256: str) -> RegisteredModel | None:
    """The registered model with this checksum, the user's own before a packaged one; None if there is none."""
    return next((model for model in reversed(registered().values()) if model.sha256 == sha256), None)


def packaged_as(sha256: str) -> RegisteredModel | None:
    """The packaged model with this checksum, whatever the user's own registry calls it; None if there is none."""
    return next((model for model in _read(resources.model_registry_file()).values() if model.sha256 == sha256), None)


def parts(path: Path) -> tuple[Path, ...]:
    """The files that a model consists of: itself, or all parts if its name says that it is the first of several.

    Raises ModelError if it is another part than the first, or if a part is missing.
    """
    named = _PART.fullmatch(path.name)
    if not named or named[3] < "00002":
        return (path,)
    stem, number, count = named[1], int(named[2]), int(named[3])
    files = tuple(path.with_name(f"{stem}-{part:05d}-of-{count:05d}.gguf") for part in range(1, count + 1))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ModelError(
            f"{path} is part {number} of a model in {count} files, and {_some(missing)} not beside it",
            hint="put all parts into one folder, and give the first",
        )
    if number != 1:
        raise ModelError(f"{path} is part {number} of a model in {count} files", hint=f"give the first: {files[0]}")
    return files


def sha256_of(path: Path) -> str:
    """Checksum of a model, from memory if path, size, time and inode of its files are as they were."""
    files = parts(path)
    try:
        key = "|".join(f"{file.resolve()}|{_facts(file)}" for file in files)
        remembered = _remembered()
        if key not in remembered:
            remembered[key] = _hash(files)
            resources.remember(_sums_file(), json.dumps(remembered, indent=1, sort_keys=True))
        return remembered[key]
    except PermissionError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}", hint="check the file's permissions") from error


def size_of(path: Path) -> int:
    """Bytes of a model, all its parts together."""
    return sum(file.stat().st_size for file in parts(path))


def _read(registry: Path) -> dict[str, RegisteredModel]:
    if not registry.is_file():
        return {}
    try:
        tables: list[dict[str, Any]] = tomllib.loads(registry.read_text(encoding="utf-8")).get("model", [])
        rows = [RegisteredModel(**table) for table in tables]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError, TypeError) as error:
        raise ModelError(f"the model registry {registry} cannot be read: {error}", hint="mend or remove it") from error
    folder = registry.parent
    return {
        row.name: row if row.path else row.model_copy(update={"path": str(folder / (row.file or ""))}) for row in rows
    }


def _verified(model: RegisteredModel) -> ModelFile:
    path = Path(model.path or "").expanduser()
    if not path.is_file():
        raise ModelError(
            f"the file of the registered judge {model.name!r} is missing: {path}",
            hint="put it back, or correct its path in the registry",
        )
    found = sha256_of(path)
    if found != model.sha256:
        raise ModelError(
            f"{path} is not the file that was pinned as {model.name!r}: sha256 {found}, pinned {model.sha256}",
            hint="restore the pinned file, or register this one under a name of its own",
        )
    return _model_file(model, path)


def _model_file(model: RegisteredModel, path: Path) -> ModelFile:
    """The registered model at a path whose bytes have its checksum."""
    return ModelFile(
        path=path,
        sha256=model.sha256,
        size=size_of(path),
        profile=model.profile,
        n_ctx=model.n_ctx,
        name=model.name,
        note=model.note,
        caution=model.caution,
    )


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _hint_for_folder(path: Path) -> str:
    inside = sorted(file.name for file in path.glob("*.gguf")) if path.is_dir() else []
    return f"give the path to a GGUF file, for example {path / inside[0]}" if inside else "give the path to a GGUF file"


def _facts(file: Path) -> str:
    facts = file.stat()
    return f"{facts.st_size}|{facts.st_mtime_ns}|{facts.st_ino}"


def _hash(files: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _sums_file() -> Path:
    """Of the checksums of files as they were; without it, each file is hashed each time."""
    return resources.state_directory() / "sha256.json"


def _remembered() -> dict[str, str]:
    try:
        known = json.loads(_sums_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
