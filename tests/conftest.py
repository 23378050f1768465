"""What every test may rely on: no internet, and a state directory of its own."""

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import localjudge

ScriptedRun = Callable[..., localjudge.Run]


@pytest.fixture(autouse=True)
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that opens an internet connection fails."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            raise AssertionError(f"a test tried to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Checksums and self-checks of the tests stay out of the user's state directory."""
    folder = tmp_path_factory.mktemp("localjudge-home")
    before = os.environ.get("LOCALJUDGE_HOME")
    os.environ["LOCALJUDGE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["LOCALJUDGE_HOME"]
    else:
        os.environ["LOCALJUDGE_HOME"] = before


@pytest.fixture(scope="session")
def labelled_data() -> Path:
    """Folder of public labelled data, named by LOCALJUDGE_TEST_DATA."""
    named = os.environ.get("LOCALJUDGE_TEST_DATA")
    if not named:
        pytest.skip("needs labelled data: set LOCALJUDGE_TEST_DATA to its folder")
    return Path(named)


@pytest.fixture
def scripted_run(tmp_path: Path) -> ScriptedRun:
    """Makes a run: `scripted_run("name", rows, {unit text: probability or error}, **options)`, other units 1."""

    def run(
        name: str, rows: Sequence[Mapping[str, Any]], script: Mapping[str, float | str], **options: Any
    ) -> localjudge.Run:
        engine = localjudge.ScriptedEngine(script, default=1.0)
        return localjudge.evaluate(rows, out=tmp_path / name, engine=engine, **options)

    return run
