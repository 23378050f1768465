"""A folder from `scripts/wheelhouse` installs and judges offline for a new user.

The slow tests compile llama.cpp for ten minutes, unless LOCALJUDGE_TEST_LLAMA_WHEEL names a wheel,
and download packages from pip's index. The others use fake folders.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ASIDE = ["unshare", "-rn"]
"""A namespace without a network, which needs no privileges."""
GIVEN_WHEEL = "LOCALJUDGE_TEST_LLAMA_WHEEL"


def can_be_set_aside() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*ASIDE, "true"], check=False).returncode == 0
    )


def make(folder: Path, *options: str) -> str:
    wheel = os.environ.get(GIVEN_WHEEL)
    llama = ["--llama-wheel", wheel] if wheel else []
    script = [sys.executable, str(ROOT / "scripts" / "wheelhouse"), str(folder), *llama, *options]
    return subprocess.run(script, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete folder with the bundled judge under another name."""
    made = tmp_path_factory.mktemp("wheelhouse") / "carried"
    judge = f"house={ROOT / 'models' / 'lexical.gguf'}"
    make(made, "--judge", judge)
    return made


@pytest.mark.slow
def test_a_folder_installs_and_judges_offline_for_a_new_user(folder: Path, tmp_path: Path) -> None:
    """With an empty environment and a new home directory."""
    if not can_be_set_aside():
        pytest.skip("NOT CHECKED: unshare -rn is not allowed here")
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def aside(*command: str) -> str:
        run = subprocess.run(
            [*ASIDE, *command],
            env=bare,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    installed = aside(
        "sh", str(folder / "install"), str(tmp_path / "env"), "--python", sys.executable
    )
    assert "bit-identical" in installed
    assert "judge house answers" in installed
    localjudge = str(tmp_path / "env" / "bin" / "localjudge")
    assert "signature" in aside(localjudge, "run", "--demo", "--quiet")
    doctor = aside(
        localjudge,
        "doctor",
        "--judge",
        "house",
        "--probes",
        "0",
        "--injections",
        "0",
        "--quiet",
    )
    assert re.search(r"ok +packages", doctor)
    asked = aside(
        localjudge,
        "run",
        str(folder / "example.jsonl"),
        "--judge",
        "house",
        "--quiet",
        "--out",
        "asked",
    )
    assert "judge house" in asked or "judge lexical" in asked


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """A minimal folder for this machine, without packages."""
    folder = tmp_path / "carried"
    shutil.copytree(
        ROOT / "scripts" / "wheelhouse_install",
        folder,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    version = "{}.{}".format(*sys.version_info)
    needs = {
        "system": os.uname().sysname,
        "machine": os.uname().machine,
        "glibc": "2.17",
        "python": version,
    }
    (folder / "needs").write_text(
        "".join(f"{word} {value}\n" for word, value in needs.items()), encoding="utf-8"
    )
    sign(folder)
    return folder


def sign(folder: Path) -> None:
    files = [path for path in folder.iterdir() if path.name != "SHA256SUMS"]
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")


def install(folder: Path) -> str:
    environment = folder.parent / "env"
    command = ["sh", str(folder / "install"), str(environment), "--python", sys.executable]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert not environment.exists()
    return ran.stderr


def test_a_changed_missing_or_added_file_is_named_and_nothing_installed(carried: Path) -> None:
    (carried / "added").touch()
    assert "folder: added" in install(carried)
    (carried / "added").unlink()
    (carried / "needs").write_text("python 3.0\n", encoding="utf-8")
    assert "needs: FAILED" in install(carried)
    (carried / "needs").unlink()
    assert "needs: FAILED" in install(carried)


@pytest.mark.parametrize(
    ("word", "value", "reason"),
    [
        ("machine", "vax", "the folder is for Linux vax"),
        ("glibc", "2.999", "needs 2.999"),
        ("processor", "warp", "lacks warp"),
        ("python", "3.0", "is not Python 3.0"),
    ],
)
def test_another_kind_of_machine_is_refused_with_the_reason(
    word: str, value: str, reason: str, carried: Path
) -> None:
    needs = dict(
        line.split(" ", 1) for line in (carried / "needs").read_text(encoding="utf-8").splitlines()
    )
    (carried / "needs").write_text(
        "".join(f"{k} {v}\n" for k, v in {**needs, word: value}.items()), encoding="utf-8"
    )
    sign(carried)
    assert reason in install(carried)
