"""Where a server is: what a judge is named by that is no file.

http://127.0.0.1:8080     a port of this machine; a path behind it, such as /v1, is taken for the usual one
unix:/run/llama.sock      a socket in the file system
"""

import re
from collections.abc import Collection
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from localjudge.errors import InputError
from localjudge.words import option

_NAMED = re.compile(r"(?:https?://|unix:)", re.IGNORECASE)
_HTTP = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::(?P<port>\d{1,5}))?(?:/v1)?/?")
_THIS_MACHINE = "localhost"
_PORT = 80
_LAST_PORT = 65_535
_LONGEST_SOCKET_PATH = 107
"""Bytes, on Linux."""


class ServerAddress(NamedTuple):
    """A host and its port, or the path of a socket; what is not there is "" and 0."""

    host: str = ""
    port: int = 0
    socket_path: str = ""

    def __str__(self) -> str:
        """As a judge is named: `http://127.0.0.1:8080`."""
        if self.socket_path:
            return f"unix:{self.socket_path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def names_a_server(judge: str) -> bool:
    """Whether a judge is named by the address of a server, and not by a name or a path."""
    return bool(_NAMED.match(judge))


def read_address(judge: str) -> ServerAddress:
    """The address that a judge is named by. Raises InputError for one that cannot be used."""
    kind, _, rest = judge.partition(":")
    if kind.casefold() == "unix":
        if not rest.startswith("/") or "\0" in rest or len(rest.encode(errors="replace")) > _LONGEST_SOCKET_PATH:
            raise InputError(
                f"{judge!r:.200} does not name a socket",
                hint=f"give its whole path, of at most {_LONGEST_SOCKET_PATH} bytes: unix:/run/llama.sock",
            )
        return ServerAddress(socket_path=rest)
    if kind.casefold() == "https":
        raise InputError(
            f"{judge!r:.200}: localjudge does not speak https",
            hint="bring the server's port to this machine (ssh -L 8080:localhost:8080 HOST), and name "
            "http://127.0.0.1:8080",
        )
    match = _HTTP.fullmatch(rest.removeprefix("//"))
    port = int(match["port"] or _PORT) if match else 0
    if not match or not 0 < port <= _LAST_PORT:
        raise InputError(
            f"{judge!r:.200} is not the address of a server", hint="it has a host and a port: http://127.0.0.1:8080"
        )
    return ServerAddress(match["host"].strip("[]"), port)


def is_loopback(address: ServerAddress) -> bool:
    """Whether an address is this machine's by what is written, with nothing looked up: a socket's path, a number."""
    if address.socket_path or address.host.casefold() == _THIS_MACHINE:
        return True
    return "%" not in address.host and is_this_machine(address.host)


def is_this_machine(address: str) -> bool:
    """Whether a numeric address, as a connection has it, leads back to this machine."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def require_allowed(address: ServerAddress, numeric: str, allowed: Collection[str]) -> None:
    """Raise InputError unless a connection goes to this machine, or to a host that the user allows by its name.

    `numeric` is where it really goes: a name says nothing.
    """
    if is_this_machine(numeric) or address.host in allowed:
        return
    where = "" if numeric == address.host else f", which is {numeric}"
    raise InputError(
        f"{address.host}{where} is not this machine: the texts would leave it",
        hint=f"if that is meant, say so: {option('allow_host', address.host)} (of a run that is asked again: name its "
        f"judge, {option('judge', str(address))})",
    )
