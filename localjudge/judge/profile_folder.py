"""The files of a prompt profile, held as words, so that a run in which they are kept needs no folder beside itself."""

from pathlib import Path
from typing import Self

from localjudge.errors import UsageError
from localjudge.types import Record


class ProfileFolder(Record):
    """Where a profile stood, and every word of its files: what a run keeps, so that it can be verified without them."""

    path: str
    files: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The files of a folder. Raises UsageError for one that cannot be read."""
        files = {}
        for file in (*folder.glob("*.toml"), *folder.glob("special/*.toml")):
            try:
                files[str(file.relative_to(folder))] = file.read_bytes().decode()
            except OSError as error:
                raise UsageError(f"{file} cannot be read: {error.strerror}") from error
            except UnicodeDecodeError as error:
                raise UsageError(f"{file} is not TOML: {error}", hint="mend the file") from error
        return cls(path=str(folder), files=files)
