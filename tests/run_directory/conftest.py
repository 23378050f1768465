import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


class Stopped(Exception):
    """The engine was stopped on purpose."""


@pytest.fixture
def directory(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "run")


def in_store(directory: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    with closing(sqlite3.connect(directory / "run.sqlite")) as store, store:
        for statement in statements:
            store.execute(statement, values)


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:

    def edit(directory: Path) -> None:
        text = (directory / name).read_text(encoding="utf-8")
        assert old in text
        (directory / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit
