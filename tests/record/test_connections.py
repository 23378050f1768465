"""Every SQLite connection is closed; Python 3.13 warns about open ones."""

import gc
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.record.cache import cache_file

ROWS = [{"id": f"{number}", "retrieved_contexts": ["Rain."], "reference": "It rains."} for number in range(3)]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[sqlite3.Connection]:
    opened: list[sqlite3.Connection] = []
    connect: Any = sqlite3.connect

    def recorded(*place: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*place, **options))
        return opened[-1]

    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sqlite3, "connect", recorded)
    return opened


def are_closed(connections: list[sqlite3.Connection]) -> bool:
    gc.collect()
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    return bool(connections)


def test_runs_leave_no_connection_open(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    """Part of the data (a second table), a cache, and a second run with the answers of the first."""
    engine = localjudge.ScriptedEngine({}, default=0.9)
    options: dict[str, Any] = {"metrics": ["context_recall"], "sample": 2, "engine": engine}
    run = localjudge.evaluate(ROWS, out=tmp_path / "a", cache=True, **options)
    localjudge.evaluate(ROWS, out=tmp_path / "b", reuse=tmp_path / "a", **options)
    run.verify(engine=engine)
    assert len(run.samples) == 2
    assert are_closed(connections)


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_cache_leaves_no_connection_open(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    cache_file().parent.mkdir(parents=True, mode=0o700)
    cache_file().write_bytes(b"no database" * 1_000)
    localjudge.evaluate(ROWS, engine=localjudge.ScriptedEngine({}, default=0.9), out=tmp_path / "a", cache=True)
    assert are_closed(connections)
