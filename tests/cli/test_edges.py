import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import DEMO, Call, config_here, write_rows

pytestmark = pytest.mark.engine


def localjudge(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "localjudge", *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, check=False, **streams)


def test_a_full_output_device_is_exit_code_4() -> None:
    """Everything was judged; there is no traceback."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = localjudge("run", DEMO, "--out", "run", "--quiet", stdout=full)
    assert done.returncode == 4
    assert "output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert Path("run/summary.json").is_file()


def test_every_file_is_private_under_any_umask(tmp_path: Path) -> None:
    """Runs in shared directories, reports, exports, sheets and calibrations."""
    (tmp_path / "run").mkdir(mode=0o755)
    labels = [
        {"context": f"Tower {n} is old.", "statement": text, "label": label}
        for n in range(6)
        for text, label in ((f"Tower {n} is old.", 1), ("A ship sank.", 0))
    ]
    write_rows("labels.jsonl", *labels)
    config_here(report=True)
    run = (
        "run",
        DEMO,
        "--out",
        "run",
        "--metrics",
        "context_recall",
        "--gate",
        "context_recall>=0",
        "--quiet",
    )
    for arguments in (
        (*run, "--junit", "gates.xml", "--markdown", "summary.md"),
        ("export", "run", "--format", "csv", "--out", "scores.csv"),
        ("label", "run", "--sample", "2", "--out", "sheet.csv"),
        ("calibrate", "labels.jsonl", "--out", "asked", "--quiet"),
    ):
        environment = {**os.environ, "LOCALJUDGE_HOME": str(tmp_path / "home")}
        done = localjudge(*arguments, umask=0, env=environment)
        assert done.returncode == 0, done.stderr
    mine = ("labels.jsonl", "localjudge.toml")
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name not in mine]
    modes = {str(file): stat.S_IMODE(file.stat().st_mode) for file in files}
    assert {"gates.xml", "summary.md", "scores.csv", "sheet.csv"} <= {
        Path(name).name for name in modes
    }
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("out", ["taken", "taken/below", "taken/below/deep"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", DEMO, "--quiet"),
        ("run", "pairs.jsonl", "--against", "old", "--map", "response=new", "--quiet"),
        ("start", DEMO),
    ],
    ids=["run", "two answers", "start"],
)
def test_a_directory_with_the_name_of_a_file_is_refused(command: tuple[str, ...], out: str) -> None:
    """The hint was once to make it a writable directory, and start began without any."""
    texts = {"user_input": "Why?", "retrieved_contexts": ["So."], "old": "So.", "new": "No."}
    write_rows("pairs.jsonl", texts)
    Path("taken").write_text("mine")
    done = localjudge(*command, "--out", out, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "taken is a file" in said
    assert "name another" in said
    assert "--out" in said
    assert "writable" not in said
    assert Path("taken").read_text() == "mine"


@pytest.mark.parametrize("out", ["taken/page.html", "taken/below/page.html"])
def test_a_file_in_a_directory_with_the_name_of_a_file_is_refused(out: str) -> None:
    localjudge("run", DEMO, "--out", "run", "--metrics", "context_recall", "--quiet")
    Path("taken").write_text("mine")
    for command in (
        ("report", "run", "--out", out),
        ("report", "run", "--certificate", out),
        ("label", "run", "--page", out),
        ("export", "run", "--format", "csv", "--out", out),
    ):
        done = localjudge(*command)
        assert done.returncode == 1, command
        assert "taken is a file" in " ".join(done.stderr.split()), command


@pytest.mark.parametrize("in_the_way", ["file", "link"])
@pytest.mark.parametrize("out", ["taken", "taken/below/run"])
def test_what_is_in_the_way_is_named_before_a_judge_is_opened(
    call: Call, in_the_way: str, out: str
) -> None:
    if in_the_way == "file":
        Path("taken").touch()
        problem = "taken is a file, not a directory"
    else:
        Path("taken").symlink_to("nowhere")
        problem = "taken is a link to a missing file"
    code, _, errors = call("run", DEMO, "--out", out)
    assert code == 1
    assert errors == f"localjudge: {problem}\n  hint: name another directory with --out\n"


def test_commands_name_a_run_that_begins_like_an_option(call: Call) -> None:
    """`localjudge show -x` was printed, which no shell can run."""
    call("run", DEMO, "--out=-x", "--quiet")
    code, printed, _ = call("show", "./-x", "--worst", "1")
    assert code == 0
    assert "localjudge show ./-x ROW" in printed
    call("report", "./-x", "--out", "page.html")
    assert "<code>localjudge label ./-x</code>" in Path("page.html").read_text()
