"""Run directories that a test may spoil."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def directory(sound: Path, tmp_path: Path) -> Path:
    """A copy of the run that the module names `sound`."""
    return shutil.copytree(sound, tmp_path / "run")


def in_store(directory: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """Carry out statements in `run.sqlite`, as somebody else could."""
    with closing(sqlite3.connect(directory / "run.sqlite")) as store, store:
        for statement in statements:
            store.execute(statement, values)
