"""Model files inside installed Python packages, found by what the packages recorded when they were installed.

Nothing of a package is imported: its code does not run.
"""

import csv
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from localjudge.local_models.found_model import Found, SkippedFile, models_in

_MODEL_ROW = re.compile(r"^.*\.gguf\b.*$", re.MULTILINE)


def file_in_package(package: str, file: str) -> Path | None:
    """Where a file of an installed package is, by the name that the package's record has; None if it is not there."""
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except (PackageNotFoundError, ValueError):
        return None
    return path if path.is_file() else None


def installed_version(package: str) -> str | None:
    """Version of an installed package; None if it is not installed."""
    try:
        return distribution(package).version
    except (PackageNotFoundError, ValueError):
        return None


def installed_packages(program: str, folder: Path) -> Iterator[Found]:
    """The models that packages installed in a folder recorded, each package a repository of its own."""
    for package in distributions(path=[str(folder)]):
        if recorded := _recorded(package):
            files = {file: Path(str(package.locate_file(file))) for file in recorded}
            there = {file: path for file, path in files.items() if path.is_file()}
            yield from models_in(program, package.name, there)
            yield from (SkippedFile(str(files[file]), "is not there any more") for file in files if file not in there)


def _recorded(package: Distribution) -> list[str]:
    """Rows of the record that name a model; the rest of it, thousands of rows, is not taken apart."""
    try:
        record = package.read_text("RECORD") or ""
    except (OSError, UnicodeDecodeError):
        return []
    rows = csv.reader(_MODEL_ROW.findall(record))
    return sorted({row[0] for row in rows if row and row[0].endswith(".gguf")})
