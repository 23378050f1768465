"""Read the files of a run directory as untrusted input.

    NAME.part    rows written so far, which others may read; renamed to NAME at the end

Links, oversized content, invalid JSON, unexpected shapes and non-finite numbers raise
RunDirectoryError. `localjudge.run_directory.writing` writes the files.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Generator
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from localjudge.dataset.rows import reason, unique_keys
from localjudge.errors import InputError, RunDirectoryError
from localjudge.resources import OPEN_SAFELY
from localjudge.words import printable

MANIFEST = "manifest.json"
STORE = "run.sqlite"
MAX_BYTES = 64 << 30
MAX_OBJECT_BYTES = 16 << 20
MAX_VALUE_BYTES = 64 << 20
BY_HAND = "was it changed by hand?"

LOCK = "run.lock"
_PART = ".part"
_SHOWN = 200
_Model = TypeVar("_Model", bound=BaseModel)
_Row = TypeVar("_Row")


def part_path(file: Path) -> Path:
    return file.with_name(f"{file.name}{_PART}")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Never blocks on a pipe."""
    refuse_irregular(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN_SAFELY)
    except OSError as error:
        hint = "run the same command again to rewrite it"
        if isinstance(error, PermissionError):
            hint = "make it readable for you, or copy the run as its owner"
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise too_much(path, f"{MAX_BYTES >> 30} GiB")


def file_sha256(path: Path) -> str:
    """Return the sha256 of a regular file. Raises RunDirectoryError if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_irregular(path: Path) -> None:
    """Raise RunDirectoryError for a link, directory or device."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        kind = "a link" if path.is_symlink() else "not a regular file"
        raise RunDirectoryError(
            f"{path} is {kind}",
            hint="a run consists of regular files: copy the files themselves",
        )


def read_object(path: Path) -> dict[str, Any]:
    with open_regular(path) as file:
        content = file.read(MAX_OBJECT_BYTES + 1)
    if len(content) > MAX_OBJECT_BYTES:
        raise too_much(path, f"{MAX_OBJECT_BYTES >> 20} MiB")
    return decoded_object(content, path)


def decoded_object(content: bytes | str, where: Path) -> dict[str, Any]:
    try:
        if isinstance(content, bytes):
            content = content.decode()
        value = _DECODER.decode(content)
    except (ValueError, RecursionError) as error:
        problem = f"{where} cannot be read: {excerpt(reason(error))}"
        raise RunDirectoryError(problem, hint=BY_HAND) from error
    if not isinstance(value, dict):
        raise RunDirectoryError(f"{where} cannot be read: it is not a JSON object", hint=BY_HAND)
    return value


def placed_rows(
    path: Path, kind: TypeAdapter[_Row], start: int = 0, end: int = MAX_BYTES
) -> Generator[tuple[int, _Row], None, None]:
    """Yield the rows of a JSONL file between two byte offsets, each with its offset."""
    with open_regular(path) as file:
        file.seek(start)
        offset = start
        number = 0
        while line := file.readline(min(MAX_VALUE_BYTES + 1, end - offset)):
            number += 1
            yield offset, parse_row(line, f"{path}:{number}", kind)
            offset += len(line)


def parse_row(line: bytes, where: str, kind: TypeAdapter[_Row]) -> _Row:
    if len(line) > MAX_VALUE_BYTES:
        raise too_much(where, f"{MAX_VALUE_BYTES >> 20} MiB in a row")
    try:
        return kind.validate_json(line, strict=True)
    except ValidationError as error:
        message = f"{where} is not a row of localjudge: {first_problem(error)}"
        raise RunDirectoryError(message, hint=BY_HAND) from error


def validated(kind: type[_Model], value: Any, where: str) -> _Model:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problem = f"{where} cannot be read: {first_problem(error)}"
        raise RunDirectoryError(problem, hint=BY_HAND) from error
    except InputError as error:
        problem = f"{where} cannot be read: {excerpt(error.message)}"
        raise RunDirectoryError(problem, hint=BY_HAND) from error


def too_much(where: Path | str, bound: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{where} exceeds the limit of {bound}", hint="is it the file of a run?"
    )


def first_problem(error: ValidationError) -> str:
    """Return the first validation error as `metrics.faithfulness.mean: Input should be ...`."""
    problem = error.errors(include_url=False, include_input=False)[0]
    message = problem["msg"]
    field = ".".join(map(str, problem["loc"]))
    if field:
        message = f"{field}: {message}"
    return excerpt(message)


def excerpt(value: object) -> str:
    """Shorten a value from a file and make it safe to print."""
    text = str(value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}..."
    return printable(text)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{excerpt(digits)} is not a finite number")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_finite, parse_float=_finite
)
