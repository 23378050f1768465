import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from localjudge import InputError, OutOfResource, evaluate
from localjudge.cli.main import command_line, main
from tests.cli.conftest import Call, config_here, write_rows

pytestmark = pytest.mark.engine

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Where?",
        "retrieved_contexts": ["It rains."],
        "reference": "It rains. It is red.",
    },
    {
        "id": "b",
        "user_input": "?",
        "retrieved_contexts": ["Nothing.", "At all."],
        "reference": None,
    },
]


@pytest.fixture
def data() -> str:
    write_rows("data.jsonl", *ROWS)
    return "data.jsonl"


def test_0_when_all_is_scored_or_undefined(data: str, call: Call) -> None:
    """The table goes to standard output; notes on data and judge go to standard error."""
    code, output, errors = call("run", data)
    assert code == 0
    assert "context_recall" in output
    assert "judge lexical (" in output
    assert "2 samples with id, user_input, retrieved_contexts, reference" in errors
    assert [line for line in errors.splitlines() if line.startswith("judge lexical: it sees")]


def test_json_prints_only_the_summary(data: str, call: Call) -> None:
    printed = json.loads(call("run", data, "--json", "--out", "out")[1])
    assert printed.pop("run") == "out"
    assert [group["reason"] for group in printed.pop("missing_scores")] == ["reference is null"]
    pooled = [metric.pop("pooled") for metric in printed["metrics"].values()]
    assert [(share["share"], share["units"]) for share in pooled] == [(0.5, 2)]
    [places] = [metric.pop("evidence_places") for metric in printed["metrics"].values()]
    assert (places["metric"], places["statements"]) == ("context_recall", 2)
    assert printed == json.loads(Path("out/summary.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--demo", "data.jsonl"], "--demo brings"),
        (["run", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["run", "data.jsonl", "--judge", "no-such-judge"], "no-such-judge"),
        (["run", "data.jsonl", "--map", "reference"], "is not FIELD=COLUMN"),
        (["run", "data.jsonl", "--threshold", "2"], "--threshold must be at most 1"),
        (["run", "data.jsonl", "--threshold", "0,5"], "'0,5' is not a number: use a decimal point"),
        (["run", "data.jsonl", "--no-such-option"], "No such option"),
        (["no-such-command"], "No such command"),
        (["run", "data.jsonl", "--out", "data.jsonl"], "data.jsonl is a file"),
        (["show", "."], "contains no run"),
        (["show", "data.jsonl"], "data.jsonl is a file"),
        (["doctor", "--judge", "a.gguf", "--judge", "b.gguf"], "--judge was given twice"),
        (["run", "--reuse", "x"], "x contains no run"),
        (["run"], "no data file"),
    ],
)
def test_1_for_usage_and_input_errors_without_a_traceback(
    data: str, call: Call, arguments: list[str], message: str
) -> None:
    code, output, errors = call(*arguments)
    assert message in errors
    assert (code, output, "Traceback" in errors, Path("runs").exists()) == (1, "", False, False)


def test_2_when_samples_failed(data: str, call: Call) -> None:
    """A sentence of 30,000 words exceeds the context of 512 tokens."""
    config_here(n_ctx=512)
    long = {**ROWS[0], "id": "c", "reference": "word " * 30_000}
    write_rows(data, *ROWS, long)
    arguments = ["run", data, "--metrics", "context_recall", "--quiet"]
    code, output, _ = call(*arguments)
    assert (code, "context_recall: 1 failed, more than allowed" in output) == (2, True)
    config_here(n_ctx=512, max_failed=1)
    code, output, _ = call(*arguments)
    assert (code, "context_recall: 1 failed; " in output) == (0, True)


def test_2_when_a_metric_of_another_package_raises(
    data: str, folder: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """The run scores the other metrics; each row has the reason with its location."""
    header = "name, version, required_fields = 'theirs', 1, frozenset()"
    Path("their_metrics.py").write_text(
        f"{header}\ndef steps(sample, sentences):\n    yield 1 / 0\n"
    )
    info = Path("their_metrics-1.0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[localjudge.metrics]\ntheirs = their_metrics\n")
    monkeypatch.syspath_prepend(str(folder))
    code, _, errors = call("run", data, "--metrics", "context_recall,theirs", "--out", "out")
    reason = "ZeroDivisionError: division by zero (their_metrics.py:3)"
    assert (code, f"every sample: {reason}\n" in errors) == (2, True)
    scores = [json.loads(line) for line in Path("out/scores.jsonl").read_text().splitlines()]
    assert [(row["sample_id"], row["metric"], row["status"], row["detail"]) for row in scores] == [
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
        (
            PermissionError(errno.EACCES, "Permission denied", "a.txt"),
            1,
            "localjudge: a.txt: Permission denied\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.txt"),
            4,
            "localjudge: a.txt: No space left on device\n",
        ),
    ],
)
def test_errors_have_their_exit_codes(
    monkeypatch: pytest.MonkeyPatch, call: Call, error: BaseException, code: int, message: str
) -> None:
    fail_with(monkeypatch, error)
    ended, _, errors = call("run")
    assert (ended, message in errors) == (code, True)


def test_an_unexpected_error_of_the_system_shows_its_place(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """Files named by users are checked before, so this is a defect, which a report must locate."""
    fail_with(monkeypatch, PermissionError(errno.EACCES, "Permission denied", "a.txt"))
    assert "Traceback" in call("run")[2]
    for error in (OSError(errno.ENOSPC, "No space left on device", "a.txt"), InputError("wrong")):
        fail_with(monkeypatch, error)
        assert "Traceback" not in call("run")[2]


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "--dry-run"], ["doctor"], ["verify", "run"]]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_only_a_run_says_that_it_can_resume(
    monkeypatch: pytest.MonkeyPatch, call: Call, arguments: list[str], error: Any
) -> None:
    hint = "again to resume" if arguments[0] == "run" else "again; it starts over"
    fail_with(monkeypatch, error)
    code, _, errors = call(*arguments)
    assert (code, errors.endswith(f"run the same command {hint}\n")) == (4, True)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:

    def fail(**_options: Any) -> None:
        raise error

    parameters = [click.Argument(["rest"], nargs=-1), click.Option(["--dry-run"], is_flag=True)]
    command = click.Command("run", callback=fail, params=list[click.Parameter](parameters))
    monkeypatch.setattr(command_line, "get_command", lambda *_: command)


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["run"])


@pytest.mark.parametrize(
    ("arguments", "reader", "code"),
    [
        ("show long 1 --json", "head -1", 0),
        ("run data.jsonl --out run --quiet --gate 'context_recall>=0.9'", "true", 3),
    ],
)
def test_a_closed_pipe_is_no_error_and_keeps_the_exit_code(
    data: str, arguments: str, reader: str, code: int
) -> None:
    """`set -o pipefail` must not stop the script; `true` exits before any output."""
    long = {"response": "It rains [1]. " * 20_000, "retrieved_contexts": ["It rains."]}
    evaluate([long], metrics="citation_validity", out="long")
    command = f"{sys.executable} -m localjudge {arguments} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(
    "command",
    ["show NAME", "compare NAME NAME", "verify NAME", "calibrate NAME", "label NAME"],
)
def test_a_name_too_long_for_a_file_is_no_defect(call: Call, command: str) -> None:
    code, output, errors = call(*command.replace("NAME", 300 * "a").split())
    assert (code, output) == (1, "")
    assert "too long" in errors
    assert "Traceback" not in errors
