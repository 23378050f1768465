"""Run the ways in turns, sample by sample, and store each result as a line of JSON immediately.

    for each sample:  short  ours, prefill, one-by-one, llama-server
                      long   ours, prefill, ...

A busy machine slows all ways equally. A turn gets its way's remaining time and is killed
afterwards. Results survive any interruption, and the same command resumes. Results of other models,
builds or thread counts may be in the same file; they belong to other tables.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .cases import CONTEXTS
from .ways import Order

_READY_SECONDS = 600
"""For loading a model and evaluating the instructions."""
_BENCHMARKS = Path(__file__).resolve().parents[1]


class Table(NamedTuple):
    """Common properties of all ways in a table."""

    judge: str
    sha256: str
    mib: int
    """Size of the model file."""
    threads: int
    build: str
    """Libraries, server and processor."""


@dataclass(frozen=True)
class Measurement:
    """One sample of one way. If unfinished, `seconds` is the permitted time."""

    table: Table
    way: str
    context: str
    sample: str
    outcome: Literal["done", "not done", "failed"]
    seconds: float
    expected: int
    """Requested verdicts; `verdicts` counts the received ones."""
    prompt_tokens: int = 0
    """Length of our longest prompt."""
    verdicts: int = 0
    evaluated: int = 0
    """Tokens evaluated by our way."""
    why: str = ""
    """Reason for a failure."""


class Extent(NamedTuple):
    """Samples for each context length, and seconds for all samples of a way and a length."""

    ways: Sequence[str]
    samples: int
    limit: float


Asker = Callable[[Order, float], dict[str, Any]]
"""Carries out an order within a time limit and returns outcome and figures."""


def read(file: Path) -> list[Measurement]:
    """Return the latest result of each sample and way in the file. Ignores a truncated line."""
    rows: dict[tuple[Any, ...], Measurement] = {}
    names = {field.name for field in fields(Measurement)}
    for line in file.read_bytes().splitlines() if file.exists() else []:
        try:
            values = json.loads(line)
            row = Measurement(**{**values, "table": Table(*values["table"])})
        except (ValueError, TypeError, KeyError):
            continue
        if values.keys() == names:
            rows[row.table, row.way, row.context, row.sample] = row
    return list(rows.values())


def append(file: Path, row: Measurement) -> None:
    """Append a line. Starts with a line break in case the last line is truncated."""
    with file.open("ab") as opened:
        opened.write(f"\n{json.dumps(asdict(row), ensure_ascii=False)}".encode())
        opened.flush()
        os.fsync(opened.fileno())


def take(
    table: Table, order: Order, extent: Extent, file: Path, ask: Asker
) -> Iterator[Measurement]:
    """Run every missing turn. `order` contains their common properties."""
    for place in range(extent.samples):
        for context in CONTEXTS:
            for way in extent.ways:
                rows = [row for row in read(file) if (row.table, row.context) == (table, context)]
                turn = order._replace(way=way, place=place, context=context)
                sample = turn.case.sample
                seconds = time_for(sample, [row for row in rows if row.way == way], extent.limit)
                ours = [
                    row
                    for row in rows
                    if (row.way, row.sample, row.outcome) == ("ours", sample, "done")
                ]
                if way == "prefill" and not ours:
                    continue
                if seconds:
                    turn = turn._replace(tokens=sum(row.evaluated for row in ours))
                    came: dict[str, Any] = {"seconds": seconds, **ask(turn, seconds)}
                    row = Measurement(
                        table, way, context, sample, expected=len(turn.case.tasks), **came
                    )
                    append(file, row)
                    yield row


def time_for(sample: str, rows: Sequence[Measurement], limit: float) -> float:
    """Return the seconds for this sample of a way with `limit` for all samples; 0 skips it.

    `rows` are the way's results for contexts of this length. A timed-out sample, or another one, is
    tried again only with more time. A failed sample is tried again.
    """
    if any((row.sample, row.outcome) == (sample, "done") for row in rows):
        return 0
    left = limit - sum(row.seconds for row in rows if row.outcome == "done")
    not_enough = max((row.seconds for row in rows if row.outcome == "not done"), default=0)
    return left if left > not_enough else 0


def ask_process(order: Order, seconds: float) -> dict[str, Any]:
    """Carry out the order in a separate process.

    Kills it with its children after the time limit.
    """
    path = os.pathsep.join(
        [str(_BENCHMARKS), str(_BENCHMARKS.parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmark.ways", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": path},
            bufsize=0,
            start_new_session=True,
        )
        try:
            report: dict[str, Any] = {}
            for limit in (_READY_SECONDS, seconds):
                line = next_line(process, limit)
                if not line:
                    break
                report |= json.loads(line)
            if line:
                return {"outcome": "done", **report}
            if line is None and report:
                return {"outcome": "not done", **report}
            if line is None:
                return {"outcome": "failed", "why": f"not ready after {_READY_SECONDS} s"}
            code = process.wait()
            errors.seek(0)
            return {"outcome": "failed", "why": why_ended(code, errors.read()), **report}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with process:
                pass


def next_line(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """Return the next report of the process; None after the time limit, empty after its end."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else None


def why_ended(code: int, errors: str) -> str:
    """Return the signal that ended the process, or its last line."""
    last = [line.strip() for line in errors.splitlines() if line.strip()][-1:]
    return signal.Signals(-code).name if code < 0 else "".join(last)[:200] or f"code {code}"
