"""`localjudge label`, and what `show` and `report` make of its labels: sheets, keys in a terminal, two people."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run
from tests.cli.conftest import Call, write_rows
from tests.conftest import ScriptedRun

ROWS: list[dict[str, Any]] = [
    {"id": f"s{n}", "user_input": f"What of {n}?", "reference": f"Fact {n}.", "retrieved_contexts": [f"It is {n}."]}
    for n in range(12)
]
SCRIPT = {f"Fact {n}.": 0.9 if n % 3 else 0.2 for n in range(12)}


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    """Twelve samples of one sentence, in `run` below the working directory."""
    return scripted_run("run", ROWS, SCRIPT, metrics=["context_recall"])


def pressed(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO(keys))


def humans(path: Path) -> list[int | None]:
    return [json.loads(line)["human"] for line in path.read_text().splitlines()]


def fill(call: Call, run: str, labels: dict[str, int], target: str = "l.jsonl") -> None:
    """A sheet of the run with labels by text, 1 for all others."""
    call("label", run, "--out", "s.jsonl")
    rows = [json.loads(line) for line in Path("s.jsonl").read_text().splitlines()]
    write_rows(target, *({**row, "human": labels.get(row["text"], 1)} for row in rows))


def test_a_sheet_is_written_and_never_written_over(run: Run, call: Call) -> None:
    code, output, _ = call("label", "run", "--n", "5", "--out", "sheet.csv")
    assert (code, output) == (0, "5 verdicts to label in sheet.csv: write 1 or 0 into the column human\n")
    assert call("label", "run", "--n", "5", "--out", "more.jsonl", "--json")[1] == (
        '{\n  "file": "more.jsonl",\n  "rows": 5\n}\n'
    )
    code, _, errors = call("label", "run", "--out", "sheet.csv")
    assert (code, "is there already" in errors, "--out" in errors) == (1, True, True)


def test_keys_of_a_pipe_label_and_the_same_command_goes_on(
    run: Run, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, 0, a key that is none, skip, undo the skip, 1; then the pipe ends."""
    pressed(monkeypatch, "1\n0 x s u 1")
    code, output, _ = call("label", "run", "--n", "5", "--terminal")
    assert code == 0
    assert humans(Path("labels-run.jsonl")) == [1, 0, 1, None, None]
    assert "3 of 5 labelled, in labels-run.jsonl" in output
    assert "2 are left: the same command goes on" in output
    assert "then: localjudge show run --labels labels-run.jsonl" in output
    pressed(monkeypatch, "0 0")
    code, output, _ = call("label", "run", "--terminal")
    assert humans(Path("labels-run.jsonl")) == [1, 0, 1, 0, 0]
    assert "3 of 5 labelled   context_recall" in output
    assert "5 of 5 labelled, in labels-run.jsonl" in output
    assert "p_yes" not in output


def test_a_persons_sheet_cannot_act_on_the_terminal(run: Run, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a sheet may hold comes escaped, whatever it is."""
    evil = "\x1b[2J\x1b]0;owned\x07 [bold]\u202e"
    call("label", "run", "--n", "2", "--out", "s.jsonl")
    first, second = Path("s.jsonl").read_text().splitlines()
    row = json.loads(first)
    row |= {"asks": evil, "user_input": [evil], "contexts": [evil, 3, None], "reference": evil, "response": {"a": 1}}
    row |= {"text": evil, "metric": evil, "sample_id": evil}
    Path("s.jsonl").write_text(f"{json.dumps(row)}\n{second}\n")
    pressed(monkeypatch, "1")
    code, output, errors = call("label", "run", "--terminal", "--out", "s.jsonl")
    assert code == 0
    assert not set("\x1b\x07\u202e") & set(output + errors)
    assert "\\x1b[2J" in output
    code, output, errors = call("show", "run", "--labels", "s.jsonl")
    assert code == 1
    assert not set("\x1b\x07\u202e") & set(output + errors)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("label",), "Missing argument 'RUN'"),
        (("label", "none", "--out", "s.csv"), "none holds no run"),
        (("label", "run"), "no terminal to label in"),
        (("label", "run", "--terminal", "--json"), "prints no JSON"),
        (("label", "run", "--terminal", "--out", "s.csv"), "ends in .jsonl"),
        (("label", "run", "--n", "0"), "Invalid value for '--n'"),
        (("label", "run", "--metrics", "context_recal", "--out", "s.csv"), "did you mean context_recall"),
        (("show", "run", "s0", "--labels", "s.csv"), "SAMPLE, --by and --labels are three views"),
        (("show", "run", "--by", "x", "--labels", "s.csv"), "SAMPLE, --by and --labels are three views"),
    ],
)
def test_what_cannot_be_done_is_said(
    run: Run, call: Call, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    pressed(monkeypatch, "")
    code, _, errors = call(*arguments)
    assert (code, said in errors) == (1, True)


def test_corrected_means_stand_beside_the_judges(run: Run, call: Call) -> None:
    """8 of 12 are judged 1; people say 1 of all but two of these: 10/12 all told, by labels of all."""
    fill(call, "run", {"Fact 1.": 0, "Fact 2.": 0})
    code, output, _ = call("show", "run", "--labels", "l.jsonl")
    assert code == 0
    table = [line.split() for line in output.splitlines()]
    assert ["context_recall", "0.667", "0.349", "-", "0.901", "-"] in table
    assert [row[:2] for row in table if row[:1] == ["corrected"]] == [["corrected", "0.833"]]
    assert "12 of 12 verdicts labelled, of 12 samples or groups" in output
    corrected = json.loads(call("show", "run", "--labels", "l.jsonl", "--json")[1])["corrected"]
    assert corrected["metrics"]["context_recall"]["corrected"]["mean"] == pytest.approx(10 / 12)


def test_labels_of_another_run_are_refused(run: Run, scripted_run: ScriptedRun, call: Call) -> None:
    scripted_run("other", ROWS, SCRIPT, metrics=["context_recall"], threshold=0.95)
    fill(call, "other", {"Fact 1.": 0})
    code, output, errors = call("show", "run", "--labels", "l.jsonl")
    assert (code, output) == (1, "")
    assert "12 of 12 labels in l.jsonl are not of the run in run" in errors


@contextmanager
def in_a_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command in a terminal of its own: the process, and what somebody types into."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "localjudge", *arguments]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    try:
        yield process, controller
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def seen(controller: int, words: str) -> str:
    """What the terminal shows until the words are there; fails after a minute."""
    text = ""
    while words not in text:
        ready, _, _ = select.select([controller], [], [], 30)
        assert ready, text
        text += os.read(controller, 65_536).decode()
    return text


@pytest.mark.engine
def test_one_key_is_one_verdict_in_a_real_terminal_and_a_kill_loses_none(run: Run) -> None:
    """No Enter; an arrow and Home, which send digits in what they send, are no verdicts; killed after two labels."""
    with in_a_terminal("label", "run", "--n", "4") as (process, controller):
        seen(controller, "0 of 4 labelled")
        os.write(controller, b"\x1b[1~")
        os.write(controller, b"1")
        seen(controller, "1 of 4 labelled")
        os.write(controller, b"0")
        seen(controller, "2 of 4 labelled")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert humans(Path("labels-run.jsonl")) == [1, 0, None, None]
    with in_a_terminal("label", "run") as (process, controller):
        seen(controller, "2 of 4 labelled")
        os.write(controller, b"u")
        seen(controller, "1 of 4 labelled")
        os.write(controller, b"11q")
        text = seen(controller, "then: localjudge show")
        assert "3 of 4 labelled, in labels-run.jsonl" in text
        assert process.wait(timeout=60) == 0
    assert humans(Path("labels-run.jsonl")) == [1, 1, 1, None]
