"""Two runs on the same questions, with the answers of two columns, in one directory.

    cmp/comparison.json     {"schema_version": 1, "baseline": "answer_a", "run": "answer_b"}
    cmp/answer_a/           the baseline, a run
    cmp/answer_b/           the new run

The names are folders beside the file. It is read as untrusted input: a name that leads out of the
directory, and a folder that is a link, are refused.
"""

import json
import os
import re
import unicodedata
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from localjudge.errors import MissingRun, RunDirectoryError
from localjudge.run_directory.directory import (
    MANIFEST,
    make_directory,
    read_object,
    refuse_obstacle,
    validated,
    write_file,
)
from localjudge.types import Record
from localjudge.words import option

COMPARISON = "comparison.json"
_MAX_LETTERS = 60
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_Folder = Annotated[str, Field(pattern=r"^\w[\w.-]*$", max_length=2 * _MAX_LETTERS)]


class ComparisonDirectory(Record):
    """The directory of two runs. `baseline` and `run` are the names of their folders.

    All but the `path` is in the file.
    """

    path: Path = Field(exclude=True)
    schema_version: Literal[1] = 1
    baseline: _Folder
    run: _Folder

    @classmethod
    def create(cls, path: Path, baseline_column: str, column: str) -> Self:
        """Make the directory for two columns, or open it again.

        Raises RunDirectoryError for a directory with another comparison or other content.
        """
        cls.refuse_unusable(path, baseline_column, column)
        baseline, run = folder_names(baseline_column, column)
        directory = cls(path=path, baseline=baseline, run=run)
        if not os.path.lexists(path / COMPARISON):
            make_directory(path)
            text = json.dumps(directory.model_dump(), indent=2, ensure_ascii=False)
            write_file(path / COMPARISON, f"{text}\n")
        return directory

    @classmethod
    def refuse_unusable(cls, path: Path, baseline_column: str, column: str) -> None:
        """Raise RunDirectoryError unless `create` could use the directory. Creates no file."""
        hint = f"name another directory with {option('out')}"
        existing = cls.find(path)
        expected = folder_names(baseline_column, column)
        if existing is not None and (existing.baseline, existing.run) != expected:
            problem = f"{path} compares {existing.run} with {existing.baseline}"
            raise RunDirectoryError(problem, hint=hint)
        refuse_obstacle(path)
        if existing is not None or not os.path.lexists(path):
            return
        if not path.is_dir():
            raise RunDirectoryError(f"{path} is not a directory", hint=hint)
        if os.path.lexists(path / MANIFEST):
            raise RunDirectoryError(f"{path} contains a run, not a comparison", hint=hint)
        if any(path.iterdir()):
            raise RunDirectoryError(f"{path} is not empty and contains no comparison", hint=hint)

    @classmethod
    def find(cls, path: str | Path) -> Self | None:
        """Return the comparison in a directory, or None if it has no such file.

        Raises RunDirectoryError for a file that is damaged or leads elsewhere.
        """
        path = Path(os.path.expanduser(path))
        file = path / COMPARISON
        if not os.path.lexists(file):
            return None
        directory = validated(cls, {**read_object(file), "path": path}, str(file))
        if _fold(directory.baseline) == _fold(directory.run):
            problem = f"{file} names one folder twice: {directory.run}"
            raise RunDirectoryError(problem, hint="was it changed by hand?")
        for folder in (directory.baseline_path, directory.run_path):
            if folder.is_symlink():
                hint = "a comparison has its runs inside: copy the run there"
                raise RunDirectoryError(f"{folder} is a link", hint=hint)
        return directory

    @classmethod
    def of_runs(cls, baseline: Path, run: Path) -> Self | None:
        """Return the comparison that has these directories as its runs, or None."""
        if baseline.parent.resolve() != run.parent.resolve():
            return None
        directory = cls.find(run.parent)
        if directory is None or (directory.baseline, directory.run) != (baseline.name, run.name):
            return None
        return directory

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Return the comparison in a directory. Raises MissingRun if there is none."""
        directory = cls.find(path)
        if directory is None:
            hint = "make one: localjudge run DATA --map response=B --against A"
            raise MissingRun(f"{path} contains no comparison of two columns", hint=hint)
        return directory

    @property
    def baseline_path(self) -> Path:
        return self.path / self.baseline

    @property
    def run_path(self) -> Path:
        return self.path / self.run


def folder_names(baseline_column: str, column: str) -> tuple[str, str]:
    """Return the names of the folders for two columns, safe and different on any file system."""
    baseline = _safe_name(baseline_column, "a")
    run = _safe_name(column, "b")
    if _fold(baseline) == _fold(run):
        return f"{baseline}-a", f"{run}-b"
    return baseline, run


def _safe_name(column: str, default: str) -> str:
    name = _NOT_IN_NAMES.sub("-", unicodedata.normalize("NFC", column)).strip("-.")
    return name[:_MAX_LETTERS].strip("-.") or default


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
