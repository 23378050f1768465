"""`localjudge doctor`, stopped and given again: what the judge has answered is not asked again."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# The command, which waits to be stopped once it has kept so many answers more.
PAUSED_COMMAND = """
import sys, time
from localjudge.cli.main import main
from localjudge.doctor.kept_answers import KeptAnswers

left = int(sys.argv[1])
keep = KeptAnswers._keep

def keep_and_wait(*arguments):
    global left
    keep(*arguments)
    left -= 1
    while left == 0:
        time.sleep(0.01)

KeptAnswers._keep = keep_and_wait
main(sys.argv[2:])
"""
COMMAND = ("doctor", "--threads", "1", "--injections", "216", "--probes", "24", "--json")
PLAIN, PROBED, INJECTED, AGAIN = 16, 24 + 16, 7 + 216, 12
HINT = ["localjudge: interrupted", "  hint: run the same command again to go on"]
MOVING = {"memory", "model memory", "speed"}
"""Findings that are others each time."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of its own."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path))
    return tmp_path


def files(home: Path) -> list[Path]:
    return list((home / "doctor").glob("*"))


def kept(home: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files(home))


def stopped(home: Path, after: int, sent: signal.Signals) -> tuple[int, str]:
    """Exit code and errors of the command, stopped when it has kept so many answers more."""
    enough = kept(home) + after
    program = [sys.executable, "-c", PAUSED_COMMAND, str(after), *COMMAND]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while kept(home) < enough and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(sent)
    output, errors = process.communicate()
    assert output == ""
    return process.returncode, errors


def finished() -> tuple[dict[str, Any], str]:
    """The findings by their names, and what was told."""
    done = subprocess.run([sys.executable, "-m", "localjudge", *COMMAND], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}, done.stderr


def test_interrupted_terminated_and_given_again(home: Path) -> None:
    """Stopped with 20 and with 120 answers of 16 plain cases, 40 on two passages and 223 injections; then to the end.

    What is asked then are the 12 that are always asked again and at most the 279 - 120 that are left (some attempts
    make the same prompt, because the reference judge is not shown the question); the speed is theirs. The findings are
    those of a check that nobody disturbed, which asks all 279, and nothing is left behind.
    """
    for more, sent in ((20, signal.SIGINT), (100, signal.SIGTERM)):
        code, errors = stopped(home, more, sent)
        assert (code, errors.splitlines()[-2:]) == (4, HINT)
    (file,) = files(home)
    assert (kept(home), file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (120, 0o600, 0o700)
    different = {json.loads(line)["key"] for line in file.read_bytes().splitlines() if line}
    again, told = finished()
    assert told.splitlines()[0] == f"going on: {len(different)} answers of an interrupted check"
    assert AGAIN < again["speed"]["figures"]["verdicts"] <= AGAIN + PLAIN + PROBED + INJECTED - 120
    assert again["speed"]["figures"]["tokens_per_second"] > 0
    assert not files(home)
    undisturbed, told = finished()
    assert "going on" not in told
    assert undisturbed["speed"]["figures"]["verdicts"] == PLAIN + PROBED + INJECTED
    assert {name: again[name] for name in again.keys() - MOVING} == {
        name: undisturbed[name] for name in undisturbed.keys() - MOVING
    }
