"""What a script can rely on: exit codes, and what goes to which stream."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from localjudge.cli import main as command_line
from localjudge.errors import OutOfResource, UsageError

ROOT = Path(__file__).parent.parent.parent
ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Where does it rain?",
        "retrieved_contexts": ["It rains in Rome."],
        "reference": "It rains in Rome. It is red.",
    },
    {"id": "b", "user_input": "?", "retrieved_contexts": ["Nothing."], "reference": None},
]


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        command_line.main(list(arguments))
    code = ended.value.code
    assert isinstance(code, int)
    return int(code)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small file in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return "data.jsonl"


def test_0_when_all_is_scored_or_undefined(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The table is on standard output, what was read and the judge's announcement on standard error."""
    assert exit_code("run", data) == 0
    output, errors = capfd.readouterr()
    assert "context_recall" in output
    assert "signature judge:" in output
    assert "2 samples with id, user_input, retrieved_contexts, reference" in errors
    assert "judge reference: a lexical coverage judge" in errors


def test_quiet_says_nothing_but_the_result(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("run", data, "--quiet") == 0
    assert capfd.readouterr().err == ""


def test_json_prints_the_summary_and_nothing_else(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is what stands in `summary.json`, and where the run is."""
    assert exit_code("run", data, "--json", "--out", "out") == 0
    printed = json.loads(capfd.readouterr().out)
    assert printed.pop("run") == "out"
    assert printed == json.loads(Path("out/summary.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "no data was named"),
        (["run", "--demo", "data.jsonl"], "--demo brings its own data"),
        (["run", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["run", "data.jsonl", "--metrics", "faithfulness"], "faithfulness needs response"),
        (["run", "data.jsonl", "--judge", "no-such-judge"], "no-such-judge"),
        (["run", "data.jsonl", "--map", "reference"], "is not OURS=THEIRS"),
        (["run", "data.jsonl", "--threshold", "2"], "threshold"),
        (["run", "data.jsonl", "--threshold", "high"], "threshold"),
        (["run", "data.jsonl", "--no-such-option"], "No such option"),
        (["no-such-command"], "No such command"),
        (["run", "data.jsonl", "--out", "data.jsonl"], "cannot be written: File exists"),
        (["run", "data.jsonl", "--out", "data.jsonl/run"], "cannot be written: Not a directory"),
        (["show", "."], "holds no run"),
        (["export", ".", "--as", "csv"], "holds no run"),
        (["segment", "missing.txt"], "missing.txt cannot be read"),
        (["segment", "data.jsonl", "--abbreviations", "missing.txt"], "missing.txt cannot be read"),
        (["run", "data.jsonl", "--abbreviations", "missing.txt"], "missing.txt cannot be read"),
        (["run", "data.jsonl", "--abbreviations", "data.jsonl"], "data.jsonl:1: '{"),
        (["run", "data.jsonl", "--abbreviations", "/dev/null"], "/dev/null holds no abbreviation"),
    ],
)
def test_1_for_usage_and_input_errors_without_a_traceback(
    data: str, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Nothing is written."""
    assert exit_code(*arguments) == 1
    output, errors = capfd.readouterr()
    assert message in errors
    assert (output, "Traceback" in errors, Path("runs").exists()) == ("", False, False)


def test_2_when_samples_failed(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A sentence of 30,000 words does not fit a context of 512 tokens. One may fail with --max-failed 1."""
    long = {**ROWS[0], "id": "c", "reference": "word " * 30_000}
    Path(data).write_text("\n".join(map(json.dumps, [*ROWS, long])))
    arguments = ["run", data, "--metrics", "context_recall", "--n-ctx", "512", "--quiet"]
    assert exit_code(*arguments) == 2
    assert "context_recall: 1 failed, more than allowed" in capfd.readouterr().out
    assert exit_code(*arguments, "--max-failed", "1") == 0
    assert "context_recall: 1 failed; it is from" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UsageError("wrong", hint="do right"), 1, "localjudge: wrong\n  hint: do right\n"),
        (OutOfResource("full"), 4, "localjudge: full\n"),
        (MemoryError(), 4, "localjudge: out of memory\n"),
        (KeyboardInterrupt(), 4, "localjudge: interrupted\n"),
        (UsageError("a \x1b[2J in it"), 1, "localjudge: a \\x1b[2J in it\n"),
    ],
)
def test_errors_have_their_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, code: int, message: str
) -> None:
    def fail(**_options: Any) -> None:
        raise error

    monkeypatch.setattr(command_line.command_line, "get_command", returning(click.Command("run", callback=fail)))
    assert exit_code("run") == code
    assert message in capfd.readouterr().err


def returning(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_options: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(command_line.command_line, "get_command", returning(click.Command("run", callback=fail)))
    with pytest.raises(ZeroDivisionError):
        command_line.main(["run"])


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    """`localjudge segment FILE | head -1`: no traceback, the exit code of a broken pipe."""
    text = tmp_path / "text.txt"
    text.write_text("One sentence. " * 20_000)
    command = f"{sys.executable} -m localjudge segment --json {text} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("name", ["run", "show", "compare", "verify", "export", "segment"])
def test_every_command_has_help_and_is_listed_with_its_own_words(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code(name, "--help") == 0
    assert f"Usage: localjudge {name}" in capfd.readouterr().out
    assert exit_code("--help") == 0
    assert f"  {name} " in capfd.readouterr().out


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capfd.readouterr().out.startswith("localjudge 0.")
