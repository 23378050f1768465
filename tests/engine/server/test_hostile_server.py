import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.connection import Limits, Refused, ServerAddress, ServerConnection
from localjudge.engine.server.served_model import served_model
from localjudge.engine.server.server_engine import ServerEngine
from localjudge.errors import InputError, LocaljudgeError, ModelError, OutOfResource
from tests.engine.contract import example_requests
from tests.engine.server.fake_server import FakeServer, engine_on, serving

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings()
HASTY = Limits(connecting=1, describing=0.3, answering=0.6, most_bytes=4096)


@contextmanager
def saying(answer: Callable[[socket.socket], None]) -> Iterator[ServerAddress]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return
            with made:
                try:
                    made.recv(65536)
                    answer(made)
                except OSError:
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ServerAddress("127.0.0.1", listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def with_body(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


LOADING = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"", OutOfResource),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a"', OutOfResource),
        (LOADING, Refused),
        (with_body(b"<html>hello"), ModelError),
        (with_body(b"[" * 3000), ModelError),
        (with_body(b'"text"'), ModelError),
        (with_body(b'{"a": "' + b"x" * 5000 + b'"}'), ModelError),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ModelError),
        (b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(200)) + b"\r\n", ModelError),
        (b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n", Refused),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", Refused),
    ],
    ids=lambda value: str(value)[:24],
)
def test_malformed_answers_are_refused(said: bytes, kind: type[LocaljudgeError]) -> None:
    with (
        saying(lambda made: made.sendall(said)) as address,
        pytest.raises(kind, match="the server at"),
        closing(ServerConnection(address, (), HASTY)) as connection,
    ):
        connection.ask("/props")


def dripping(made: socket.socket) -> None:
    made.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
    for _ in range(200):
        made.sendall(b" ")
        time.sleep(0.01)


def endless(made: socket.socket) -> None:
    while True:
        made.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def stalling(made: socket.socket) -> None:
    made.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{")
    time.sleep(2)


SLOW = [dripping, endless, stalling, lambda made: time.sleep(2)]


@pytest.mark.parametrize("answer", SLOW, ids=["drips", "endless", "stalls in a chunk", "silent"])
def test_slow_answers_time_out(answer: Callable[[socket.socket], None]) -> None:
    """Even if bytes keep arriving: 0.3 s for server facts, 0.6 s for answers."""
    with saying(answer) as address, closing(ServerConnection(address, (), HASTY)) as connection:
        started = time.monotonic()
        with pytest.raises(OutOfResource, match="no answer within 0 s"):
            connection.ask("/props")
        with pytest.raises(OutOfResource, match="no answer within 1 s"):
            connection.ask("/completion", {})
        assert 0.9 <= time.monotonic() - started < 5


def test_a_missing_server_is_an_error_with_address_and_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ModelError, match=f"no server at http://127.0.0.1:{port}(?s:.*)llama-server -m MODEL.gguf"):
        served_model(f"http://127.0.0.1:{port}", SETTINGS)
    for allowed, kind in ((), InputError), (("nowhere.invalid",), ModelError):
        with pytest.raises(kind, match=r"nowhere\.invalid"):
            served_model("http://nowhere.invalid:8080", EngineSettings(allow_host=allowed))


def rows_of_one(rows: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda first: {"top_probs": rows} if "top_probs" in first else {"top_logprobs": []}


SPOILED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "positive": lambda first: {"logprob": 3.5},
    "text": lambda first: {"logprob": "-1"},
    "not a number": lambda first: {"logprob": float("nan")},
    "infinite": lambda first: {"logprob": -float("inf")},
    "huge": lambda first: {"logprob": -(10**400)},
    "more than 1": lambda first: {"top_logprobs": [row | {"logprob": -0.01} for row in first.get("top_logprobs", [])]},
    "no such token": lambda first: {"id": 10**9},
    "negative token": lambda first: {"id": -1},
    "probabilities are a number": lambda first: {"top_logprobs": 7},
    **{
        f"shares are {rows}": rows_of_one(rows)
        for rows in (7, [None], [{"id": 0}], [{"id": [], "prob": 0.5}], "ab", [])
    },
}


OTHER_REPLIES = ({"completion_probabilities": None}, {"truncated": True}, {"tokens_evaluated": 3})


@pytest.mark.parametrize("how", [*SPOILED.values(), *OTHER_REPLIES], ids=[*SPOILED, *map(str, OTHER_REPLIES)])
def test_impossible_numbers_and_unrelated_answers_are_not_verdicts(
    fake: FakeServer, engine: ServerEngine, how: Any
) -> None:
    def spoil(status: int, reply: dict[str, Any]) -> tuple[int, Any]:
        if isinstance(how, dict):
            return status, reply | how
        first = reply["completion_probabilities"][0]
        return status, reply | {"completion_probabilities": [first | how(first)]}

    requests = example_requests(engine)[:1]
    fake.spoil["/completion"] = spoil
    with pytest.raises(ModelError, match="the server"):
        list(engine.answers(requests))


def test_an_invalid_reason_is_cut_and_closed(fake: FakeServer, engine: ServerEngine) -> None:
    fake.spoil["/completion"] = lambda status, reply: (
        status,
        {**reply, "tokens": list(b"Sure\n{}")} if reply["tokens"] else reply,
    )
    requests = [request for request in example_requests(engine) if request.grammar.reason_tokens]
    [(_, answer)] = engine.answers(requests[:1])
    assert getattr(answer, "reason", None) == "Sure"


def test_a_replaced_server_is_refused_during_a_run() -> None:
    """Also on the second attempt with the same open engine."""
    fake = FakeServer()
    with serving(fake):
        engine = engine_on(fake)
        requests = example_requests(engine)
        begun = engine.answers(requests)
        next(begun)
    fake.named = "another.gguf"
    with closing(engine), serving(fake, fake.port):
        for answers in (begun, engine.answers(requests), engine.answers(requests)):
            with pytest.raises(OutOfResource, match="changed its model"):
                list(answers)


def test_other_kinds_of_servers_are_refused_with_a_hint(fake: FakeServer) -> None:
    """Ollama, LM Studio and llama_cpp.server do not know the path /props."""
    fake.spoil["/props"] = lambda *_: (404, {"error": "not found"})
    with pytest.raises(ModelError, match=r"is not a llama-server\n  hint: "):
        served_model(fake.url, SETTINGS)


@pytest.mark.parametrize("name", ["localhost", "judge.example.org", "127.0.0.1.example.org"])
def test_a_remote_host_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also if one of several addresses is local."""
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, 80)) for number in ("127.0.0.1", "192.0.2.7")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)

    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection was tried"))
    with pytest.raises(InputError, match=rf"192\.0\.2\.7(?s:.*)allow_host='{re.escape(name)}'"):
        served_model(f"http://{name}:8080", SETTINGS)


@pytest.mark.usefixtures("elsewhere")
def test_an_allowed_host_is_used_and_named(fake: FakeServer) -> None:
    """Its host is in the identity, and no local file is taken for its model."""
    settings = EngineSettings(allow_host=("127.0.0.1",))
    with closing(engine_on(fake, settings)) as engine:
        assert engine.identity["host"] == "127.0.0.1"
        assert "model_sha256" not in engine.identity


def test_proxies_of_the_environment_are_not_used(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://192.0.2.1:3128")
    assert served_model(fake.url, SETTINGS).name == "made-up"


def test_control_characters_of_a_server_are_escaped(fake: FakeServer) -> None:
    fake.spoil["/v1/models"] = lambda status, reply: (400, b"\x1b[2J\x07 no")
    with pytest.raises(LocaljudgeError, match=r"^[^\x1b]*\\x1b\[2J[^\x1b]*$"):
        served_model(fake.url, SETTINGS)


@pytest.mark.parametrize("named", ["/" + "x" * 5000, "/a\0b"])
def test_an_impossible_model_path_identifies_no_file(fake: FakeServer, named: str) -> None:
    fake.named = named
    assert served_model(fake.url, SETTINGS).proved is None


@pytest.mark.parametrize("rows", [[{"id": 1, "path": "/x/loud.gguf", "scale": 0.5}], {}, [7], [{}], [{"scale": None}]])
def test_a_model_with_an_adapter_is_refused(fake: FakeServer, rows: Any) -> None:
    """Path and sizes belong to the base model. A loaded adapter that is not applied is fine."""
    quiet = [{"id": 0, "path": "/x/quiet.gguf", "scale": 0.0}]
    fake.spoil["/lora-adapters"] = lambda *_: (200, quiet)
    assert served_model(fake.url, SETTINGS).name == "made-up"
    fake.spoil["/lora-adapters"] = lambda *_: (200, [*quiet, *rows] if isinstance(rows, list) else rows)
    with pytest.raises(ModelError):
        served_model(fake.url, SETTINGS)
