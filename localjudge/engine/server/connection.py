"""The one place that opens a connection: to the server that a judge is named by, and to nothing else.

    name ──look up──> addresses, each this machine's or allowed?   no: refused before a packet is sent
    connected to      this machine's or allowed?                   no: closed before a byte of the user's is sent

Proxies of the environment are not read, and a redirect is an error: the texts go where the user said. What comes back
is a stranger's: it has a size and a time, and it is JSON or it is refused.
"""

import http.client
import json
import logging
import socket
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from time import monotonic, sleep
from typing import Any, NamedTuple, NoReturn

from localjudge.engine.server.address import ServerAddress, is_this_machine, require_allowed
from localjudge.errors import ModelError, OutOfResource
from localjudge.words import printable

_log = logging.getLogger(__name__)
_OK, _LOADING, _UNAUTHORISED, _FORBIDDEN, _FAULT_OF_THE_SERVER = 200, 503, 401, 403, 500
_REDIRECTS = range(300, 400)
_SHOWN = 300
_BETWEEN_TRIES = 1.0


class Patience(NamedTuple):
    """Seconds to wait, and bytes to take."""

    connecting: float = 10
    describing: float = 120
    """What a server says of itself may wait behind a prompt of somebody else's."""
    answering: float = 900
    """A prompt of thousands of tokens takes minutes on a few cores."""
    loading: float = 600
    most_bytes: int = 1 << 27
    """A list of a whole vocabulary has 14 MB for 152,000 tokens."""


class Refused(ModelError):
    """A server that is there does not do what it was asked."""

    def __init__(self, address: ServerAddress, status: int, said: str) -> None:
        super().__init__(
            f"the server at {address} refuses what it is asked (HTTP {status}): {said}",
            hint="is it of a version that is too old?",
        )
        self.status = status
        self.said = said

    @property
    def is_for_good(self) -> bool:
        """Whether the request is at fault: asked again, it would be refused again."""
        return self.status < _FAULT_OF_THE_SERVER


class _TimedSocket(socket.socket):
    """A socket that gives up at one moment, however often a little comes until then."""

    until = 0.0

    def recv_into(self, *arguments: Any, **more: Any) -> int:
        left = self.until - monotonic()
        if left <= 0:
            raise TimeoutError("the time for an answer is over")
        self.settimeout(left)
        return super().recv_into(*arguments, **more)


class ServerConnection:
    """A connection that is made when it is needed, and again when the server closed it.

    `allowed` names hosts beside this machine. Raises OutOfResource where a server cannot be reached or is too slow,
    ModelError for what is no answer of a model's server, Refused for an error that it reports, InputError for a host
    that is not allowed.
    """

    def __init__(self, address: ServerAddress, allowed: Collection[str] = (), patience: Patience | None = None) -> None:
        self.address = address
        self._allowed = allowed
        self._patience = patience or Patience()
        self._http: http.client.HTTPConnection | None = None
        self.made = 0
        """How many connections there have been: behind each another server may be."""
        self.peer = ""
        """The numeric address at the other end; "" for a socket in the file system."""

    def get(self, path: str) -> dict[str, Any]:
        """What the server says there."""
        return self._object(self._json("GET", path, None))

    def get_rows(self, path: str) -> list[Any]:
        """What the server lists there."""
        rows = self._json("GET", path, None)
        if not isinstance(rows, list):
            raise ModelError(f"the server at {self.address} answered with what is no list: {rows!r:.80}")
        return rows

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question. A server that is still loading its model is waited for."""
        return self._object(self._json("POST", path, json.dumps(body, allow_nan=False).encode()))

    @property
    def is_local(self) -> bool:
        """Whether the other end is on this machine. Known once a question was asked."""
        return bool(self.address.socket_path) or is_this_machine(self.peer)

    def close(self) -> None:
        """Close the connection; the next question makes another."""
        if self._http is not None:
            self._http.close()
        self._http = None

    def _object(self, reply: Any) -> dict[str, Any]:
        if not isinstance(reply, dict):
            start = _shown(json.dumps(reply).encode())
            raise ModelError(f"the server at {self.address} answered with what is no object: {start}")
        return reply

    def _json(self, method: str, path: str, body: bytes | None) -> Any:
        until, announced = monotonic() + self._patience.loading, False
        while True:
            status, data = self._reply(method, path, body)
            if status != _LOADING or monotonic() > until:
                break
            if not announced:
                _log.warning(f"the server at {self.address} is still loading its model: waiting for it")
                announced = True
            sleep(min(_BETWEEN_TRIES, self._patience.loading / 10))
        if status != _OK:
            self._not_ok(status, data)
        try:
            return json.loads(data, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise ModelError(
                f"the server at {self.address} answered with what is not JSON: {_shown(data)}",
                hint="is it a model's server?",
            ) from error

    def _not_ok(self, status: int, data: bytes) -> NoReturn:
        if status in _REDIRECTS:
            raise ModelError(
                f"the server at {self.address} sends us elsewhere (HTTP {status}), where localjudge does not go",
                hint="name the address of the model's server itself",
            )
        if status in (_UNAUTHORISED, _FORBIDDEN):
            raise ModelError(
                f"the server at {self.address} wants a key, which localjudge has none of",
                hint="start it without --api-key: on this machine's own address, nobody else can reach it",
            )
        if status == _LOADING:
            raise OutOfResource(
                f"the server at {self.address} has been loading for {self._patience.loading:.0f} s",
                hint="look at what it says; once it is ready, run the same command again",
            )
        raise Refused(self.address, status, _error_in(data))

    def _reply(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Status and content. A connection that was kept open may have been closed by now: once, another is made."""
        reused = self._http is not None
        try:
            return self._exchanged(method, path, body)
        except _Closed:
            self.close()
            if reused:
                return self._reply(method, path, body)
            raise self._gone("closed the connection without an answer") from None

    def _exchanged(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Status and content, whole within the time for it, however slowly they come."""
        opened = self._opened()
        seconds = self._patience.describing if body is None else self._patience.answering
        self._socket.until = monotonic() + seconds
        self._socket.settimeout(seconds)
        try:
            opened.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
            response = opened.getresponse()
            data = response.read(self._patience.most_bytes + 1)
        except TimeoutError as error:
            self.close()
            raise self._gone(f"gave no answer within {seconds:.0f} s") from error
        except (ConnectionError, http.client.IncompleteRead) as error:
            raise _Closed from error
        except (http.client.HTTPException, OSError, ValueError) as error:
            self.close()
            raise ModelError(
                f"the server at {self.address} does not speak HTTP: {_shown(str(error).encode())}",
                hint="is it a model's server?",
            ) from error
        if len(data) > self._patience.most_bytes:
            self.close()
            raise ModelError(f"the server at {self.address} sent more than {self._patience.most_bytes:,} bytes at once")
        return response.status, data

    def _opened(self) -> http.client.HTTPConnection:
        if self._http is None or self._http.sock is None:
            connection = http.client.HTTPConnection(self.address.host or "localhost", self.address.port or None)
            connection.sock = self._socket = self._connected()
            connection.auto_open = 0
            self._http = connection
            self.made += 1
        return self._http

    def _connected(self) -> _TimedSocket:
        try:
            return self._to_socket() if self.address.socket_path else self._to_port()
        except OSError as error:
            raise self._gone(f"cannot be reached: {error.strerror or error}") from error

    def _to_socket(self) -> _TimedSocket:
        if sys.platform == "win32":
            raise OSError("Python has no such sockets on Windows")
        made = _TimedSocket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self._patience.connecting)
            made.connect(self.address.socket_path)
        except OSError:
            made.close()
            raise
        return made

    def _to_port(self) -> _TimedSocket:
        try:
            addresses = socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
        except UnicodeError as error:  # a label of more than 63 characters
            raise OSError(f"{self.address.host[:80]!r} is no name of a host") from error
        for *_, target in addresses:
            require_allowed(self.address, str(target[0]), self._allowed)
        failure: OSError = OSError("no address")
        for family, kind, protocol, _, target in addresses:
            with ExitStack() as undo:
                made = undo.enter_context(closing(_TimedSocket(family, kind, protocol)))
                try:
                    made.settimeout(self._patience.connecting)
                    made.connect(target)
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.peer = str(made.getpeername()[0])
                except OSError as error:
                    failure = error
                    continue
                require_allowed(self.address, self.peer, self._allowed)
                undo.pop_all()
                return made
        raise failure

    def _gone(self, what: str) -> OutOfResource:
        return OutOfResource(
            f"the server at {self.address} {what}",
            hint="start it again with the same model, and run the same command: it goes on where it was",
        )


class _Closed(Exception):
    """The server closed the connection before it had answered."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _error_in(data: bytes) -> str:
    """What a server says is wrong, in its own words where they are found."""
    try:
        reply = json.loads(data)
        message = reply.get("error", reply.get("detail", reply.get("message")))
        message = message.get("message", message) if isinstance(message, dict) else message
    except (ValueError, RecursionError, AttributeError):
        return _shown(data)
    return printable(str(message))[:_SHOWN]


def _shown(data: bytes) -> str:
    return printable(data[:_SHOWN].decode(errors="replace")) or "nothing"
