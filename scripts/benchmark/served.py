"""llama.cpp's own server, asked as its users would: a completion for each statement, with grammar and prompt cache."""

import json
import socket
import subprocess
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

from .order import Order, Work, gbnf

_HOST = "127.0.0.1"
_START_SECONDS = 300
_ANSWER_TOKENS = 64
"""More than any answer has that can be listed."""


class Served:
    """One slot on one server, which is started for this sample."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._grammar = gbnf(order.answers)
        with socket.socket() as free:
            free.bind((_HOST, 0))
            self._port: int = free.getsockname()[1]
        self._server = subprocess.Popen(self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()
        self._complete(order.warm_up[0])

    def ask(self) -> Work:
        """Judge the sample."""
        counts = [self._complete(prompt) for prompt in self._order.prompts]
        generated = sum(one["predicted_n"] for one in counts)
        return Work(len(counts), generated + sum(one["prompt_n"] for one in counts), generated)

    def close(self) -> None:
        """End the server."""
        self._server.terminate()
        self._server.wait()

    def _command(self) -> list[str]:
        order = self._order
        threads = str(order.threads)
        layers = "999" if order.gpu_layers < 0 else str(order.gpu_layers)
        settings = {"-c": str(order.n_ctx or 0), "-t": threads, "-tb": threads, "-np": "1", "-ngl": layers}
        words = [word for setting in settings.items() for word in setting]
        return [order.server, "-m", order.path, "--host", _HOST, "--port", str(self._port), *words]

    def _wait(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._server.poll() is not None:
                raise ValueError(f"{self._order.server} ended with code {self._server.returncode} before it was ready")
            with suppress(ConnectionError):
                if self._request("GET", "/health")[0] == HTTPStatus.OK:
                    return
            time.sleep(0.1)
        raise ValueError(f"{self._order.server} is not ready after {_START_SECONDS} s")

    def _complete(self, prompt: str) -> dict[str, int]:
        """How many tokens of the prompt were evaluated, and how many were generated."""
        asked = {
            "prompt": prompt,
            "grammar": self._grammar,
            "cache_prompt": True,
            "temperature": 0.0,
            "n_predict": _ANSWER_TOKENS,
        }
        status, answer = self._request("POST", "/completion", json.dumps(asked))
        if status != HTTPStatus.OK or answer["content"] not in self._order.answers:
            raise ValueError(f"the server answers {status}: {json.dumps(answer)[:200]}")
        counts: dict[str, int] = answer["timings"]
        return counts

    def _request(self, method: str, path: str, body: str | None = None) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection(_HOST, self._port)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()
