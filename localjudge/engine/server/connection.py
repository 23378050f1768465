"""Connect to the server named by the judge. No other module opens a connection.

    http://127.0.0.1:8080/v1                              host, port, optional path
    host ──look up──> addresses, each local or allowed?   no: refused before a packet is sent

Ignores proxy variables and redirects. A reply must be JSON and is limited in size and time.
"""

import http.client
import json
import re
import socket
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Any, NamedTuple

from localjudge.errors import InputError, ModelError, OutOfResource
from localjudge.words import option, printable

_HTTP = re.compile(r"http://(?P<host>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::(?P<port>\d{1,5}))?(?:/v1)?/?", re.IGNORECASE)
_LAST_PORT = 65_535
_SHOWN = 300


class ServerAddress(NamedTuple):
    """A host and its port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def read_address(judge: str) -> ServerAddress:
    """Parse an address. Raises InputError if it is invalid."""
    match = _HTTP.fullmatch(judge)
    port = int(match["port"] or 80) if match else 0
    if not match or not 0 < port <= _LAST_PORT:
        raise InputError(
            f"{judge!r:.200} is not the address of a server",
            hint="use a host and a port, as in http://127.0.0.1:8080; for https, forward the server's port to this "
            "machine (ssh -L 8080:localhost:8080 HOST)",
        )
    return ServerAddress(match["host"].strip("[]"), port)


def is_loopback(address: ServerAddress) -> bool:
    """Return whether an address is local as written, without a name lookup."""
    return address.host.casefold() == "localhost" or ("%" not in address.host and is_this_machine(address.host))


def is_this_machine(numeric: str) -> bool:
    try:
        address = ip_address(numeric.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


class Limits(NamedTuple):
    """Time limits in seconds and the size limit in bytes."""

    connecting: float = 10
    describing: float = 120
    """For a description, which may wait for another client's prompt."""
    answering: float = 900
    """For an answer: a prompt of thousands of tokens takes minutes on a few cores."""
    most_bytes: int = 1 << 27
    """For a reply: the list of a vocabulary of 152,000 tokens has 14 MB."""


class Refused(ModelError):
    """Error reported by a server: HTTP `status`, reply, and whether the request is at fault."""

    def __init__(self, address: ServerAddress, status: int, said: str) -> None:
        super().__init__(
            f"the server at {address} refused a request (HTTP {status}): {said}",
            hint="wait until it has loaded its model; use a recent version, started without --api-key",
        )
        self.status = status
        self.said = said
        self.is_permanent = status < http.client.INTERNAL_SERVER_ERROR


class _TimedSocket(socket.socket):
    """Socket with one deadline for a whole reply."""

    until = 0.0

    def recv_into(self, *arguments: Any, **more: Any) -> int:
        left = self.until - monotonic()
        if left <= 0:
            raise TimeoutError("the time for an answer is over")
        self.settimeout(left)
        return super().recv_into(*arguments, **more)


class ServerConnection:
    """Connection to this machine or an `allowed` host, opened on demand and reopened if closed."""

    def __init__(self, address: ServerAddress, allowed: Collection[str] = (), limits: Limits | None = None) -> None:
        self.address = address
        self._allowed = allowed
        self._limits = limits or Limits()
        self._http: http.client.HTTPConnection | None = None
        self.made = 0
        """Number of connections so far. Each may lead to another server."""
        self._peer = ""

    @property
    def is_local(self) -> bool:
        """Known after the first request."""
        return is_this_machine(self._peer)

    def ask(self, path: str, body: Mapping[str, Any] | None = None, *, kind: type[Any] = dict) -> Any:
        """Send a GET, or a POST with a body, and return the JSON reply of type `kind`.

        Raises OutOfResource if the server is unreachable or too slow, Refused for its errors, ModelError for other
        replies, InputError for a host that is not allowed.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        status, reply = self._exchange(path, data)
        if status != http.client.OK:
            raise Refused(self.address, status, _shown(reply))
        try:
            value = json.loads(reply)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise self._not_a_model_server(reply)
        return value

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
        self._http = None

    def _exchange(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        reused = self._http is not None and self._http.sock is not None
        connection = self._connection()
        seconds = self._limits.describing if body is None else self._limits.answering
        self._socket.until = monotonic() + seconds
        self._socket.settimeout(seconds)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request("GET" if body is None else "POST", path, body, headers)
            response = connection.getresponse()
            data = _content(response, self._limits.most_bytes + 1)
        except TimeoutError as error:
            self.close()
            raise self._unreachable(f"gave no answer within {seconds:.0f} s") from error
        except (OSError, http.client.IncompleteRead) as error:
            self.close()
            if reused:
                return self._exchange(path, body)
            raise self._unreachable("closed the connection before its answer was complete") from error
        except (http.client.HTTPException, ValueError) as error:
            self.close()
            raise self._not_a_model_server(str(error).encode()) from error
        if len(data) > self._limits.most_bytes:
            self.close()
            raise ModelError(f"the server at {self.address} sent more than {self._limits.most_bytes:,} bytes at once")
        return response.status, data

    def _connection(self) -> http.client.HTTPConnection:
        if self._http is None or self._http.sock is None:
            self._http = http.client.HTTPConnection(*self.address)
            self._http.sock = self._socket = self._connect()
            self._http.auto_open = 0
            self.made += 1
        return self._http

    def _connect(self) -> _TimedSocket:
        """Connect to the first address that responds, after checking all addresses of the host."""
        try:
            addresses = socket.getaddrinfo(*self.address, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: more than 63 characters between two dots
            self._require_allowed(self.address.host)  # a name that is not found is not this machine
            raise self._unreachable(f"cannot be reached: {error}") from error
        for *_, target in addresses:
            self._require_allowed(str(target[0]))
        failure = OSError("no address")
        for family, kind, protocol, _, target in addresses:
            made = _TimedSocket(family, kind, protocol)
            try:
                made.settimeout(self._limits.connecting)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.connect(target)
            except OSError as error:
                made.close()
                failure = error
            else:
                self._peer = str(target[0])
                return made
        raise self._unreachable(f"cannot be reached: {failure.strerror or failure}") from failure

    def _require_allowed(self, numeric: str) -> None:
        host = self.address.host
        if not is_this_machine(numeric) and host not in self._allowed:
            raise InputError(
                f"{host}{'' if numeric == host else f', which is {numeric},'} is not this machine: the texts would "
                "leave it",
                hint=f"if you want that, use {option('allow_host', host)} (to repeat a run, with "
                f"{option('judge', str(self.address))})",
            )

    def _unreachable(self, what: str) -> OutOfResource:
        return OutOfResource(
            f"the server at {self.address} {what}",
            hint="start it again with the same model, and run the same command to resume",
        )

    def _not_a_model_server(self, reply: bytes) -> ModelError:
        return ModelError(
            f"the server at {self.address} is not a model server: {_shown(reply)}",
            hint="use the address of a llama-server",
        )


def _content(response: http.client.HTTPResponse, most: int) -> bytes:
    """Read at most `most` bytes. Raises IncompleteRead if the content ends too early."""
    data = response.read(most)
    if response.length and len(data) < most:
        raise http.client.IncompleteRead(data, response.length)
    return data


def _shown(data: bytes) -> str:
    return printable(data[:_SHOWN].decode(errors="replace")) or "nothing"
