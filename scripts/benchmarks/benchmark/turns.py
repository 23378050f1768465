"""Lets the ways take turns, sample by sample, and keeps what each took, one line of JSON the moment it is there.

    for each sample:  short  ours, prefill, one-by-one, llama-server
                      long   ours, prefill, ...

A busy machine slows them alike. A turn is given what is left of its way's time, and is killed when that is up. Whatever
stops the bench, the lines stay, and the same command goes on with what is missing. Lines of another model, another
build or another number of threads may be in the same file: they belong to other tables.
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
    """What all ways of a table have in common."""

    judge: str
    sha256: str
    mib: int
    """Of the model's file."""
    threads: int
    build: str
    """The libraries, the server and the processor that it ran on."""


@dataclass(frozen=True)
class Measurement:
    """One sample of one way. If it is not done, `seconds` are those that it was given."""

    table: Table
    way: str
    context: str
    sample: str
    outcome: Literal["done", "not done", "failed"]
    seconds: float
    expected: int
    """Verdicts that were asked for; `verdicts` are those that came."""
    prompt_tokens: int = 0
    """Of the longest prompt of ours."""
    verdicts: int = 0
    evaluated: int = 0
    """Tokens that ours evaluated."""
    why: str = ""
    """It failed."""


class Extent(NamedTuple):
    """What is measured: samples of each length of context, and seconds for all samples of a way and a length."""

    ways: Sequence[str]
    samples: int
    limit: float


Asker = Callable[[Order, float], dict[str, Any]]
"""Carries out an order within so many seconds: outcome and figures of the measurement."""


def read(file: Path) -> list[Measurement]:
    """All that is in the file, the last of each sample and way; a line that a kill cut off counts for nothing."""
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
    """One line more. The line break stands first: a line that was cut off spoils no other."""
    with file.open("ab") as opened:
        opened.write(f"\n{json.dumps(asdict(row), ensure_ascii=False)}".encode())
        opened.flush()
        os.fsync(opened.fileno())


def take(table: Table, order: Order, extent: Extent, file: Path, ask: Asker) -> Iterator[Measurement]:
    """Every turn that is still to be taken; `order` is what they have in common."""
    for place in range(extent.samples):
        for context in CONTEXTS:
            for way in extent.ways:
                rows = [row for row in read(file) if (row.table, row.context) == (table, context)]
                turn = order._replace(way=way, place=place, context=context)
                sample = turn.case.sample
                seconds = time_for(sample, [row for row in rows if row.way == way], extent.limit)
                ours = [row for row in rows if (row.way, row.sample, row.outcome) == ("ours", sample, "done")]
                if way == "prefill" and not ours:
                    continue
                if seconds:
                    turn = turn._replace(tokens=sum(row.evaluated for row in ours))
                    came: dict[str, Any] = {"seconds": seconds, **ask(turn, seconds)}
                    row = Measurement(table, way, context, sample, expected=len(turn.case.tasks), **came)
                    append(file, row)
                    yield row


def time_for(sample: str, rows: Sequence[Measurement], limit: float) -> float:
    """Seconds that a way may take for this sample, of `limit` for all samples; 0 if it is not to be asked.

    `rows` is what the way has done about contexts of this length. What was not done in time is tried again, on this
    sample or another, only with more time; what failed is asked again.
    """
    if any((row.sample, row.outcome) == (sample, "done") for row in rows):
        return 0
    left = limit - sum(row.seconds for row in rows if row.outcome == "done")
    not_enough = max((row.seconds for row in rows if row.outcome == "not done"), default=0)
    return left if left > not_enough else 0


def ask_process(order: Order, seconds: float) -> dict[str, Any]:
    """Have a process of its own carry out the order. It is killed, with all that it started, if it takes longer."""
    path = os.pathsep.join([str(_BENCHMARKS), str(_BENCHMARKS.parents[1]), os.environ.get("PYTHONPATH", "")])
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
                if not (line := next_line(process, limit)):
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
    """What the process reports next; None when time is up, nothing when it has ended."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else None


def why_ended(code: int, errors: str) -> str:
    """The signal that ended it, or its last line."""
    last = [line.strip() for line in errors.splitlines() if line.strip()][-1:]
    return signal.Signals(-code).name if code < 0 else "".join(last)[:200] or f"code {code}"
