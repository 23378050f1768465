"""Which files a model consists of: one, or several that are called `NAME-00001-of-00003.gguf` and so on."""

import re
from pathlib import Path

from localjudge.errors import ModelError

PART_ENDING = r"-(\d{5})-of-(\d{5})"
_PART = re.compile(rf"(.+){PART_ENDING}\.gguf")


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


def size_of(path: Path) -> int:
    """Bytes of a model, all its parts together."""
    return sum(file.stat().st_size for file in parts(path))


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
