"""Lets the ways take turns, sample by sample, each in a process of its own, and keeps what each took.

    for each sample:  short  ours, prefill, one-by-one, llama-server, joint, outlines
                      long   ours, prefill, ...

A busy machine slows them alike. A turn is given what is left of its way's time, and is killed when that is up.
"""

import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.hardware import processor_name
from localjudge.errors import ModelError

from .cases import CONTEXTS
from .measurements import Measured, Measurement, Outcome, append, read, time_for
from .order import Order, Wording
from .worker import WORDINGS, order_in_json

_READY_SECONDS = 600
"""For loading a model and evaluating the instructions."""
_VERSION_SECONDS = 30
_UNKNOWN = "of an unknown version"
_SCRIPTS = Path(__file__).resolve().parents[1]


class Extent(NamedTuple):
    """What is measured."""

    ways: Sequence[str]
    samples: int
    limit: float
    """Seconds for all samples of a way, a length of context and a model; without loading it."""
    threads: int
    n_ctx: int | None
    server: str
    """Path of llama-server."""


class Ended(NamedTuple):
    """How a process ended: with a report, or without one, because time was up or it failed."""

    outcome: Outcome
    report: dict[str, Any]
    why: str = ""


class Turn(NamedTuple):
    """One sample of one way, and the seconds that it may take."""

    order: Order
    seconds: float
    prompt_tokens: int


Asker = Callable[[Order, float], Ended]
"""Carries out an order within so many seconds."""


@dataclass(frozen=True)
class Judge:
    """A model, and how it is asked here."""

    on: Measured
    order: Order
    """All that its turns have in common."""
    wordings: dict[str, Wording]


def opened(name: str, extent: Extent) -> Judge:
    """The model, and how localjudge words what it is asked. Raises ModelError as `localjudge run` does."""
    file = model_registry.find(name)
    order = Order(WORDINGS, name, str(file.path), extent.threads, extent.n_ctx, server=extent.server)
    ended = asked(order, _READY_SECONDS, samples=extent.samples)
    if ended.outcome != "done":
        raise ModelError(f"{name} cannot be asked: {ended.why or ended.outcome}")
    found = ended.report
    on = Measured(
        file.name, file.sha256, round(file.size / (1 << 20)), extent.threads, found["n_ctx"], build(found, extent)
    )
    settings = {key: found[key] for key in ("n_ctx", "gpu_layers", "warm_up", "answers")}
    wordings = {case: Wording(**wording) for case, wording in found["cases"].items()}
    return Judge(on, replace(order, **settings), wordings)


def build(found: Mapping[str, Any], extent: Extent) -> str:
    """What takes part beside the model: libraries, how llama.cpp was compiled, the server, the processor."""
    named = [f"{name} {version(name)}" for name in ("localjudge", "llama-cpp-python", "outlines")]
    named[1] += f" (compiled as {hashlib.sha256(found['system'].encode()).hexdigest()[:8]})"
    if extent.server:
        named.append(f"llama-server {server_version(extent.server)}")
    if found["gpu_layers"]:
        named.append(f"{found['gpu_layers']} layers on a GPU")
    return ", ".join([*named, processor_name() or "an unknown processor"])


@cache
def server_version(server: str) -> str:
    """What a llama-server says of itself."""
    with suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(
            [server, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_VERSION_SECONDS,
        )
        found = [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("version:")]
        return found[0].partition(":")[2].strip() if found else _UNKNOWN
    return _UNKNOWN


def turns(judge: Judge, extent: Extent, file: Path) -> Iterator[Turn]:
    """What is still to be done, looked up in the file when it is its turn."""
    for place in range(extent.samples):
        for context in CONTEXTS:
            for way in extent.ways:
                wording = judge.wordings[f"{context}/{place}"]
                order = replace(judge.order, way=way, place=place, context=context, prompts=wording.prompts)
                there = [one for one in read(file) if (one.on, one.context) == (judge.on, context)]
                sample = order.case.sample
                seconds = time_for(sample, [one for one in there if one.way == way], extent.limit)
                if way == "prefill":
                    ours = [one for one in there if (one.way, one.sample, one.outcome) == ("ours", sample, "done")]
                    order = replace(order, tokens=sum(one.evaluated for one in ours))
                    seconds = seconds if ours else 0
                if seconds:
                    yield Turn(order, seconds, wording.tokens)


def measure(judge: Judge, turn: Turn, file: Path, ask: Asker) -> Measurement:
    """Have the turn taken, and keep what came of it."""
    order, seconds = turn.order, turn.seconds
    ended = ask(order, seconds)
    case = order.case
    one = Measurement(
        **asdict(judge.on),
        way=order.way,
        context=order.context,
        sample=case.sample,
        asked=len(case.tasks),
        prompt_tokens=turn.prompt_tokens,
        outcome=ended.outcome,
        why=ended.why,
        **({"seconds": seconds} | ended.report),
    )
    append(file, one)
    return one


def asked(order: Order, seconds: float, samples: int = 0) -> Ended:
    """Have a process of its own carry out the order. It is killed, with all that it started, if it takes longer."""
    path = os.pathsep.join([str(_SCRIPTS), str(_SCRIPTS.parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            start_new_session=True,
        )
        try:
            return _ended(process, order_in_json(order, samples), seconds, said)
        finally:
            _kill(process)


def _ended(process: subprocess.Popen[str], order: str, seconds: float, said: IO[str]) -> Ended:
    assert process.stdin
    with suppress(BrokenPipeError):  # it ended before it read anything: that is seen below
        process.stdin.write(order)
        process.stdin.flush()
    reports: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_pass_on, args=(process, reports), daemon=True).start()
    is_ready = False
    while True:
        try:
            line = reports.get(timeout=seconds if is_ready else _READY_SECONDS)
        except queue.Empty:
            return Ended("not done", {}) if is_ready else Ended("failed", {}, f"not ready after {_READY_SECONDS} s")
        if not line:
            process.wait()
            said.seek(0)
            return Ended("failed", {}, _why(process.returncode, said.read()))
        report = json.loads(line)
        is_ready = bool(report.pop("ready", False))
        if not is_ready:
            return Ended("done", report)


def _pass_on(process: subprocess.Popen[str], reports: "queue.SimpleQueue[str]") -> None:
    assert process.stdout
    for line in process.stdout:
        reports.put(line)
    reports.put("")


def _why(code: int, said: str) -> str:
    """The signal that ended it, or its last line."""
    last = [line.strip() for line in said.splitlines() if line.strip()][-1:]
    return signal.Signals(-code).name if code < 0 else "".join(last)[:200] or f"code {code}"


def _kill(process: subprocess.Popen[str]) -> None:
    """End the process with its server, whether or not it has ended by itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
