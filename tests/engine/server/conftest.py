from collections.abc import Iterator
from contextlib import closing

import pytest

from localjudge.engine.server.server_engine import ServerEngine
from tests.engine.server.fake_server import FakeServer, engine_on, serving


@pytest.fixture(autouse=True)
def no_internet() -> None:
    """Replace the global fixture, as these tests connect to this machine."""


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with serving(FakeServer()) as server:
        yield server


@pytest.fixture
def engine(fake: FakeServer) -> Iterator[ServerEngine]:
    with closing(engine_on(fake)) as opened:
        yield opened


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localjudge.engine.server.connection.is_this_machine", lambda _: False)
