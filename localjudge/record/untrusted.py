"""Files of a run directory, read as the work of a stranger: none can hang, exhaust or mislead whoever opens the run.

    what is read                       bound
    every file                         a regular file, not a link to one; 64 GiB
    manifest.json, summary.json        16 MiB
    scores.jsonl, verdicts.jsonl       64 MiB a row, each of the known shape
    run.sqlite                         64 MiB a value; the rest stands in `database.py`

What is beyond a bound, and what is not JSON or not of the shape that localjudge writes, is a RunDirectoryError of one
line; so is a number that is not finite, which JSON does not have. The bounds leave room for runs of 100,000 samples.

Why links are refused: a link leads out of the directory, so a run that is passed on could show the files of whoever
opens it, or other numbers tomorrow. The directory itself may be named by a link: whoever opens it says where it is.
"""

import json
import math
import os
import stat
from collections.abc import Generator, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from localjudge.dataset.json_values import reason, unique_keys
from localjudge.errors import RunDirectoryError
from localjudge.printable import printable

MOST_BYTES = 64 << 30
MOST_BYTES_OF_OBJECT = 16 << 20
MOST_BYTES_OF_VALUE = 64 << 20
BY_HAND = "was it changed by hand?"
WRITE_ANEW = "run the same command again to write it anew"

_SHOWN = 200
_Model = TypeVar("_Model", bound=BaseModel)
_Row = TypeVar("_Row")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises RunDirectoryError for anything else, and never waits for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink() or path.exists():
            refuse_irregular(path)
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}", hint=WRITE_ANEW) from error
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= MOST_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise _not_regular(path) if not stat.S_ISREG(facts.st_mode) else too_much(path, f"{MOST_BYTES >> 30} GiB")


def refuse_irregular(path: Path) -> None:
    """Raise RunDirectoryError if there is something at the path that is not a regular file; a link is none."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise _not_regular(path)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds. Raises RunDirectoryError if it holds anything else, or too much."""
    with open_regular(path) as file:
        content = file.read(MOST_BYTES_OF_OBJECT + 1)
    if len(content) > MOST_BYTES_OF_OBJECT:
        raise too_much(path, f"{MOST_BYTES_OF_OBJECT >> 20} MiB")
    return decoded_object(content, path)


def decoded_object(content: bytes | str, where: Path) -> dict[str, Any]:
    """The JSON object that is written there. Raises RunDirectoryError if something else is."""
    try:
        value = _DECODER.decode(content.decode("utf-8") if isinstance(content, bytes) else content)
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{where} cannot be read: {shown(reason(error))}", hint=BY_HAND) from error
    if not isinstance(value, dict):
        raise RunDirectoryError(f"{where} cannot be read: it is not a JSON object", hint=BY_HAND)
    return value


def read_rows(path: Path, kind: TypeAdapter[_Row]) -> Iterator[_Row]:
    """The rows of a JSONL file, one by one. Raises RunDirectoryError for the first that is not of the kind."""
    return (row for _, row in placed_rows(path, kind))


def placed_rows(
    path: Path, kind: TypeAdapter[_Row], start: int = 0, end: int = MOST_BYTES
) -> Generator[tuple[int, _Row], None, None]:
    """The rows with the places in the file where they begin, from such a place on up to another.

    Raises as `read_rows` does.
    """
    with open_regular(path) as file:
        file.seek(start)
        place, number = start, 0
        while line := file.readline(min(MOST_BYTES_OF_VALUE + 1, end - place)):
            number += 1
            if len(line) > MOST_BYTES_OF_VALUE:
                raise too_much(f"{path}:{number}", f"{MOST_BYTES_OF_VALUE >> 20} MiB in a row")
            try:
                row = kind.validate_json(line, strict=True)
            except ValidationError as error:
                message = f"{path}:{number} is not a row that localjudge writes: {first_problem(error)}"
                raise RunDirectoryError(message, hint=WRITE_ANEW) from error
            yield place, row
            place += len(line)


def validated(kind: type[_Model], value: Any, where: str) -> _Model:
    """The value as a record of the kind. Raises RunDirectoryError that names the first field that cannot be."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise RunDirectoryError(f"{where} cannot be read: {first_problem(error)}", hint=BY_HAND) from error


def too_much(where: Path | str, bound: str) -> RunDirectoryError:
    """The error for what is larger than anything that localjudge reads."""
    return RunDirectoryError(f"{where} holds more than localjudge reads ({bound})", hint="is it the file of a run?")


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a value, in one line: `metrics.faithfulness.mean: Input should be ...`."""
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, problem["loc"]))
    return shown(f"{place}: {problem['msg']}" if place else problem["msg"])


def shown(value: object) -> str:
    """A value from a file, safe to print and not longer than a message should be."""
    text = str(value)
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _not_regular(path: Path) -> RunDirectoryError:
    kind = "a link" if path.is_symlink() else "not a regular file"
    return RunDirectoryError(f"{path} is {kind}", hint="a run consists of regular files: copy the files themselves")


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{shown(digits)} is too large for a number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_constant, parse_float=_finite)
