"""What a server may answer, or not answer, and what is said then. Real sockets; nothing here is a model."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from localjudge.engine.contract import example_requests
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.address import ServerAddress
from localjudge.engine.server.connection import Patience, ServerConnection
from localjudge.engine.server.kinds import served_model
from localjudge.errors import InputError, LocaljudgeError, ModelError, OutOfResource
from tests.engine.server.fake_server import FakeServer, engine_on, serving

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings()
HASTY = Patience(connecting=1, describing=0.3, answering=0.6, loading=0.5, most_bytes=4096)


@contextmanager
def saying(answer: Callable[[socket.socket], None]) -> Iterator[ServerAddress]:
    """A server that does with each connection what the function does."""
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
    ("said", "kind", "expected"),
    [
        (b"", OutOfResource, "closed the connection"),
        (LOADING, OutOfResource, "has been loading"),
        (with_body(b"<html>hello"), ModelError, "not JSON"),
        (with_body(b'{"n_ctx": NaN}'), ModelError, "not JSON"),
        (with_body(b'{"n_ctx": -Infinity}'), ModelError, "not JSON"),
        (with_body(b"[" * 3000), ModelError, "not JSON"),
        (with_body(b'"text"'), ModelError, "what is no object"),
        (with_body(b'{"a": "' + b"x" * 5000 + b'"}'), ModelError, "more than 4,096 bytes"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ModelError, "does not speak HTTP"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(200)) + b"\r\n",
            ModelError,
            "does not speak HTTP",
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
            ModelError,
            "sends us elsewhere",
        ),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", ModelError, "wants a key"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_no_answer_is_refused(said: bytes, kind: type[LocaljudgeError], expected: str) -> None:
    with (
        saying(lambda made: made.sendall(said)) as address,
        pytest.raises(kind, match=expected),
        closing(ServerConnection(address, (), HASTY)) as connection,
    ):
        connection.get("/props")


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
def test_no_answer_takes_longer_than_it_may(answer: Callable[[socket.socket], None]) -> None:
    """However often a little comes: 0.3 s for what a server says of itself, 0.6 s for an answer of its model."""
    with saying(answer) as address, closing(ServerConnection(address, (), HASTY)) as connection:
        started = time.monotonic()
        with pytest.raises(OutOfResource, match="no answer within 0 s"):
            connection.get("/props")
        with pytest.raises(OutOfResource, match="no answer within 1 s"):
            connection.post("/completion", {})
        assert 0.9 <= time.monotonic() - started < 5


def test_a_server_that_is_loading_is_waited_for(fake: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    states = [(503, {"error": {"message": "Loading model"}})] * 2
    fake.spoil["/props"] = lambda status, reply: states.pop() if states else (status, reply)
    with caplog.at_level(logging.WARNING):
        assert served_model(fake.url, SETTINGS).name == "made-up"
    assert [record.getMessage() for record in caplog.records] == [
        f"the server at {fake.url} is still loading its model: waiting for it"
    ]


def test_no_server_says_where_and_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ModelError, match=f"there is no server at http://127.0.0.1:{port}") as error:
        served_model(f"http://127.0.0.1:{port}", SETTINGS)
    assert "llama-server -m MODEL.gguf" in str(error.value.hint)
    for address in ("unix:/nowhere/llama.sock", f"http://{'x' * 64}.example:8080"):  # a label has at most 63 characters
        with pytest.raises(ModelError, match="there is no server at"):
            served_model(address, SETTINGS)


Change = Callable[[dict[str, Any]], object]


def told(reply: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = reply["completion_probabilities"][0]
    return found


SPOILED: dict[str, tuple[Change, str]] = {
    "none": (lambda reply: reply.pop("completion_probabilities"), "no completion_probabilities"),
    "positive": (lambda reply: told(reply).update(logprob=3.5), "logarithm of a probability"),
    "text": (lambda reply: told(reply).update(logprob="-1"), "logarithm of a probability"),
    "huge": (lambda reply: told(reply).update(logprob=-(10**400)), "logarithm of a probability"),
    "more than 1": (lambda reply: [row.update(logprob=-0.01) for row in told(reply)["top_logprobs"]], "add up to"),
    "no such token": (lambda reply: told(reply).update(id=10**9), "as a token"),
    "negative token": (lambda reply: told(reply).update(id=-1), "as a token"),
    "cut": (lambda reply: reply.update(truncated=True), "did not take the"),
    "another prompt": (lambda reply: reply.update(tokens_evaluated=3), "did not take the"),
    "no list": (lambda reply: told(reply).update(top_logprobs=7), "list of probabilities"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_numbers_that_cannot_be_are_no_verdict(fake: FakeServer, how: str) -> None:
    change, expected = SPOILED[how]
    with closing(engine_on(fake)) as engine:

        def spoiled(status: int, reply: Any) -> tuple[int, Any]:
            if "completion_probabilities" in reply:
                change(reply)
            return status, reply

        fake.spoil["/completion"] = spoiled
        with pytest.raises(LocaljudgeError, match=expected):
            list(engine.answers(example_requests(engine)[:1]))


def test_a_reason_that_is_not_legal_is_closed(fake: FakeServer) -> None:
    """A server that ignores the grammar: what is legal is kept, the rest is not."""
    with closing(engine_on(fake)) as engine:
        fake.spoil["/completion"] = lambda status, reply: (
            status,
            {**reply, "tokens": list(b"Sure\n{}")} if reply["tokens"] else reply,
        )
        [(_, answer)] = engine.answers([one for one in example_requests(engine) if one.grammar.reason_tokens][:1])
    assert getattr(answer, "reason", None) == "Sure"


def test_another_server_behind_the_address_in_mid_run_is_never_believed() -> None:
    """Asked again on the same open engine, it is refused again: the first refusal does not make it the first model."""
    fake = FakeServer()
    with serving(fake):
        engine = engine_on(fake)
        requests = example_requests(engine)
        begun = engine.answers(requests)
        next(begun)
    fake.named = "another.gguf"
    with closing(engine), serving(fake, fake.port):
        for answers in (begun, engine.answers(requests), engine.answers(requests)):
            with pytest.raises(OutOfResource, match="is another"):
                list(answers)


@pytest.mark.parametrize(
    ("replies", "expected", "hint"),
    [
        ({"/api/version": {"version": "0.35.1"}}, "is Ollama", "ollama:NAME"),
        ({"/v1/models": {"data": [{"id": "x", "owned_by": "organization_owner"}]}}, "organization_owner", "MODEL.gguf"),
        ({"/v1/models": {"data": [{"id": "x.gguf", "owned_by": "me"}]}}, "not the whole path", "--logits_all true"),
        ({}, "no server of a model", "llama-server"),
    ],
    ids=["Ollama", "LM Studio", "llama_cpp.server without its file", "none"],
)
def test_what_cannot_tell_the_legal_answers_is_refused_with_the_reason(
    fake: FakeServer, replies: dict[str, Any], expected: str, hint: str
) -> None:
    def instead(path: str, body: Any) -> tuple[int, Any]:
        return (200, replies[path]) if path in replies else (404, {"error": "not found"})

    fake.answer = instead  # type: ignore[method-assign]
    with pytest.raises(ModelError, match=expected) as error:
        served_model(fake.url, SETTINGS)
    assert hint in str(error.value.hint)


def looked_up(monkeypatch: pytest.MonkeyPatch, *numeric: str) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in numeric]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)


@pytest.mark.parametrize("name", ["localhost", "judge.example.org", "127.0.0.1.example.org"])
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also where one of several addresses is this machine's."""
    looked_up(monkeypatch, "127.0.0.1", "192.0.2.7")

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(InputError, match=r"192\.0\.2\.7 is not this machine: the texts would leave it") as error:
        served_model(f"http://{name}:8080", SETTINGS)
    assert f'allow_host="{name}"' in str(error.value.hint) or f"allow_host='{name}'" in str(error.value.hint)


@pytest.mark.usefixtures("elsewhere")
def test_a_host_that_is_allowed_is_asked_and_named(fake: FakeServer) -> None:
    """Its own name is in the identity, and no file of ours is taken for its model's."""
    settings = EngineSettings(allow_host=("127.0.0.1",))
    with closing(engine_on(fake, settings)) as engine:
        assert engine.identity["host"] == "127.0.0.1"
        assert "model_sha256" not in engine.identity


def test_proxies_of_the_environment_are_not_used(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://192.0.2.1:3128")
    assert served_model(fake.url, SETTINGS).name == "made-up"


def test_a_socket_in_the_file_system_is_asked(tmp_path: Path) -> None:
    """It says that it is nothing we know: that is an answer."""
    place = tmp_path / "s"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fsencode(place))
    listener.listen()

    def serve() -> None:
        for _ in range(3):
            made, _address = listener.accept()
            with made:
                made.recv(65536)
                made.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(ModelError, match=f"at unix:{place} is no server of a model"):
        served_model(f"unix:{place}", SETTINGS)
    thread.join()
    listener.close()


def test_a_terminal_is_safe_from_what_a_server_says(fake: FakeServer) -> None:
    fake.spoil["/v1/models"] = lambda status, reply: (400, {"error": {"message": "\x1b[2J\x07 no"}})
    with pytest.raises(LocaljudgeError) as error:
        served_model(fake.url, SETTINGS)
    assert "\x1b" not in str(error.value)
    assert "\\x1b[2J" in str(error.value)


@pytest.mark.parametrize("rows", [7, None, [None], [3], [{"id": 0}], [{"id": [], "prob": 0.5}], "ab"])
def test_shares_that_are_no_list_of_shares_are_refused(fake: FakeServer, rows: Any) -> None:
    with closing(engine_on(fake)) as engine:

        def spoiled(status: int, reply: Any) -> tuple[int, Any]:
            for first in reply.get("completion_probabilities", []):
                if "top_probs" in first:
                    first["top_probs"] = rows
                else:
                    first["top_logprobs"] = []
            return status, reply

        fake.spoil["/completion"] = spoiled
        with pytest.raises(ModelError, match="the server"):
            list(engine.answers(example_requests(engine)[:1]))


@pytest.mark.parametrize("named", ["/" + "x" * 5000, "/a\0b"])
def test_a_path_that_cannot_be_one_proves_nothing(fake: FakeServer, named: str) -> None:
    fake.named = named
    assert served_model(fake.url, SETTINGS).proved is None


def adapters(fake: FakeServer, rows: Any) -> None:
    answered = fake.answer
    fake.answer = (  # type: ignore[method-assign]
        lambda path, body: (200, rows) if path == "/lora-adapters" else answered(path, body)
    )


def test_a_model_with_an_adapter_is_refused(fake: FakeServer) -> None:
    """Path and sizes are those of the base; one that is loaded and not applied changes nothing."""
    adapters(fake, [{"id": 0, "path": "/x/quiet.gguf", "scale": 0.0}])
    assert served_model(fake.url, SETTINGS).name == "made-up"
    adapters(fake, [{"id": 0, "path": "/x/quiet.gguf", "scale": 0.0}, {"id": 1, "path": "/x/loud.gguf", "scale": 0.5}])
    with pytest.raises(ModelError, match=r"a LoRA adapter, '/x/loud\.gguf'") as error:
        served_model(fake.url, SETTINGS)
    assert "without --lora" in str(error.value.hint)


@pytest.mark.parametrize("rows", [{}, [7], [{}], [{"scale": None}]])
def test_a_list_of_adapters_that_is_none_is_refused(fake: FakeServer, rows: Any) -> None:
    adapters(fake, rows)
    with pytest.raises(ModelError):
        served_model(fake.url, SETTINGS)
