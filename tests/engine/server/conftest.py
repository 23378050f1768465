"""What the tests of servers share: they connect to this machine, mostly to a server that is made up."""

from collections.abc import Iterator

import pytest

from tests.engine.server.fake_server import FakeServer, serving


@pytest.fixture(autouse=True)
def no_internet() -> None:
    """These tests connect to this machine."""


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A server of llama-server's kind."""
    with serving(FakeServer()) as server:
        yield server
