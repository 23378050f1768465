"""What goes wrong around a command: a full output, a directory that others can read."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine

DEMO = str(Path(__file__).parent.parent.parent / "localjudge" / "dataset" / "demo.jsonl")


def localjudge(
    *arguments: str, cwd: Path, stdout: str | None = None, **options: Any
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "localjudge", *arguments]
    if stdout is None:
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)
    with open(stdout, "w", encoding="utf-8") as output:
        return subprocess.run(command, cwd=cwd, stdout=output, stderr=subprocess.PIPE, text=True, check=False)


def test_a_full_output_is_said_and_is_no_usage_error(tmp_path: Path) -> None:
    """Everything was judged: exit 4, no traceback."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    done = localjudge("run", DEMO, "--out", "run", "--quiet", cwd=tmp_path, stdout="/dev/full")
    assert done.returncode == 4
    assert "the output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run" / "summary.json").is_file()


def test_files_of_a_run_are_private_in_a_directory_that_was_there(tmp_path: Path) -> None:
    """They hold the user's text."""
    (tmp_path / "run").mkdir(mode=0o755)
    done = localjudge("run", DEMO, "--out", "run", "--metrics", "context_recall", "--quiet", cwd=tmp_path)
    assert done.returncode == 0
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "run").iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_every_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """A run, its reports and exports, a sheet, a calibration, and what is remembered."""
    labels = [
        {"context": f"Tower {n} is old.", "statement": text, "label": label}
        for n in range(6)
        for text, label in ((f"Tower {n} is old.", 1), ("A ship sank.", 0))
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
    (tmp_path / "labels.jsonl").chmod(0o600)
    run = ("run", DEMO, "--out", "run", "--metrics", "context_recall", "--gate", "context_recall>=0", "--quiet")
    (tmp_path / "localjudge.toml").write_text("cache = true\nreport = true\n")
    (tmp_path / "localjudge.toml").chmod(0o600)
    for arguments in (
        (*run, "--junit", "gates.xml", "--markdown", "summary.md"),
        ("export", "run", "--format", "ragas-csv", "--out", "ragas.csv"),
        ("redact", "run", "--out", "redacted.jsonl"),
        ("label", "run", "--n", "2", "--out", "sheet.csv"),
        ("calibrate", "labels.jsonl", "--out", "asked", "--quiet"),
    ):
        environment = {**os.environ, "LOCALJUDGE_HOME": str(tmp_path / "home")}
        done = localjudge(*arguments, cwd=tmp_path, umask=0, env=environment)
        assert done.returncode == 0, done.stderr
    modes = {str(file): stat.S_IMODE(file.stat().st_mode) for file in tmp_path.rglob("*") if file.is_file()}
    assert {"gates.xml", "summary.md", "ragas.csv", "sheet.csv", "redacted.jsonl", "salt.key"} <= {
        Path(name).name for name in modes
    }
    assert set(modes.values()) == {0o600}, modes
