"""Tests: the bench keeps results, resumes, and no way delays the others."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmark.cases import make_case
from benchmark.turns import Extent, Table, read, take
from benchmark.ways import Order

pytestmark = pytest.mark.engine

BENCH = [sys.executable, str(Path(__file__).resolve().parents[1] / "bench")]
TABLE = Table("house", "ab" * 32, 94, 2, "localjudge 1")
ORDER = Order("", "house", "house.gguf", 2)
WAYS = ("ours", "prefill", "one-by-one")
PACE = {"ours": 2.0, "prefill": 1.5, "one-by-one": 30.0}
"""Seconds per sample on a simulated machine."""


def paced(order: Order, seconds: float) -> dict[str, Any]:
    """Simulate a way's duration, and a kill after its time limit. Raw prefill knows its tokens."""
    assert order.tokens == (500 if order.way == "prefill" else 0) or order.way == "one-by-one"
    if PACE[order.way] > seconds:
        return {"outcome": "not done", "prompt_tokens": 300}
    return {
        "outcome": "done",
        "seconds": PACE[order.way],
        "verdicts": 4,
        "evaluated": 500,
        "prompt_tokens": 300,
    }


Taken = list[tuple[str, str, str, float]]


def taken(
    file: Path,
    *,
    limit: float = 120,
    samples: int = 2,
    most: int = 99,
    ways: Sequence[str] = WAYS,
) -> Taken:
    """Return up to `most` turns: way, context, sample, and the permitted seconds."""
    turns: Taken = []

    def ask(order: Order, seconds: float) -> dict[str, Any]:
        turns.append((order.way, order.context, order.case.sample, seconds))
        return paced(order, seconds)

    list(
        zip(range(most), take(TABLE, ORDER, Extent(ways, samples, limit), file, ask), strict=False),
    )
    return turns


SAMPLES = [make_case(place, "short").sample for place in range(2)]


@pytest.mark.parametrize("stopped_after", range(13))
def test_the_same_command_resumes_a_bench_stopped_anywhere(
    stopped_after: int, tmp_path: Path
) -> None:
    """Of twelve turns none is repeated, and both parts equal a complete bench."""
    whole = taken(tmp_path / "whole.jsonl")
    before = taken(tmp_path / "bench.jsonl", most=stopped_after)
    assert before + taken(tmp_path / "bench.jsonl") == whole
    assert read(tmp_path / "bench.jsonl") == read(tmp_path / "whole.jsonl")


def bench(file: Path) -> list[str]:
    ways = ["--way", "ours", "--way", "prefill"]
    return [
        *BENCH,
        "--judge",
        "lexical",
        "--samples",
        "1",
        *ways,
        "--threads",
        "1",
        "--json",
        str(file),
    ]


def test_a_bench_prints_each_turn_and_a_table_and_asks_nothing_twice(tmp_path: Path) -> None:
    """Two ways with two lengths take four turns; a repeat takes none; --table prints the same."""
    file = tmp_path / "bench.jsonl"
    first, second, table = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in (bench(file), bench(file), [*BENCH, "--table", str(file)])
    )
    assert [line.split(": ")[1] for line in first.splitlines()[:4]] == ["ours", "prefill"] * 2
    assert "".join(first.splitlines(keepends=True)[4:]) == second == table
    assert "| ours, seconds a verdict |" in table
    assert [(row.verdicts, row.prompt_tokens > 0) for row in read(file)] == [(4, True)] * 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_bench_keeps_its_results_and_leaves_no_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Stopped while a server starts: the previous turn is kept, and the server ends."""
    file = tmp_path / "bench.jsonl"
    started = tmp_path / "started"
    server = tmp_path / "llama-server"
    version = '[ "$1" = --version ] && echo "version: 1" && exit'
    server.write_text(
        textwrap.dedent(f"""\
            #!/bin/sh
            {version}
            echo $$ > {started}.part && mv {started}.part {started} && exec sleep 600
            """)
    )
    server.chmod(0o755)
    environment = {**os.environ, "LOCALJUDGE_LLAMA_SERVER": str(server)}
    command = [*bench(file), "--way", "llama-server"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    )
    _wait_until(started.exists)
    process.send_signal(number)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 128 + number)
    assert [row.way for row in read(file)] == ["ours", "prefill"]
    if number != signal.SIGKILL:
        assert "| ours, seconds a verdict |" in printed
        assert "the same command resumes" in errors
    _wait_until(lambda: _is_gone(int(started.read_text())))


def _wait_until(so: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def _is_gone(number: int) -> bool:
    try:
        return (Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()[
            0
        ] == "Z"
    except FileNotFoundError:
        return True
