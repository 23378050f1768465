"""Environments, the model's server, and the order of turns.

    for every 6 samples:  localjudge, ragas ...     then some of them a second time

Each way judges six samples with a separate process and server, so it finds no other way's prompts
in a cache. Requests pass through a proxy that counts tokens. A sample that exceeds --patience is
abandoned, and the process killed. Each result is written immediately as a line of JSON, and the
same command resumes.
"""

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from benchmark.turns import next_line, why_ended

from .samples import BLOCK, Sample

QUESTION = "Tell me a few facts."
ROOT = Path(__file__).resolve().parents[3]
PEERS = {
    "localjudge": [],
    "ragas": ["ragas", "instructor", "langchain-community", "langchain-core", "openai"],
    "deepeval": ["deepeval", "openai"],
    "haystack": ["haystack-ai"],
    "inspect": ["inspect-ai", "openai"],
}
"""Packages of each way from the extra `peers`, which pins the versions."""
_NO_TELEMETRY = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "RAGAS_DO_NOT_TRACK": "true",
}
_TIMEOUTS = [
    "OPENAI_TIMEOUT",
    *(f"DEEPEVAL_PER_{per}_TIMEOUT_SECONDS_OVERRIDE" for per in ("ATTEMPT", "TASK")),
]
_READY_SECONDS = 300
Row = dict[str, Any]


class Bench(NamedTuple):
    """Common properties of all turns."""

    model: Path
    environments: Path
    file: Path
    patience: float
    """Seconds for one sample."""

    def rows(self) -> list[Row]:
        """Return all results with this model. Ignores a truncated line."""
        rows: list[Row] = []
        for line in self.file.read_bytes().splitlines() if self.file.exists() else []:
            with suppress(ValueError):
                rows.append(json.loads(line))
        return [row for row in rows if row["judge"] == self.model.stem]


def environment_name(way: str) -> str:
    """Return the name of a way's environment."""
    return re.split("[ ,]", way)[0].lower()


def install(environments: Path, names: Sequence[str]) -> dict[str, Row]:
    """Create missing environments and return version, number of packages and MB of each."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]["peers"]
    installed = {}
    for name in names:
        folder = environments / name
        part = environments / f"{name}.part"
        if not folder.exists():
            print(f"{name}: installing", flush=True)
            what = [line for line in extra if re.split("[=<>]", line)[0] in PEERS[name]] or [
                str(ROOT)
            ]
            subprocess.run([sys.executable, "-m", "venv", "--clear", part], check=True)
            subprocess.run(
                [part / "bin" / "python", "-m", "pip", "install", "-q", *what], check=True
            )
            part.rename(folder)
        [packages] = folder.glob("lib/python3*/site-packages")
        versions = dict(path.stem.rsplit("-", 1) for path in packages.glob("*.dist-info"))
        version = versions[(PEERS[name] or [name])[0].replace("-", "_")]
        size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
        installed[name] = {
            "version": f"{name} {version}",
            "packages": len(versions),
            "mb": round(size / 1e6),
        }
    return installed


def take(
    bench: Bench, ways: Sequence[str], samples: Sequence[Sample], again: int, until: float
) -> Iterator[Row]:
    """Judge missing samples until time is up, the first `again` samples twice."""
    for start in range(0, len(samples), BLOCK):
        for turn, end in enumerate((start + BLOCK, min(start + BLOCK, again)), 1):
            for way in ways:
                while missing := _missing(bench, way, samples[start:end], turn):
                    for sample, result in zip(missing, _judge(bench, way, missing), strict=False):
                        row = {
                            "judge": bench.model.stem,
                            "way": way,
                            "turn": turn,
                            **sample._asdict(),
                            **result,
                        }
                        with bench.file.open("a") as file:
                            file.write(f"\n{json.dumps(row)}")
                        yield row
                        if time.time() > until:
                            return


def _missing(bench: Bench, way: str, samples: Sequence[Sample], turn: int) -> list[Sample]:
    done = [row["sentences"] for row in bench.rows() if (row["way"], row["turn"]) == (way, turn)]
    return [sample for sample in samples if sample.sentences not in done]


def _judge(bench: Bench, way: str, samples: Sequence[Sample]) -> Iterator[Row]:
    """Yield the results of samples up to the first that ends the process."""
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
        server = None
        tokens = Counter[str]()
        port = 0
        if way != "localjudge":
            server, port = _serve(stack, bench.model)
            port = _count(stack, port, tokens)
        python = bench.environments.absolute() / environment_name(way) / "bin" / "python"
        script = Path(__file__).with_name("peer.py")
        address = f"http://127.0.0.1:{port}"
        timeouts = dict.fromkeys(_TIMEOUTS, str(bench.patience))
        process = _start(
            stack,
            [python, script, way, bench.model.absolute(), address, str(bench.patience)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **_NO_TELEMETRY, **timeouts},
            cwd=stack.enter_context(tempfile.TemporaryDirectory()),
            bufsize=0,
        )
        assert process.stdin
        line = next_line(process, _READY_SECONDS)
        for sample in samples:
            tokens.clear()
            started = time.perf_counter()
            if line:
                asked = {
                    "question": QUESTION,
                    "answer": " ".join(sample.sentences),
                    "contexts": sample.contexts,
                }
                with suppress(OSError):
                    process.stdin.write(f"{json.dumps(asked)}\n".encode())
                line = next_line(process, bench.patience)
            if server and server.poll() is not None:
                raise ValueError("the server ended: the same command resumes")
            if not line:
                late = f"not done after {bench.patience:.0f} s"
                errors.seek(0)
                message = late if line is None else why_ended(process.wait(), errors.read())
                took = time.perf_counter() - started
                yield {
                    "score": None,
                    "message": message,
                    "verdicts": [],
                    "seconds": took,
                    "memory": 0,
                    **tokens,
                }
                return
            yield {
                **json.loads(line),
                "memory": _peak(process) + (_peak(server) if server else 0),
                **tokens,
            }


def _start(stack: ExitStack, command: Sequence[Any], **how: Any) -> subprocess.Popen[bytes]:
    """Start a process that is killed when this one ends, even by SIGKILL (PR_SET_PDEATHSIG)."""
    prctl = ctypes.CDLL(None).prctl
    how["preexec_fn"] = partial(prctl, 1, signal.SIGKILL)
    process = stack.enter_context(subprocess.Popen(command, **how))
    stack.callback(process.kill)
    return process


def _serve(stack: ExitStack, model: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Serve the model on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = str(len(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "llama_cpp.server", "--n_ctx", "4096", "--logits_all", "False"]
    command += ["--n_threads", threads, "--n_threads_batch", threads, "--model"]
    llama_server = os.environ.get("LOCALJUDGE_LLAMA_SERVER")
    if llama_server:
        command = [llama_server, "-c", "4096", "-np", "1", "-t", threads, "-tb", threads, "-m"]
    command += [str(model), "--host", "127.0.0.1", "--port", str(port)]
    server = _start(stack, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with suppress(OSError):
            connection = HTTPConnection("127.0.0.1", port, timeout=_READY_SECONDS)
            connection.request("GET", "/v1/models")
            if connection.getresponse().status == HTTPStatus.OK:
                return server, port
        time.sleep(0.1)
    raise ValueError(f"the server did not start: {' '.join(command)}")


def _count(stack: ExitStack, port: int, tokens: Counter[str]) -> int:
    """Return a port that forwards requests to the server and counts the tokens of its answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections open

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = HTTPConnection("127.0.0.1", port)
            with suppress(
                OSError, HTTPException
            ):  # the evaluator gave up, or the server was killed
                connection.request(
                    self.command, self.path, body, {"Content-Type": "application/json"}
                )
                response = connection.getresponse()
                content = response.read()
                with suppress(ValueError, TypeError, LookupError):
                    tokens.update(
                        {
                            name: n
                            for name, n in json.loads(content)["usage"].items()
                            if isinstance(n, int)
                        }
                    )
                self.send_response_only(response.status)
                for name in ("Content-Type", "Server"):
                    self.send_header(name, response.getheader(name) or "")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    counter = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    # a connection that was closed is no error
    counter.handle_error = lambda *_: None  # type: ignore[method-assign]
    stack.callback(counter.shutdown)
    Thread(target=counter.serve_forever, daemon=True).start()
    return counter.server_port


def _peak(process: subprocess.Popen[bytes]) -> int:
    """Peak memory in MiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10
