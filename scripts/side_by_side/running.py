"""Environments, the server that the evaluators ask, and whose turn it is.

    for each 6 samples:  localjudge  localjudge, by the server  ragas ...     and some of them once more

Each way has a process and a server of its own for six samples, so none finds what another left in a cache. What it asks
of the server passes a counter of tokens. A sample that takes too long is given up and its process ended. Each result is
a line of JSON the moment it is there: the same command goes on.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from benchmark.turns import next_line, why_ended

from .samples import BLOCK, Sample

ROOT = Path(__file__).resolve().parents[2]
PEERS = {
    "localjudge": [],
    "ragas": ["ragas", "instructor", "langchain-community", "langchain-core", "openai"],
    "deepeval": ["deepeval", "openai"],
    "haystack": ["haystack-ai"],
    "inspect": ["inspect-ai", "openai"],
}
"""What is installed for each, of the extra `peers` and as it pins them."""
WAYS = [
    "localjudge",
    "localjudge, by the server",
    "localjudge, reference judge",
    "ragas faithfulness",
    "ragas faithfulness, classic",
    "ragas context recall",
    "ragas context recall, classic",
    "DeepEval faithfulness",
    "Haystack faithfulness",
    "inspect model-graded",
]
_IN_PROCESS = ("localjudge", "localjudge, reference judge")
_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "RAGAS_DO_NOT_TRACK": "true",
    "HF_HUB_OFFLINE": "1",
}
_READY_SECONDS = 300
Row = dict[str, Any]


class Bench(NamedTuple):
    """What all turns have in common."""

    model: Path
    sha256: str
    environments: Path
    file: Path
    patience: float
    """Seconds for one sample."""
    server: str = ""
    """A llama-server; without one it is that of llama-cpp-python."""

    def rows(self) -> list[Row]:
        """What has been done with this model; a line that a kill cut off counts for nothing."""
        rows = []
        for line in self.file.read_bytes().splitlines() if self.file.exists() else []:
            with suppress(ValueError):
                rows.append(json.loads(line))
        return [row for row in rows if row["sha256"] == self.sha256]


def environment_of(way: str) -> str:
    """The name of the environment that a way works in."""
    return way.replace(",", " ").split()[0].lower()


def install(environments: Path, names: Sequence[str]) -> dict[str, Row]:
    """Make the environments that are missing; of each its version, packages and MB."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["peers"]
    sizes = {}
    for name in names:
        python = environments / name / "bin" / "python"
        if not python.exists():
            print(f"{name}: installing", flush=True)
            what = [line for line in extra if line.replace("<", "=").replace(">", "=").split("=")[0] in PEERS[name]]
            subprocess.run([sys.executable, "-m", "venv", str(environments / name)], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *(what or [str(ROOT)])], check=True)
        [packages] = (environments / name / "lib").glob("python3*/site-packages")
        versions = sorted(path.name.removesuffix(".dist-info") for path in packages.glob("*.dist-info"))
        [version] = [each for each in versions if each.lower().replace("_", "-").startswith(f"{(PEERS[name] or [name])[0]}-")]
        size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
        sizes[name] = {"version": version.replace("-", " "), "packages": len(versions), "mb": round(size / 1e6)}
    return sizes


def take(bench: Bench, ways: Sequence[str], samples: Sequence[Sample], again: int, until: float) -> Iterator[Row]:
    """Every turn that is still to be taken, as long as there is time; the first samples are judged a second time."""
    for start in range(0, len(samples), BLOCK):
        for turn in (1, 2):
            part = samples[start : start + BLOCK] if turn == 1 else samples[start : min(start + BLOCK, again)]
            for way in ways:
                while missing := [each for each in part if (way, each.name, turn) not in _done(bench)]:
                    for sample, came in zip(missing, _judge(bench, way, missing), strict=False):
                        row = {"sha256": bench.sha256, "judge": bench.model.stem, "way": way, "turn": turn}
                        row |= {**sample._asdict(), "contexts": len(sample.contexts), **came}
                        with bench.file.open("a") as file:
                            file.write(f"\n{json.dumps(row)}")
                        yield row
                        if time.time() > until:
                            return


def _done(bench: Bench) -> set[tuple[str, str, int]]:
    return {(row["way"], row["name"], row["turn"]) for row in bench.rows()}


def _judge(bench: Bench, way: str, samples: Sequence[Sample]) -> Iterator[Row]:
    """What came of one sample after the other, up to the first that ends the process."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        errors = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
        server, tokens, port = None, Counter[str](), 0
        if way not in _IN_PROCESS:
            server, port = stack.enter_context(_serving(bench, "localjudge" in way))
            port = stack.enter_context(_counting(port, tokens))
        python = bench.environments.absolute() / environment_of(way) / "bin" / "python"
        peer = [python, Path(__file__).with_name("peer.py"), way, bench.model.absolute(), f"http://127.0.0.1:{port}"]
        environment = {**os.environ, **_QUIET} | {
            f"DEEPEVAL_PER_{each}_TIMEOUT_SECONDS_OVERRIDE": str(bench.patience) for each in ("ATTEMPT", "TASK")
        }
        command = [*map(str, peer), str(bench.patience)]
        pipe = subprocess.PIPE
        process = stack.enter_context(
            _process(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, cwd=folder, bufsize=0)
        )
        line = next_line(process, _READY_SECONDS)
        for sample in samples:
            if line:
                assert process.stdin
                tokens.clear()
                process.stdin.write(f"{json.dumps(sample._asdict() | {'labels': None})}\n".encode())
                line = next_line(process, bench.patience)
            if line:
                row = json.loads(line)
                row["memory"] += _peak(server) if server else 0
                yield {**row, **tokens}
                continue
            if line is None:
                shown = f"not done after {bench.patience:.0f} s"
            else:
                code = process.wait()
                errors.seek(0)
                shown = why_ended(code, errors.read())
            yield {"score": None, "shown": shown, "verdicts": [], "seconds": bench.patience, "memory": 0, **tokens}
            return


@contextmanager
def _process(command: list[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes when this one does, however it ends."""
    end_with_parent = ctypes.CDLL(None).prctl
    process = subprocess.Popen(command, preexec_fn=lambda: end_with_parent(1, signal.SIGKILL), **how)
    try:
        yield process
    finally:
        process.kill()
        with process:
            pass


@contextmanager
def _serving(bench: Bench, logits: bool) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The model on a free port; localjudge needs the probabilities of tokens of the prompt, which cost memory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = str(len(os.sched_getaffinity(0)))
    command = [bench.server, "-c", "4096", "-np", "1", "-t", threads, "-tb", threads, "-m"]
    if not bench.server:
        command = [sys.executable, "-m", "llama_cpp.server", "--n_ctx", "4096", "--logits_all", str(logits)]
        command += ["--n_threads", threads, "--n_threads_batch", threads, "--model"]
    command += [str(bench.model), "--host", "127.0.0.1", "--port", str(port)]
    with _process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        until = time.monotonic() + _READY_SECONDS
        while True:
            with suppress(OSError):
                connection = HTTPConnection("127.0.0.1", port, timeout=_READY_SECONDS)
                connection.request("GET", "/v1/models")
                if connection.getresponse().status == 200:
                    break
            if server.poll() is not None or time.monotonic() > until:
                raise ValueError(f"the server did not start: {' '.join(command)}")
            time.sleep(0.1)
        yield server, port


@contextmanager
def _counting(port: int, tokens: Counter[str]) -> Iterator[int]:
    """Pass everything on to the server, and count what its answers say that they took."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = HTTPConnection("127.0.0.1", port)
            with suppress(OSError, HTTPException):  # the evaluator may have given up, or the server have been ended
                connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content = response.read()
                with suppress(ValueError, TypeError, AttributeError):
                    usage = json.loads(content).get("usage") or {}
                    tokens.update({"calls": 1, **{key: n for key, n in usage.items() if isinstance(n, int)}})
                self.send_response(response.status)
                for name in ("Content-Type", "Server"):
                    self.send_header(name, response.getheader(name) or "")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as counter:
        Thread(target=counter.serve_forever, daemon=True).start()
        try:
            yield counter.server_port
        finally:
            counter.shutdown()


def _peak(server: subprocess.Popen[bytes]) -> int:
    """The most memory that it has had, in MiB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10
