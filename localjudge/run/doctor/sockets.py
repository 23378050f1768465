"""Watches what this process tries to reach over a network.

    socket.socket(AF_INET, ...)  ──audit event──>  noted        socket.socket(AF_UNIX, ...)  ──>  passed over

Python raises an audit event for every socket that is made and every name that is looked up, whichever library does it.
Not seen: what compiled code does by itself, and other processes. `strace` sees those; `tests/test_offline.py` uses it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_LOCAL_FAMILY = 1  # AF_UNIX on every system: sockets between processes of this machine
_MAKES = "socket.__new__"
_LOOKS_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_watching: list[list[str]] = []


@contextmanager
def network_watched() -> Iterator[list[str]]:
    """A list that grows by one line for every socket beyond this machine's own kind, and every name looked up."""
    _install()
    noted: list[str] = []
    _watching.append(noted)
    try:
        yield noted
    finally:
        _watching.remove(noted)


@cache
def _install() -> None:
    """Once: an audit hook cannot be taken away."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _watching or not event.startswith("socket."):
        return
    if event == _MAKES and arguments[1] != _LOCAL_FAMILY:
        line = f"a socket of family {arguments[1]}"
    elif event in _LOOKS_UP:
        line = f"a look-up of {arguments[0]}"
    else:
        return
    for noted in _watching:
        noted.append(line)
