"""What a script can rely on: exit codes, and what goes to which stream."""

import errno
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest

from localjudge.cli import main as command_line
from localjudge.errors import InputError, OutOfResource
from tests.cli.conftest import suite_here

pytestmark = pytest.mark.engine

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
    (judge,) = [line for line in errors.splitlines() if line.startswith("judge reference: lexical")]
    assert "not what they mean; name a larger model with --judge (sha256" in judge
    assert len(textwrap.wrap(judge, 80)) == 2


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
        (["run", "data.jsonl", "--map", "reference"], "is not FIELD=COLUMN"),
        (["run", "data.jsonl", "--map", "reference=a", "--map", "reference=b"], "mapped twice"),
        (["run", "data.jsonl", "--threshold", "2"], "--threshold must be at most 1, got 2"),
        (["doctor", "--threads", "0"], "--threads must be at least 1, got 0"),
        (["run", "data.jsonl", "--threshold", "0,5"], "'0,5' is not a valid float"),
        (["run", "data.jsonl", "--no-such-option"], "No such option"),
        (["no-such-command"], "No such command"),
        (["run", "data.jsonl", "--out", "data.jsonl"], "data.jsonl cannot be written: File exists"),
        (["show", "."], "holds no run"),
        (["show", "data.jsonl"], "data.jsonl is a file, not the directory of a run"),
        (["export", ".", "--format", "csv"], "holds no run"),
        (["doctor", "--sentences", "missing.txt"], "'missing.txt': No such file or directory"),
        (["run", "data.jsonl", "--judge", "a.gguf", "--judge", "b.gguf"], "--judge was given twice"),
        (["run", "--rescore", "x", "data.jsonl"], "--rescore brings its own data"),
        (["run", "--rescore", "x", "--dry-run"], "--dry-run is about data"),
        (["run", "--rescore", "x"], "x holds no run"),
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
    """A sentence of 30,000 words does not fit a context of 512 tokens. One may fail if that is allowed."""
    suite_here(n_ctx=512)
    long = {**ROWS[0], "id": "c", "reference": "word " * 30_000}
    Path(data).write_text("\n".join(map(json.dumps, [*ROWS, long])))
    arguments = ["run", data, "--metrics", "context_recall", "--quiet"]
    assert exit_code(*arguments) == 2
    assert "context_recall: 1 failed, more than allowed" in capfd.readouterr().out
    suite_here(n_ctx=512, max_failed=1)
    assert exit_code(*arguments) == 0
    assert "context_recall: 1 failed; it is from" in capfd.readouterr().out


def test_2_when_a_metric_of_another_package_raises(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run goes on, says once why, and scores the other metrics; each row has the reason with its place."""
    source = (
        "name, version, required_fields = 'theirs', 1, frozenset()\ndef steps(sample, sentences):\n    yield 1 / 0\n"
    )
    (tmp_path / "their_metrics.py").write_text(source)
    info = tmp_path / "their_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[localjudge.metrics]\ntheirs = their_metrics\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert exit_code("run", data, "--metrics", "context_recall,theirs", "--out", "out") == 2
    reason = "ZeroDivisionError: division by zero (their_metrics.py:3)"
    assert f"theirs failed on every sample: {reason}\n" in capfd.readouterr().err
    scores = [json.loads(line) for line in Path("out/scores.jsonl").read_text().splitlines()]
    found = [(row["sample_id"], row["metric"], row["status"], row["detail"]) for row in scores]
    assert found == [
        ("a", "context_recall", "scored", None),
        ("a", "theirs", "failed", reason),
        ("b", "context_recall", "undefined", "reference is null"),
        ("b", "theirs", "failed", reason),
    ]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("wrong", hint="do right"), 1, "localjudge: wrong\n  hint: do right\n"),
        (OutOfResource("full"), 4, "localjudge: full\n"),
        (MemoryError(), 4, "localjudge: out of memory\n"),
        (KeyboardInterrupt(), 4, "localjudge: interrupted\n"),
        (InputError("a \x1b[2J in it"), 1, "localjudge: a \\x1b[2J in it\n"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), 1, "localjudge: a.txt: Permission denied\n"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), 4, "localjudge: a.txt: No space left on device\n"),
    ],
)
def test_errors_have_their_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, code: int, message: str
) -> None:
    fail_with(monkeypatch, error)
    assert exit_code("run") == code
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["run"], "run the same command again to go on"),
        (["run", "--dry-run"], "run the same command again: it begins anew"),
        (["doctor"], "run the same command again: it begins anew"),
        (["verify", "run"], "run the same command again: it begins anew"),
    ],
)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_only_a_run_promises_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str], hint: str, error: Any
) -> None:
    """They keep answers; the others keep nothing."""
    fail_with(monkeypatch, error)
    assert exit_code(*arguments) == 4
    assert capfd.readouterr().err.endswith(f"{hint}\n")


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Every command raises the error, whatever it is given."""

    def fail(**_options: Any) -> None:
        raise error

    parameters = [click.Argument(["rest"], nargs=-1), click.Option(["--dry-run"], is_flag=True)]
    command = click.Command("run", callback=fail, params=list[click.Parameter](parameters))
    monkeypatch.setattr(command_line.command_line, "get_command", lambda *_: command)


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        command_line.main(["run"])


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    """As `... | head -1`: no traceback, and nothing that stops a script under `set -o pipefail`."""
    text = tmp_path / "text.txt"
    text.write_text("One sentence. " * 20_000)
    command = f"{sys.executable} -m localjudge doctor --json --sentences {text} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missed_gate_is_missed_whoever_reads_the_output(tmp_path: Path) -> None:
    """The reader has gone before anything is printed: `true` reads nothing."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"reference": "Mars is red.", "retrieved_contexts": ["The king lives."]}')
    run = f"run {rows} --out {tmp_path / 'run'} --quiet --gate 'context_recall>=0.9'"
    command = f"{sys.executable} -m localjudge {run} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
