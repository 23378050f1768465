import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run


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


def judged_by(run: Run, *, name: str | None = None, **judge: Any) -> Run:
    """Return a copy of the run with these values of the judge in its manifest."""
    copy = run.directory.with_name(f"{run.directory.name}-")
    shutil.copytree(run.directory, copy)
    file = copy / "manifest.json"
    manifest = json.loads(file.read_bytes())
    manifest["judge"] |= judge
    manifest["environment"]["judge"] = name
    file.write_text(json.dumps(manifest), encoding="utf-8")
    return Run.open(copy, check=False)


def signature(manifest: dict[str, Any]) -> str:
    """Return the first digits of sha256 over the two signed parts, as sorted JSON."""
    digits = []
    for name in ("judge", "data"):
        text = json.dumps(manifest[name], sort_keys=True, separators=(",", ":"))
        digits.append(f"{name}:{hashlib.sha256(text.encode()).hexdigest()[:8]}")
    return "|".join(digits)
