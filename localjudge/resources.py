"""Locate files of the package and of the user, and write files whole and private.

    checkout    grammars/ and models/ are next to the package; in a wheel they are inside it
    user        LOCALJUDGE_HOME, or `localjudge` in the XDG data directory

Result files of an interrupted run are parts in its locked directory
(`run_directory/directory.py`).
"""

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import Any, Literal

from localjudge.errors import RETRY_HINTS, InputError, LocaljudgeError, OutOfResource


@cache
def package_version(package: str) -> str:
    """Return the version that this process has loaded. Reading it takes a millisecond."""
    return version(package)


def parse_toml(content: bytes, file: str, *, hint: str = "correct the file") -> dict[str, Any]:
    """Parse a TOML table. Raises InputError that names `file`."""
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (RecursionError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problem = str(error)
        if isinstance(error, RecursionError):
            problem = "its values are nested too deep"
        raise InputError(f"{file} is not TOML: {problem}", hint=hint) from error


_SAFE_FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
OPEN_SAFELY: int = sum(getattr(os, flag, 0) for flag in _SAFE_FLAGS)
"""Follow no link, wait for no pipe, hand the file to no child process."""
_DEVICES = Path("/dev")


_PART = ".part"
_ABANDONED_SECONDS = 60


def write_whole(file: Path, parts: Iterable[bytes], *, durable: bool = True) -> int:
    """Write a file as `replace_whole` does, but through devices and pipes. Raises OSError."""
    if _DEVICES in file.absolute().parents:
        is_special = True
    else:
        is_special = file.exists() and not (file.is_file() or file.is_dir())
    if is_special:
        with file.open("wb") as stream:
            return sum(map(stream.write, parts))
    return replace_whole(file, parts, durable=durable)


def replace_whole(file: Path, parts: Iterable[bytes], *, durable: bool = True) -> int:
    """Replace the file with all parts, mode 0600, or leave it unchanged. Return its size in bytes.

    Replaces links. Unless `durable`, a power failure may lose or truncate the file. Raises OSError.
    """
    for part in file.parent.glob(part_names(file.name)):
        with suppress(OSError):
            if time() - part.stat().st_mtime > _ABANDONED_SECONDS:
                with open(os.open(part, os.O_RDWR | OPEN_SAFELY), "rb") as opened:
                    if try_lock(opened.fileno()) == "locked":
                        part.unlink()
    beginning = f".{file.name[:64]}."
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=beginning, suffix=_PART)
    fresh = Path(name)
    try:
        with open(descriptor, "wb") as writer:
            try_lock(descriptor)  # until it is closed
            size = sum(map(writer.write, parts))
            writer.flush()
            if durable:
                os.fsync(descriptor)
        replace_file(fresh, file, durable=durable)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return size


def replace_file(fresh: Path, file: Path, *, durable: bool) -> None:
    """Give a written and closed file, synced if `durable`, the name of another one."""
    fresh.replace(file)
    if durable and sys.platform != "win32":  # Windows cannot sync a directory, and needs no sync
        descriptor = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def part_names(name: str) -> str:
    """Return the pattern of the names that `write_whole` gives a file."""
    return f".{escape(name[:64])}.????????{_PART}"


LockState = Literal["locked", "busy", "unsupported"]


def try_lock(descriptor: int) -> LockState:
    """Lock an open file for this process until it is closed.

    Returns "busy" if another process has locked it, and "unsupported" on a file system without
    locks.
    """
    from filelock import lock_descriptor

    try:
        is_locked = lock_descriptor(descriptor, blocking=False)
    except OSError:
        return "unsupported"
    return "locked" if is_locked else "busy"


_LOCK = "localjudge.lock"
"""Locked while the process of a folder lives."""


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder that only this user can enter, and remove it after the block.

    Folders with this prefix that ended processes left are removed, too.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        # Until it is locked, another process may take it for a left one, lock and remove it.
        if try_lock(lock) != "busy" and (folder / _LOCK).exists():
            break
        os.close(lock)
    user = folder.stat().st_uid
    for other in folder.parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if other.lstat().st_uid == user:
                _remove_left(other)
    try:
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    """Remove a folder of `private_folder` if its process has ended. Raises OSError for others."""
    lock = os.open(folder / _LOCK, os.O_WRONLY | OPEN_SAFELY)
    try:
        is_left = try_lock(lock) == "locked"
        if is_left:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def write_output(file: Path, parts: Iterable[bytes]) -> int:
    try:
        return write_whole(file, parts)
    except OSError as error:
        raise unwritable(file, error, hint="name another file") from error


def obstacle(directory: Path) -> str | None:
    """Return what has the name of the directory, or of one above it, and is no directory."""
    for path in (directory, *directory.parents):
        if os.path.isdir(path):
            return None
        if os.path.exists(path):
            return f"{path} is a file, not a directory"
        if os.path.lexists(path):
            return f"{path} is a link to a missing file"
    return None


def unwritable(file: Path, error: OSError, *, hint: str) -> LocaljudgeError:
    problem = f"{file} cannot be written: {error.strerror or error}"
    in_the_way = obstacle(file.parent)
    if in_the_way is not None:
        problem = f"{file} cannot be written: {in_the_way}"
    if error.errno in RETRY_HINTS:
        return OutOfResource(
            problem,
            hint=f"{RETRY_HINTS[error.errno]}, then run the same command again",
        )
    return InputError(problem, hint=hint)


_PACKAGE = Path(__file__).resolve().parent


def bundled_file(folder: str, name: str) -> Path:
    """Return the path of a file in `grammars` or `models`. Raises InputError if it is missing."""
    for base in (_PACKAGE, _PACKAGE.parent):
        path = base / folder / name
        if path.is_file():
            return path
    looked = f"looked in {_PACKAGE} and {_PACKAGE.parent}"
    message = f"the file {folder}/{name} of localjudge is missing ({looked})"
    raise InputError(message, hint="install localjudge again")


def demo_file() -> Path:
    return _PACKAGE / "dataset" / "demo.jsonl"


def criterion_files() -> dict[str, Path]:
    return {path.stem: path for path in sorted((_PACKAGE / "criteria").glob("*.toml"))}


def state_directory() -> Path:
    """Return the folder that commands share, which may not exist.

    It has the user's models, checksums and self-checks.
    """
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.environ.get("LOCALJUDGE_HOME") or f"{data_home}/localjudge").expanduser()


def make_private(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be created: {error.strerror}",
            hint="set LOCALJUDGE_HOME",
        ) from error


def remember(file: Path, text: str) -> None:
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, [text.encode()], durable=False)
