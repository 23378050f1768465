"""The bench keeps what it has, goes on where it stopped, and no way holds up the others."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from benchmark import measuring
from benchmark.cases import CONTEXTS, MOST, case
from benchmark.joint_question import verdicts_in
from benchmark.measurements import Measured, Measurement, append, read, time_for
from benchmark.measuring import Ended, Extent, Judge, measure, turns
from benchmark.order import Order, Wording, gbnf
from benchmark.ours import legal_answers

from localjudge.judge import profile as grammars

ROOT = Path(__file__).resolve().parents[2]
ON = Measured("house", "ab" * 32, 94, 2, 8192, "localjudge 1")
ORDER = Order("", "house", "house.gguf", 2, 8192)
WAYS = ("ours", "prefill", "joint")
PACE = {"ours": 2.0, "prefill": 1.5, "joint": 30.0}
"""Seconds for a sample, of a machine that is made up."""
RAW_PREFILL = "raw prefill of the tokens that ours evaluates"


def measured(way: str = "ours", sample: str = "a", seconds: float = 10.0, **more: object) -> Measurement:
    given = {"outcome": "done", "asked": 4, "verdicts": 4, "prompt_tokens": 300, "context": "short", **more}
    return Measurement(**asdict(ON), way=way, sample=sample, seconds=seconds, **given)  # type: ignore[arg-type]


def judge(samples: int) -> Judge:
    return Judge(
        ON, ORDER, {f"{context}/{place}": Wording(["?"], 300) for context in CONTEXTS for place in range(samples)}
    )


def paced(order: Order, seconds: float) -> Ended:
    """Takes as long as its way does, and is killed if that is longer than it may."""
    if PACE[order.way] > seconds:
        return Ended("not done", {})
    return Ended("done", {"seconds": PACE[order.way], "verdicts": 4, "evaluated": 500, "generated": 9, "peak_mib": 300})


def taken(extent: Extent, file: Path, most: int = 1_000) -> list[tuple[str, str, int, float]]:
    """The turns that are taken, at most so many: way, context, place, and the seconds that each is given."""
    found = []
    for turn, _ in zip(turns(judge(extent.samples), extent, file), range(most), strict=False):
        measure(judge(extent.samples), turn, file, paced)
        found.append((turn.order.way, turn.order.context, turn.order.place, turn.seconds))
    return found


def extent(samples: int = 2, limit: float = 120, ways: Sequence[str] = WAYS) -> Extent:
    return Extent(ways, samples, limit, 2, None, "")


def test_the_ways_take_turns_sample_by_sample(tmp_path: Path) -> None:
    """All ways on a sample's short context, then on its long one, then the next sample."""
    found = [turn[:3] for turn in taken(extent(), tmp_path / "bench.jsonl")]
    assert found == [(way, context, place) for place in (0, 1) for context in ("short", "long") for way in WAYS]


def test_raw_prefill_is_told_how_many_tokens_ours_evaluated(tmp_path: Path) -> None:
    """And has no turn where ours has brought none."""
    file = tmp_path / "bench.jsonl"
    for turn in turns(judge(1), extent(1), file):
        assert turn.order.tokens == (500 if turn.order.way == "prefill" else 0)
        measure(judge(1), turn, file, paced)
    assert not taken(extent(1, ways=("prefill",)), tmp_path / "another.jsonl")


@pytest.mark.parametrize("stopped_after", range(13))
def test_the_same_command_goes_on_wherever_it_was_stopped(stopped_after: int, tmp_path: Path) -> None:
    """Twelve turns: those that were taken are not taken again, and both together are those of a whole bench."""
    whole = taken(extent(), tmp_path / "whole.jsonl")
    before = taken(extent(), tmp_path / "bench.jsonl", stopped_after)
    assert before + taken(extent(), tmp_path / "bench.jsonl") == whole
    assert read(tmp_path / "bench.jsonl") == read(tmp_path / "whole.jsonl")


def test_a_line_that_a_kill_cut_off_spoils_no_other(tmp_path: Path) -> None:
    file = tmp_path / "bench.jsonl"
    append(file, measured(sample="a"))
    whole = file.read_bytes()
    for end in range(1, len(whole)):
        file.write_bytes(whole[:end])
        assert read(file) == []
        append(file, measured(sample="b"))
        assert read(file) == [measured(sample="b")]


def test_lines_that_are_none_of_ours_count_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "bench.jsonl"
    file.write_bytes(b'[1]\n{}\nnull\n"text"\n{"judge": "a"}\n\xff\xfe\n')
    assert read(file) == []
    assert read(tmp_path / "none.jsonl") == []


def test_another_model_or_setting_in_the_file_is_not_taken_for_this_one(tmp_path: Path) -> None:
    file = tmp_path / "bench.jsonl"
    for other in ({"sha256": "cd" * 32}, {"threads": 1}, {"n_ctx": 4096}, {"build": "localjudge 2"}):
        append(file, replace(measured(sample=case(0, "short").sample), **other))
    assert len(taken(extent(1), file)) == 6


def test_a_way_gets_what_its_samples_before_have_left() -> None:
    """120 s, of which two samples took 70 + 30: 20 are left for the third, and none where it is already done."""
    there = [measured(sample="a", seconds=70), measured(sample="b", seconds=30)]
    assert time_for("c", there, 120) == pytest.approx(20)
    assert time_for("a", there, 120) == 0
    assert time_for("c", there, 100) == 0


def test_what_never_ends_is_tried_once_and_again_only_with_more_time(tmp_path: Path) -> None:
    """The joint way needs 30 s: with 20 it has one turn for two samples of a length of context; then 50 are given."""
    file = tmp_path / "bench.jsonl"
    first = [turn for turn in taken(extent(limit=20), file) if turn[0] == "joint"]
    assert first == [("joint", "short", 0, 20), ("joint", "long", 0, 20)]
    assert taken(extent(limit=20), file) == []
    again = taken(extent(limit=50), file)
    # The first sample takes 30 of 50; the second is given the rest, and does not get done.
    assert again == [("joint", context, place, left) for place, left in ((0, 50), (1, 20)) for context in CONTEXTS]


def test_what_failed_is_asked_again() -> None:
    assert time_for("a", [measured(outcome="failed", seconds=120)], 120) == 120


def test_an_answer_is_worth_the_verdicts_that_it_holds() -> None:
    """Of four that were asked for: two entries are two, six are no more than four; what was cut off is none."""
    entry = {"statement": "It is.", "reason": "So.", "attributed": 1}
    for given, expected in ((2, 2), (6, 4), (0, 0)):
        assert verdicts_in(json.dumps({"classifications": [entry] * given}), 4) == expected
    assert verdicts_in(json.dumps({"classifications": [entry]})[:-1], 4) == 0
    for odd in ("", "[]", "null", '{"classifications": null}', '{"classifications": [1, {"attributed": 2}, {}]}'):
        assert verdicts_in(odd, 4) == 0


def test_a_completion_is_held_to_the_answers_of_ours() -> None:
    assert legal_answers(grammars.load_grammar("attributed")) == ['{"attributed":0}', '{"attributed":1}']
    assert legal_answers(grammars.load_grammar("reason_attributed")) == []
    assert gbnf(['{"attributed":0}', "a\\\nb"]) == r'root ::= "{\"attributed\":0}" | "a\\\nb"'
    with pytest.raises(ValueError, match="cannot be listed"):
        gbnf([])


@pytest.mark.parametrize("place", [0, 7, MOST - 1])
def test_long_and_short_differ_in_the_contexts_alone(place: int) -> None:
    """Four statements each; the passage is the last of sixteen different ones."""
    short, long = case(place, "short"), case(place, "long")
    assert short.statements == long.statements
    assert len(set(short.statements)) == 4
    assert len(set(long.passages)) == 16
    assert short.passages == long.passages[-1:]


def bench(file: Path, *more: str) -> list[str]:
    script = [sys.executable, str(ROOT / "scripts" / "bench"), "--judge", "reference", "--samples", "1"]
    return [*script, "--way", "ours", "--way", "prefill", "--threads", "1", "--json", str(file), *more]


def test_a_bench_prints_each_turn_and_a_table_and_asks_nothing_twice(tmp_path: Path) -> None:
    """Two ways on two lengths of context: four turns; the second time none, and the same table."""
    first, second = (
        subprocess.run(bench(tmp_path / "bench.jsonl"), capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    turns_printed, heading, table = first.partition("| |")
    assert [line.split(": ")[1] for line in turns_printed.splitlines()] == ["ours", RAW_PREFILL] * 2
    assert second == heading + table
    assert "| ours, seconds a verdict |" in table
    assert len(read(tmp_path / "bench.jsonl")) == 4


@pytest.mark.parametrize("with_what", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_bench_that_is_stopped_leaves_what_it_has_and_no_process(with_what: signal.Signals, tmp_path: Path) -> None:
    """It is stopped while a server starts that never gets ready: the turn before is kept, and the server is gone."""
    file, started, server = tmp_path / "bench.jsonl", tmp_path / "started", tmp_path / "llama-server"
    version = '[ "$1" = --version ] && echo "version: 1" && exit'
    server.write_text(
        f"#!/bin/sh\n{version}\necho $$ > {started}.part && mv {started}.part {started} && exec sleep 600\n"
    )
    server.chmod(0o755)
    environment = {**os.environ, "LOCALJUDGE_LLAMA_SERVER": str(server)}
    command = [*bench(file), "--way", "llama-server"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    _wait_until(started.exists)
    process.send_signal(with_what)
    printed, told = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if with_what == signal.SIGKILL else 128 + with_what)
    assert [one.way for one in read(file)] == ["ours", "prefill"]
    if with_what != signal.SIGKILL:
        assert "| ours, seconds a verdict |" in printed
        assert "the same command goes on" in told
    _wait_until(lambda: _is_gone(int(started.read_text())))


def _wait_until(so: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def _is_gone(number: int) -> bool:
    """No such process, or one that only waits to be counted."""
    try:
        return (Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_process_that_dies_or_hangs_is_a_row_and_not_the_end(tmp_path: Path) -> None:
    """A file that is no model: the process says why. Time that is up: it is killed."""
    file = tmp_path / "none.gguf"
    file.write_bytes(b"GGUF")
    ended = measuring.asked(replace(ORDER, way="ours", judge=str(file)), 60)
    assert ended.outcome == "failed"
    assert str(file) in ended.why
    hurried = measuring.asked(replace(ORDER, way="ours", judge="reference", context="long"), 1e-6)
    assert (hurried.outcome, hurried.report) == ("not done", {})


def test_what_cannot_be_asked_for_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "bench")]
    for wrong in ([], ["--judge", "a", "--table", "b"], ["--judge", "a", "--samples", "0"], ["--table", "none.jsonl"]):
        done = subprocess.run([*script, *wrong], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
    unknown = subprocess.run([*script, "--judge", "no-such"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "no judge is called 'no-such'" in unknown.stderr
    assert "Traceback" not in unknown.stderr
