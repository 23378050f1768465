"""What the tests of servers share: they connect to this machine, mostly to a server that is made up."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from localjudge.engine.server.server_engine import ServerEngine
from tests.engine.server.fake_server import FakeServer, engine_on, serving


@pytest.fixture(autouse=True)
def no_internet() -> None:
    """These tests connect to this machine."""


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A server of llama-server's kind."""
    with serving(FakeServer()) as server:
        yield server


@pytest.fixture
def engine(fake: FakeServer) -> Iterator[ServerEngine]:
    """The engine on it."""
    with closing(engine_on(fake)) as opened:
        yield opened


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the server's address were not this machine's."""
    monkeypatch.setattr("localjudge.engine.server.connection.is_this_machine", lambda _: False)
