"""A fake llama-server in a thread, with an arithmetic model.

The vocabulary has 256 bytes and three control tokens. The log probability of a token depends on all previous tokens.
Cached prompt tokens are reported as llama-server reports them.
"""

import hashlib
import json
import math
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.served_model import served_model
from localjudge.engine.server.server_engine import ServerEngine, open_server

CONTROL = ["<s>", "</s>", "<|turn|>"]
TEMPLATE = "{% for message in messages %}<|turn|>{{ message['content'] }}{% endfor %}<|turn|>"
SIZE = 256 + len(CONTROL)
Reply = tuple[int, Any]


def piece(token: int) -> bytes:
    return bytes([token]) if token < 256 else CONTROL[token - 256].encode()


def log_probabilities(tokens: Sequence[int]) -> list[float]:
    """Return the log probability of each next token, from a hash, mostly for digits."""
    digest = hashlib.sha256(repr(list(tokens)).encode()).digest()
    weights = [1e-4 * (1 + digest[token % 32]) for token in range(SIZE)]
    for place, digit in enumerate(b"01"):
        weights[digit] = 1.0 + digest[place]
    total = sum(weights)
    return [math.log(weight / total) for weight in weights]


class FakeServer:
    """Address and received requests of the server. `spoil` maps a path to a function that changes its answers.

    The function takes and returns status and answer (an object or bytes).
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.spoil: dict[str, Callable[[int, Any], Reply]] = {}
        self.named = "made-up.gguf"
        self.n_ctx = 4096
        self.build = "b1-fake"
        self.template = TEMPLATE
        self.meta: dict[str, Any] = {"n_vocab": SIZE, "vocab_type": 2, "size": 1000, "n_params": 500, "n_embd": 64}
        self.meta["ftype"] = "F16"
        self.port = 0
        self._held: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: Any) -> Reply:
        self.asked.append((path, body))
        known = {
            "/props": self.props,
            "/v1/models": self.models,
            "/tokenize": self.tokenized,
            "/detokenize": self.detokenized,
            "/completion": self.completed,
        }
        status, reply = (200, known[path](body)) if path in known else (404, {"error": {"message": "File Not Found"}})
        return self.spoil[path](status, reply) if path in self.spoil else (status, reply)

    def props(self, _: Any) -> Any:
        model = {"model_path": self.named, "model_alias": self.named, "chat_template": self.template}
        tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        return {**model, **tokens, "build_info": self.build, "default_generation_settings": {"n_ctx": self.n_ctx}}

    def models(self, _: Any) -> Any:
        return {"data": [{"id": self.named, "owned_by": "llamacpp", "meta": self.meta}]}

    def tokenized(self, body: Any) -> Any:
        literals = CONTROL if body["parse_special"] else []
        parts = re.split(f"({'|'.join(map(re.escape, literals)) or '(?!)'})", body["content"])
        tokens = [[256 + CONTROL.index(part)] if part in literals else list(part.encode()) for part in parts]
        return {"tokens": ([256] if body["add_special"] else []) + [token for part in tokens for token in part]}

    def detokenized(self, body: Any) -> Any:
        return {"content": b"".join(map(piece, body["tokens"])).decode()}

    def completed(self, body: Any) -> Any:
        prompt = body["prompt"]
        shared = next((i for i, (a, b) in enumerate(zip(self._held, prompt, strict=False)) if a != b), None)
        kept = min(len(self._held), len(prompt)) if shared is None else shared
        taken = min(kept, len(prompt) - 1) if body["cache_prompt"] else 0
        self._held = list(prompt)
        reply = {"tokens_evaluated": len(prompt), "truncated": False, "timings": {"cache_n": taken}, "tokens": []}
        if body.get("grammar"):
            return {**reply, "tokens": list(b'It says so."')}
        raw = log_probabilities(prompt)
        bias = dict(map(tuple, body.get("logit_bias", [])))
        shares = {
            token: math.exp(value + bias.get(token, 0) - max(bias.values(), default=0))
            for token, value in enumerate(raw)
        }
        best = max(shares, key=shares.__getitem__)
        if body.get("post_sampling_probs"):
            total = sum(shares.values())
            rows: list[Any] = [{"id": token, "prob": share / total} for token, share in shares.items() if share / total]
            rows.sort(key=lambda row: -row["prob"])
            first = {"id": best, "prob": shares[best] / total, "top_probs": rows[: body["n_probs"]]}
        else:
            likely = sorted(range(SIZE), key=lambda token: -raw[token])[: body.get("n_probs", 0)]
            pieces = [list(piece(token)) if token < 256 else [] for token in likely]
            rows = [{"id": t, "logprob": raw[t], "bytes": data} for t, data in zip(likely, pieces, strict=True)]
            first = {"id": best, "logprob": raw[best], "top_logprobs": rows}
        return {**reply, "completion_probabilities": [first]}


def engine_on(fake: FakeServer, settings: EngineSettings | None = None) -> ServerEngine:
    settings = settings or EngineSettings()
    return open_server(served_model(fake.url, settings), settings)


@contextmanager
def serving(fake: FakeServer, port: int = 0) -> Iterator[FakeServer]:
    connections: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def setup(self) -> None:
            super().setup()
            connections.append(self.connection)

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            status, reply = fake.answer(self.path, body)
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            if status in {301, 302, 307, 308}:
                self.send_header("Location", "http://192.0.2.1:80/")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    fake.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
