"""A folder that `scripts/wheelhouse` made installs, tests itself and judges where there is no network, for a new user.

Slow: llama.cpp is compiled, which takes ten minutes, unless LOCALJUDGE_TEST_LLAMA_WHEEL names a wheel of it. Packages
are fetched from the index that pip uses. What is made up and quick is tried in `tests/carried_in/`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ASIDE = ["unshare", "-rn"]
"""A name space without a network, that no other right is needed for."""
GIVEN_WHEEL = "LOCALJUDGE_TEST_LLAMA_WHEEL"
BARE_SYSTEM = "LOCALJUDGE_TEST_SYSTEM"


def can_be_set_aside() -> bool:
    return shutil.which("unshare") is not None and subprocess.run([*ASIDE, "true"], check=False).returncode == 0


def make(folder: Path, *options: str) -> str:
    """Run the script; what it printed."""
    given = os.environ.get(GIVEN_WHEEL)
    llama = ["--llama-wheel", given] if given else []
    script = [sys.executable, str(ROOT / "scripts" / "wheelhouse"), str(folder), *llama, *options]
    return subprocess.run(script, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole folder, with a judge that is the bundled one under another name: any GGUF file would be carried so."""
    made = tmp_path_factory.mktemp("wheelhouse") / "carried"
    judge = f"house={ROOT / 'models' / 'reference-judge.gguf'}"
    make(made, "--judge", judge, "--with-tests")
    return made


@pytest.mark.slow
def test_a_folder_installs_and_judges_for_a_new_user_without_a_network(folder: Path, tmp_path: Path) -> None:
    """The environment is empty, the home is new: nothing of this user's helps."""
    if not can_be_set_aside():
        pytest.skip("NOT CHECKED: unshare -rn is not allowed here")
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def aside(*command: str) -> str:
        run = subprocess.run([*ASIDE, *command], env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    installed = aside("sh", str(folder / "install"), str(tmp_path / "env"), "--python", sys.executable, "--test")
    assert "bit-identical" in installed
    assert "judge house answers" in installed
    assert re.search(r"\d{3} passed", installed)
    assert "failed" not in installed
    localjudge = str(tmp_path / "env" / "bin" / "localjudge")
    assert "signature" in aside(localjudge, "run", "--demo", "--quiet")
    doctor = aside(localjudge, "doctor", "--judge", "house", "--probes", "0", "--injections", "0", "--quiet")
    assert re.search(r"ok +packages", doctor)
    assert re.search(r"ok +network", doctor)
    asked = aside(localjudge, "run", str(folder / "example.jsonl"), "--judge", "house", "--quiet", "--out", "asked")
    assert "judge house" in asked or "judge reference" in asked


@pytest.mark.slow
def test_a_folder_that_is_whole_is_made_again_byte_for_byte_without_fetching(folder: Path, tmp_path: Path) -> None:
    """The lock and the list of checksums too: nothing in them is of the day."""
    kept = {path: path.read_bytes() for path in (folder / "requirements.lock", folder / "SHA256SUMS")}
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    printed = make(again, "--judge", f"house={ROOT / 'models' / 'reference-judge.gguf'}", "--with-tests")
    assert "Downloading" not in printed.partition("== packages")[2]
    assert {path: (again / path.name).read_bytes() for path in kept} == kept


@pytest.mark.slow
def test_the_portable_build_needs_avx2_and_no_more(folder: Path) -> None:
    needs = dict(line.split(" ", 1) for line in (folder / "needs").read_text(encoding="utf-8").splitlines())
    if needs["machine"] != "x86_64" or not needs["llama"].startswith("portable"):
        pytest.skip("NOT CHECKED: a wheel was given, or this is no x86-64")
    assert needs["processor"].split() == ["avx", "avx2", "bmi2", "f16c", "fma", "pni", "ssse3"]


@pytest.mark.slow
def test_the_last_stage_of_the_container_file_runs_in_a_bare_system(folder: Path) -> None:
    """Its RUN lines, in order, in a system that has Python and nothing else, without a network.

    LOCALJUDGE_TEST_SYSTEM names the folder of one, such as
    `debootstrap --variant=minbase --include=python3 bookworm FOLDER` makes; it is written to.
    """
    named = os.environ.get(BARE_SYSTEM)
    if not named or os.getuid() != 0:
        pytest.skip(f"NOT CHECKED: needs {BARE_SYSTEM}, and to be root")
    root = Path(named)
    text = (ROOT / "scripts" / "Containerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    shutil.rmtree(root / "wheelhouse", ignore_errors=True)
    shutil.copytree(folder, root / "wheelhouse")
    path = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    environment = path | dict(line.split("=", 1) for line in re.findall(r"^ENV (.*)$", text, flags=re.MULTILINE))
    [user] = re.findall(r"^USER (.*)$", text, flags=re.MULTILINE)
    for line in re.findall(r"^RUN (?:--\S+ )*(.*)$", text, flags=re.MULTILINE):
        subprocess.run(["unshare", "-n", "chroot", root, "/bin/sh", "-c", line], env=environment, check=True)
    inside = ["unshare", "-n", "chroot", f"--userspec={user}", str(root), "/usr/bin/env", "-C", "/data"]
    run = ["/opt/localjudge/bin/localjudge", "run", "--demo", "--quiet"]
    ran = subprocess.run([*inside, *run], env=environment, capture_output=True, text=True, check=True)
    assert "signature" in ran.stdout
