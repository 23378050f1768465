"""Names for models, pinned by sha256.

Two tables of the same shape: the packaged `models/registry.toml`, which is read only, and the user's own
`registry.toml` in the state directory. A judge is named by either, or by a path to any GGUF file.

A file that is pinned is verified before it is used. Reading gigabytes for a checksum takes time, so the sum of a file
is remembered in the state directory under its path, size, modification time and inode; a changed file is read again.
"""

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from localjudge import resources
from localjudge.errors import ModelError
from localjudge.types import Record

_CHUNK_BYTES = 1 << 20


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


class ModelFile(Record):
    """A model on disk, its checksum known and, where it was pinned, verified."""

    path: Path
    sha256: str
    size: int
    profile: str | None = None
    n_ctx: int | None = None
    name: str
    note: str = ""


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
        raise ModelError(f"{path} is not a file", hint="give the path to a GGUF file")
    path = path.resolve()
    return ModelFile(path=path, sha256=sha256_of(path), size=path.stat().st_size, name=path.stem)


def sha256_of(path: Path) -> str:
    """Checksum of a file, from memory if path, size, time and inode are as they were."""
    try:
        facts = path.stat()
        key = f"{path.resolve()}|{facts.st_size}|{facts.st_mtime_ns}|{facts.st_ino}"
        remembered = _remembered()
        if key not in remembered:
            remembered[key] = _hash(path)
            _remember(remembered)
        return remembered[key]
    except PermissionError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}", hint="check the file's permissions") from error


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
            hint="put it back, or register the model again",
        )
    found = sha256_of(path)
    if found != model.sha256:
        raise ModelError(
            f"{path} is not the file that was pinned as {model.name!r}: sha256 {found}, pinned {model.sha256}",
            hint="restore the pinned file, or register this one under a name of its own",
        )
    return ModelFile(
        path=path,
        sha256=found,
        size=path.stat().st_size,
        profile=model.profile,
        n_ctx=model.n_ctx,
        name=model.name,
        note=model.note,
    )


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _remembered() -> dict[str, str]:
    try:
        known = json.loads((resources.state_directory() / "sha256.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _remember(sums: dict[str, str]) -> None:
    folder = resources.state_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"sha256.{os.getpid()}.json"
        fresh.write_text(json.dumps(sums, indent=1, sort_keys=True), encoding="utf-8")
        fresh.replace(folder / "sha256.json")
    except OSError:
        return  # a machine with no writable state directory hashes the file each time
