"""Finds the files that come with localjudge, in a checkout and in an installed wheel, and the user's state directory.

checkout   grammars/ and models/ stand beside the package
wheel      the same folders stand inside it (pyproject.toml lists their files one by one)
"""

import os
import stat
from pathlib import Path

from localjudge.errors import UsageError
from localjudge.whole_file import write_whole

_PACKAGE = Path(__file__).resolve().parent
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def grammar_file(name: str) -> Path:
    """Path of the bundled grammar `name`. Raises UsageError if there is none."""
    return _bundled("grammars", f"{name}.json")


def model_registry_file() -> Path:
    """Path of the bundled model registry."""
    return _bundled("models", "registry.toml")


def model_file(name: str) -> Path:
    """Path of the bundled model file `name`. Raises UsageError if there is none."""
    return _bundled("models", name)


def demo_file() -> Path:
    """Path of the bundled example data."""
    return _PACKAGE / "dataset" / "demo.jsonl"


def criterion_files() -> dict[str, Path]:
    """The bundled criteria by their names."""
    return {path.stem: path for path in sorted((_PACKAGE / "criteria").glob("*.toml"))}


def state_directory() -> Path:
    """Folder for what outlives a command (own models, checksums, self-checks, answers). Not created here.

    `LOCALJUDGE_HOME`, or `localjudge` in the XDG data directory.
    """
    named = os.environ.get("LOCALJUDGE_HOME")
    if named:
        return Path(named).expanduser()
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "localjudge"


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user, and nobody else may look or write into it. Raises OSError if it is none."""
    facts = folder.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & _OTHERS


def make_private(folder: Path) -> None:
    """Make a folder of the state directory that its owner alone can open. Raises UsageError if it cannot be made."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", hint="LOCALJUDGE_HOME names another") from error


def require_private(folder: Path, others_could: str) -> None:
    """Raise UsageError for a folder that others can open, and OSError for one that is not there."""
    if not is_private(folder):
        raise UsageError(
            f"{folder} is not a folder of yours alone: others could {others_could}",
            hint=f"chmod 700 {folder}, if what is in it is yours, or delete it",
        )


def remember(file: Path, text: str) -> None:
    """Write a file of the state directory, whole or not at all. Where it cannot be written, nothing is remembered."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, [text.encode()], durable=False)
    except OSError:
        return


def _bundled(folder: str, name: str) -> Path:
    for base in (_PACKAGE, _PACKAGE.parent):
        path = base / folder / name
        if path.is_file():
            return path
    raise UsageError(
        f"the file {folder}/{name} that belongs to localjudge is missing (looked in {_PACKAGE} and {_PACKAGE.parent})",
        hint="install localjudge again",
    )
