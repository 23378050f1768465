"""Watches what this process tries to reach over a network.

    socket.socket(AF_INET, ...)  ──audit event──>  noted        socket.socket(AF_UNIX, ...)  ──>  passed over
    connect, sendto              ──audit event──>  noted, with where to: a judge's server may be connected to

Python raises an audit event for every socket that is made and every name that is looked up, whichever library does it.
Compiled code raises none: of it, Linux tells at the end which sockets are open that were not before. Not seen are
sockets that compiled code has closed again, and other processes. `strace` sees those; `tests/test_offline.py` uses it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from localjudge.doctor.health_check import HealthCheck, ok, warning
from localjudge.engine.opening import host_of, is_connected_to
from localjudge.errors import UsageError

_LOCAL_FAMILY = 1  # AF_UNIX on every system: sockets between processes of this machine
_MAKES = "socket.__new__"
_SENDS_TO = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOKS_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_LOOK_UP = "a look-up of "
_INTERNET = frozenset(f"a socket of family {int(family)}" for family in (2, 10, 30))  # IPv4; IPv6 of Linux, of macOS
_PROCESS = Path("/proc/self")
_TABLES = ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "icmp", "icmp6")
_INODE_COLUMN = 9


@dataclass
class NetworkActivity:
    """What was seen: one line for each socket that Python code made beyond this machine, and each name looked up.

    `left_open` counts the internet sockets that are open at the end; None where the system does not tell.
    """

    made: list[str] = field(default_factory=list)
    left_open: int | None = None
    reached: list[tuple[str, int]] = field(default_factory=list)
    """Host and port of each connection that Python code began, and of what it sent without one."""


_watching: list[NetworkActivity] = []


@contextmanager
def network_watched() -> Iterator[NetworkActivity]:
    """What is seen from now on; complete once the block has ended."""
    _install()
    seen, before = NetworkActivity(), _open_sockets()
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)
        after = _open_sockets()
        seen.left_open = None if before is None or after is None else len(after - before)


def network_check(seen: NetworkActivity, server: str | None = None) -> HealthCheck:
    """What was seen, and how far that reaches. A judge that is a `server` is connected to: that, and nothing else."""
    figures = {"made_by_python": seen.made, "open_at_the_end": seen.left_open}
    if server is not None and _only_to(server, seen) and not seen.left_open:
        connected = "connected to the judge's server, as it was told" if seen.made else "used a socket of this machine"
        return ok("network", f"Python code of this process {connected}, and reached for nothing else", **figures)
    if seen.made or seen.left_open:
        reached = [f"a connection to {host} port {port}" for host, port in seen.reached]
        made = ", ".join(dict.fromkeys([*seen.made, *reached])) or "nothing"
        found = f"Python code of this process made {made}; {seen.left_open or 0} internet sockets are open now"
        return warning("network", found, "find out which installed package does this: localjudge does not", **figures)
    found = "Python code of this process made no internet socket and looked up no name"
    if seen.left_open is not None:
        found += "; none is open now, compiled code included"
    return ok("network", found, **figures)


def _only_to(server: str, seen: NetworkActivity) -> bool:
    """Whether each connection was to the server, and no name but its own was looked up.

    A socket that nothing was connected to reached for nothing. None is made for a server in the file system, or for an
    address that is none.
    """
    try:
        host = host_of(server)
    except UsageError:
        host = ""
    if not host:
        return not seen.made
    own = f"{_LOOK_UP}{host}"
    return all(line in _INTERNET or line == own for line in seen.made) and all(
        is_connected_to(server, host, port) for host, port in seen.reached
    )


@cache
def _install() -> None:
    """Once: an audit hook cannot be taken away."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _watching or not event.startswith("socket."):
        return
    if event == _MAKES and arguments[1] != _LOCAL_FAMILY:
        line = f"a socket of family {arguments[1]}"
    elif event in _SENDS_TO and isinstance(arguments[1], tuple) and len(arguments[1]) >= len(("host", "port")):
        target = (str(arguments[1][0]), int(arguments[1][1]))
        for seen in _watching:
            seen.reached.append(target)
        return
    elif event in _LOOKS_UP:
        line = f"{_LOOK_UP}{arguments[0]}"
    else:
        return
    for seen in _watching:
        seen.made.append(line)


def _open_sockets() -> set[str] | None:
    """Inodes of this process's open internet sockets; None where the system has no such tables."""
    try:
        descriptors = list((_PROCESS / "fd").iterdir())
        internet = {inode for table in _TABLES for inode in _inodes(_PROCESS / "net" / table)}
    except OSError:
        return None
    ours: set[str] = set()
    for descriptor in descriptors:
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            ours.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    return ours & internet


def _inodes(table: Path) -> Iterator[str]:
    if not table.exists():
        return
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        yield line.split()[_INODE_COLUMN]
