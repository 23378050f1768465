"""The script that a carried folder is installed by refuses what it cannot install, before it makes anything.

The folders are made up; a real one is installed in `tests/test_wheelhouse.py`.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from carried_in.lock import SUMS, sums_of
from carried_in.needs import read_needs, write_needs

from tests.carried_in.made_up_wheels import wheel

ROOT = Path(__file__).resolve().parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
NEEDS = {
    "system": "Linux",
    "machine": platform.machine(),
    "glibc": "2.5",
    "python": PYTHON,
    "processor": "",
    "judges": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that this machine fulfils all the needs of, in a place with a blank in its name."""
    made = tmp_path / "carried in"
    (made / "wheels").mkdir(parents=True)
    wheel(made / "wheels", "one-1-py3-none-any")
    shutil.copy(ROOT / "scripts" / "carried_in" / "folder" / "install", made)
    write_needs(made, NEEDS)
    sign(made)
    return made


def sign(folder: Path) -> None:
    (folder / SUMS).write_text(sums_of(folder), encoding="utf-8")


STAND_IN = """#!/bin/sh
# Makes the run directory that it is told, which must not be there; waits if it is to be stopped.
while [ $# -gt 0 ]; do
    [ "$1" != --out ] || mkdir "$2" || exit 1
    shift
done
[ -z "${STAND_IN_WAITS:-}" ] || { touch "$STAND_IN_WAITS"; sleep 60; }
"""


def stand_in(folder: Path) -> None:
    """Add a pip to the folder that installs a stand-in for localjudge, so that all of the script runs in a second."""
    write = f"place = pathlib.Path(sys.prefix, 'bin', 'localjudge')\nplace.write_text({STAND_IN!r})\nplace.chmod(0o755)"
    with zipfile.ZipFile(folder / "wheels" / "pip-1-py3-none-any.whl", "w") as archive:
        archive.writestr("pip/__main__.py", f"import pathlib, sys\n{write}\n")
    sign(folder)


def install(
    folder: Path, *arguments: str, path: str = os.environ["PATH"], cwd: Path = Path("/")
) -> "subprocess.CompletedProcess[str]":
    """Run the script from elsewhere; what it says of a refusal is in its standard error."""
    command = ["sh", str(folder / "install"), *arguments]
    return subprocess.run(
        command, env={"PATH": path, "LANG": "de_DE.UTF-8"}, cwd=cwd, capture_output=True, text=True, check=False
    )


def refused(folder: Path, *arguments: str) -> str:
    """Why; and nothing was made."""
    environment = folder.parent / "environment"
    done = install(folder, str(environment), *arguments)
    assert done.returncode == 1
    assert not environment.exists()
    return done.stderr


def test_a_changed_file_is_named(folder: Path) -> None:
    """By one byte, and at the same length."""
    one = folder / "wheels" / "one-1-py3-none-any.whl"
    content = bytearray(one.read_bytes())
    content[40] ^= 1
    one.write_bytes(content)
    assert "changed or missing: wheels/one-1-py3-none-any.whl" in refused(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "wheels" / "one-1-py3-none-any.whl").unlink()
    assert "changed or missing: wheels/one-1-py3-none-any.whl" in refused(folder)


@pytest.mark.parametrize("name", ["wheels/pip-99-py3-none-any.whl", "models/other.toml", "\x1b[2Jerased", ".hidden"])
def test_a_file_that_was_added_is_refused(name: str, folder: Path) -> None:
    """Pip's wheel would be run, a row would name a model. No name acts on the terminal."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("", encoding="utf-8")
    said = refused(folder)
    assert f"not of this folder: {name.replace(chr(27), '')}" in said
    assert "\x1b" not in said


def test_a_link_that_was_added_is_refused(folder: Path) -> None:
    (folder / "wheels" / "two-1-py3-none-any.whl").symlink_to("/etc/passwd")
    assert "not of this folder: wheels/two-1-py3-none-any.whl" in refused(folder)


@pytest.mark.parametrize("text", ["", "nonsense\n"])
def test_a_list_that_lists_nothing_is_refused(text: str, folder: Path) -> None:
    (folder / SUMS).write_text(text, encoding="utf-8")
    assert "SHA256SUMS lists nothing" in refused(folder)


def test_a_line_that_was_taken_from_the_list_makes_its_file_one_too_many(folder: Path) -> None:
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / SUMS).write_text("".join(line for line in lines if "one-1" not in line), encoding="utf-8")
    assert "not of this folder: wheels/one-1-py3-none-any.whl" in refused(folder)


@pytest.mark.parametrize("damage", [("0", "z"), ("  ", " "), ("wheels/", "wheels/\0")])
def test_a_damaged_line_of_the_list_hides_no_change(damage: tuple[str, str], folder: Path) -> None:
    """A line that is no checksum is skipped when the others are compared; one digit is enough for that."""
    one = "wheels/one-1-py3-none-any.whl"
    (folder / one).write_bytes(b"something else")
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines(keepends=True)
    damaged = [("0" + line[1:]).replace(*damage, 1) if one in line else line for line in lines]
    assert damaged != lines
    (folder / SUMS).write_text("".join(damaged), encoding="utf-8")
    assert any(said in refused(folder) for said in ("SHA256SUMS has lines that are no checksum", "changed or missing"))


def test_a_name_in_two_lines_is_refused_where_each_line_is_a_name_of_the_list(folder: Path) -> None:
    """`install<newline>needs` reads as two files that are listed."""
    (folder / "install\nneeds").write_text("", encoding="utf-8")
    assert "not of this folder: install needs" in refused(folder)


def test_a_folder_without_the_list_is_refused(folder: Path) -> None:
    (folder / SUMS).unlink()
    assert "SHA256SUMS is missing" in refused(folder)


@pytest.mark.parametrize(
    ("need", "value", "said"),
    [
        ("system", "Darwin", "this is Linux, and the folder is for Darwin"),
        ("machine", "s390x", f"this machine is {platform.machine()}, and the folder is for s390x"),
        ("glibc", "9.1", "and the folder needs 9.1 or later"),
        ("processor", "avx1024 quantum", "this processor lacks what llama.cpp was compiled for: avx1024 quantum"),
        ("python", "3.2 3.3", "no Python that the folder is for (3.2 3.3) was found"),
    ],
)
def test_a_machine_that_the_folder_is_not_for_is_told_why(need: str, value: str, said: str, folder: Path) -> None:
    write_needs(folder, {**read_needs(folder), need: value})
    sign(folder)
    assert said in refused(folder)


def test_a_newer_glibc_is_compared_by_numbers(folder: Path) -> None:
    """2.5 is older than this one, though "2.5" comes after "2.36" as a text."""
    write_needs(folder, {**read_needs(folder), "python": "3.2"})
    sign(folder)
    assert "glibc" not in refused(folder)


def test_the_python_that_is_named_has_to_fit(folder: Path) -> None:
    write_needs(folder, {**read_needs(folder), "python": "3.2"})
    sign(folder)
    said = refused(folder, "--python", sys.executable)
    assert f"{sys.executable} is Python {PYTHON}, and the folder is for 3.2" in said
    assert "/bin/false is no CPython that runs" in refused(folder, "--python", "/bin/false")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a folder for the environment"),
        (("/tmp/a", "/tmp/b"), "one environment only"),
        (("--frobnicate",), "there is no option --frobnicate"),
        (("/tmp/a", "--python"), "--python needs a Python"),
        (("/",), "/ is there, and is no environment"),
    ],
)
def test_what_is_asked_wrongly_is_refused(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    done = install(folder, *arguments)
    assert (done.returncode, said in done.stderr) == (1, True)


def test_the_environment_is_not_put_among_what_is_carried(folder: Path) -> None:
    """The folder would not be whole any more, and the second installation refused."""
    (folder.parent / "link").symlink_to(folder / "wheels")
    (folder / "empty").mkdir()
    for place in ("env", "wheels/env", "new/env", "new/er/env", "empty", "../link/env", "../link"):
        done = install(folder, str(folder / place))
        assert (done.returncode, "cannot be in the folder" in done.stderr) == (1, True)


def test_an_environment_is_not_put_where_a_folder_that_is_not_there_leads(folder: Path) -> None:
    """`/none/../carried in/env` would be made in the folder."""
    done = install(folder, str(folder.parent / "none" / ".." / folder.name / "env"))
    assert (done.returncode, "there is no folder" in done.stderr) == (1, True)


def test_the_python_runs_nothing_of_the_folder_that_it_is_called_in(folder: Path, tmp_path: Path) -> None:
    """`python -m venv` would take `./venv.py` for the module."""
    (tmp_path / "venv.py").write_text("print('taken from here')", encoding="utf-8")
    stand_in(folder)
    done = install(folder, str(tmp_path / "env"), cwd=tmp_path)
    assert (done.returncode, "taken from here" in done.stdout) == (0, False)
    assert (tmp_path / "env" / "pyvenv.cfg").is_file()


def test_no_judge_is_called_as_what_the_example_leaves(folder: Path, tmp_path: Path) -> None:
    """Each is asked into a run directory of its own, whatever its name."""
    judges = ["run", "said", "tests", "a/b", "a-b"]
    write_needs(folder, {**read_needs(folder), "judges": " ".join(judges)})
    stand_in(folder)
    done = install(folder, str(tmp_path / "env"))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "answers" in line] == [
        f"judge {one} answers" for one in judges
    ]


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_was_judged_is_removed_when_it_is_stopped(ended_by: signal.Signals, folder: Path, tmp_path: Path) -> None:
    """Ctrl-C goes to all that runs in the terminal. dash does not run what stands for EXIT when a signal ends it."""
    stand_in(folder)
    begun, work = tmp_path / "begun", tmp_path / "work"
    work.mkdir()
    ends = "import os, signal, sys; signal.signal(int(sys.argv[1]), signal.SIG_DFL); os.execvp('sh', sys.argv[2:])"
    running = subprocess.Popen(
        [sys.executable, "-c", ends, str(int(ended_by)), "sh", str(folder / "install"), str(tmp_path / "env")],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(work), "STAND_IN_WAITS": str(begun)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 30
        while not begun.exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert len(list(work.iterdir())) == 1
        os.killpg(running.pid, ended_by)
        assert running.wait(30) == 128 + ended_by
    finally:
        running.kill()
    assert list(work.iterdir()) == []


def test_the_help_says_how(folder: Path) -> None:
    done = install(folder, "--help")
    assert done.returncode == 0
    assert "sh install ENVIRONMENT [--python PYTHON] [--test]" in done.stdout
    assert "set -eu" not in done.stdout
