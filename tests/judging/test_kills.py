"""A run killed at any moment resumes without loss or repeated questions and leaves the same
files.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from localjudge import ScriptedEngine, evaluate

pytestmark = pytest.mark.engine

FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")

# The engine notes each question, takes a moment for its answer, and waits to be killed after
# `most` questions.
SLOW_RUN = """
import sys, time, localjudge
from localjudge.engine.scripted import unit_text

most = int(sys.argv[4])

def said(request):
    return (sum(map(ord, unit_text(request))) % 97) / 96

class Slow(localjudge.ScriptedEngine):
    def _answer(self, request):
        with open(sys.argv[3], "a", encoding="utf-8") as notes:
            notes.write(unit_text(request).replace("\\n", " ") + "\\n")
        time.sleep(0.004 if len(self.asked) < most else 600)
        return super()._answer(request)

localjudge.evaluate(sys.argv[1], out=sys.argv[2], engine=Slow(said), metrics=["context_recall"])
"""
# The command waits to be stopped after a number of answers.
PAUSED_COMMAND = """
import signal, sys, time
from localjudge.cli.main import main
from localjudge.run_directory.store import Store

# A job in the background inherits that it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
left = int(sys.argv[1])
add_answers = Store.add_answers

def add_and_wait(*arguments):
    global left
    add_answers(*arguments)
    left -= 1
    if left == 0:
        time.sleep(600)

Store.add_answers = add_and_wait
main(sys.argv[2:])
"""
SAMPLES = 25
SENTENCES = 6
NEVER = 1_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 samples of 6 different sentences: 150 questions."""
    file = tmp_path_factory.mktemp("data") / "data.jsonl"
    rows = (
        {
            "id": str(sample),
            "retrieved_contexts": [f"Context {sample}."],
            "reference": " ".join(
                f"Sentence {sample} and {number}." for number in range(SENTENCES)
            ),
        }
        for sample in range(SAMPLES)
    )
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def start(data: Path, out: Path, notes: Path, *, most: int = NEVER) -> subprocess.Popen[bytes]:
    script = data.parent / "slow_run.py"  # `inspect` reads the source of `said` from a file
    script.write_text(SLOW_RUN)
    return subprocess.Popen(
        [sys.executable, str(script), str(data), str(out), str(notes), str(most)]
    )


def answers(out: Path) -> int:
    if not (out / "run.sqlite").exists():
        return 0
    with closing(sqlite3.connect(out / "run.sqlite")) as store:
        try:
            return int(store.execute("SELECT count(*) FROM answer").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # killed before the tables were there


def results(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert start(data, folder / "run", folder / "notes").wait() == 0
    return results(folder / "run")


def test_resume_after_random_kills_gives_identical_files(
    data: Path, uninterrupted: dict[str, bytes], tmp_path: Path
) -> None:
    """SIGKILL once at the start, then after 1 to 60 more questions, until a process finishes.

    At most 20 of 150 questions go to the first process and 80 to the second, so there are at least
    two kills.
    """
    out = tmp_path / "run"
    notes = tmp_path / "notes"
    notes.touch()
    moments = random.Random()
    starting = start(data, out, notes, most=20)
    time.sleep(moments.uniform(0.0, 1.0))
    kills = killed(starting)
    while True:
        more = moments.randint(1, 60)
        enough = questions(notes) + more
        process = start(data, out, notes, most=more + 20)
        while process.poll() is None and questions(notes) < enough:
            time.sleep(moments.uniform(0.0, 0.01))
        if process.poll() is not None:
            break
        kills += killed(process)
        assert questions(notes) - answers(out) <= kills, (
            "a kill loses at most the answer that is on its way"
        )
    assert process.returncode == 0
    assert kills > 1
    assert results(out) == uninterrupted
    asked = notes.read_text().splitlines()
    assert len(set(asked)) == SAMPLES * SENTENCES
    assert len(asked) <= SAMPLES * SENTENCES + kills


def killed(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    process.wait()
    return 1


def questions(notes: Path) -> int:
    return notes.read_bytes().count(b"\n")


@pytest.mark.parametrize("name", FILES)
def test_resume_after_a_kill_while_writing_results(data: Path, tmp_path: Path, name: str) -> None:
    """Half a file under its temporary name, and none of the later files, as after a kill."""
    engine = ScriptedEngine({}, default=0.6)
    evaluate(data, out=tmp_path, engine=engine)
    before = results(tmp_path)
    asked = len(engine.asked)
    for later in FILES[FILES.index(name) :]:
        (tmp_path / later).unlink()
    part = tmp_path / f"{name}.part"
    if name == "summary.json":
        part = tmp_path / f".{name}.abandons.part"
    part.write_bytes(before[name][: len(before[name]) // 2])
    os.utime(part, (0, 0))  # a part is removed when it is old
    evaluate(data, out=tmp_path, engine=engine)
    assert (results(tmp_path), len(engine.asked)) == (before, asked)
    assert not list(tmp_path.glob("*.part"))


def finish(*arguments: str) -> str:
    """Run the command to its end and return its errors."""
    process = started("-m", "localjudge", *arguments)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return errors


def paused(*arguments: str, out: Path, after: int) -> subprocess.Popen[str]:
    answered = answers(out)
    process = started("-c", PAUSED_COMMAND, str(after), *arguments)
    while answers(out) < answered + after and process.poll() is None:
        time.sleep(0.02)
    return process


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def judged(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("judged") / "run"
    finish("run", str(data), "--metrics", "context_recall", "--out", str(out), "--quiet")
    return results(out)


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """Child processes inherit that SIGINT is ignored, as in background jobs of a shell."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("in_the_background")
def test_the_command_resumes_after_kill_interrupt_and_terminate(
    data: Path, judged: dict[str, bytes], tmp_path: Path
) -> None:
    """Killed, interrupted, terminated with 1, 40 and 90 of 150 answers; then finished.

    Ctrl-C and SIGTERM give exit code 4 and explain how to resume.
    """
    out = tmp_path / "run"
    command = ("run", str(data), "--metrics", "context_recall", "--out", str(out))
    for more, sent, code in (
        (1, signal.SIGKILL, -9),
        (39, signal.SIGINT, 4),
        (50, signal.SIGTERM, 4),
    ):
        process = paused(*command, out=out, after=more)
        process.send_signal(sent)
        _, errors = process.communicate()
        assert process.returncode == code, errors
        if code == 4:
            assert errors.endswith(
                "localjudge: interrupted\n  hint: run the same command again to resume\n"
            )
            assert "Traceback" not in errors
    assert answers(out) == 90
    errors = finish(*command)
    assert "resuming: 90 answers already stored" in errors
    assert results(out) == judged
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["environment"]["sessions"][-1]["asked"] == SAMPLES * SENTENCES - 90


def test_a_run_resumes_after_a_full_disk(
    data: Path, tmp_path: Path, judged: dict[str, bytes]
) -> None:
    """With 64 KiB per file the store cannot grow: exit code 4. With more the command finishes."""
    command = (
        "run",
        str(data),
        "--metrics",
        "context_recall",
        "--out",
        str(tmp_path / "run"),
        "--quiet",
    )
    limited = f"ulimit -f 64; exec {sys.executable} -m localjudge {' '.join(command)}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "to resume" in done.stderr
    finish(*command)
    assert results(tmp_path / "run") == judged


def test_a_killed_dry_run_loses_no_answer(
    data: Path, judged: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after 20 answers. The judge's speed is unknown in a new state directory."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    out = tmp_path / "run"
    command = ("run", str(data), "--metrics", "context_recall", "--out", str(out))
    process = paused(*command, "--dry-run", out=out, after=20)
    process.kill()
    process.communicate()
    assert answers(out) == 20
    assert "resuming: 20 answers already stored" in finish(*command, "--dry-run")
    assert answers(out) == 84, "a dry run asks at most 64"
    assert "resuming: 84 answers already stored" in finish(*command)
    assert results(out) == judged
