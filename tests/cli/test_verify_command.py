import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import random_model

from localjudge import evaluate, resources
from tests.cli.conftest import Call
from tests.conftest import PROFILES

pytestmark = pytest.mark.engine

ROWS = [
    {
        "id": "rome",
        "reference": "It rains in Rome. It is red.",
        "retrieved_contexts": ["It rains in Rome."],
    },
    {
        "id": "mars",
        "reference": "The king lives in Paris.",
        "retrieved_contexts": ["Water boils at sea level."],
    },
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate(
        ROWS, metrics=["context_recall"], threads=2, out=tmp_path_factory.mktemp("made")
    ).directory


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


def with_answer(directory: Path, p_yes: str) -> None:
    with closing(sqlite3.connect(directory / "run.sqlite")) as store, store:
        store.execute(f"UPDATE answer SET p_yes = {p_yes} WHERE request = 1")


def test_a_run_is_verified_bit_identical_with_other_threads(directory: Path, call: Call) -> None:
    code, output, errors = call("verify", directory, "--threads", "1")
    first = "bit-identical: 3 of 3 stored answers repeated, every bit the same"
    assert (code, output.splitlines()[0].strip()) == (0, first)
    assert "judge lexical" in errors


FULL_DISK = """
import resource
from localjudge.cli.main import main

_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
main()
"""
"""A program that can write to pipes but to no file, as on a full disk (EFBIG, not ENOSPC)."""


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize("options", [("--quiet",), ("--json",), ()], ids=str)
def test_a_result_that_a_full_disk_cannot_store_is_exit_code_4(
    directory: Path, options: tuple[str, ...]
) -> None:
    command = [sys.executable, "-B", "-c", FULL_DISK, "verify", str(directory), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 4, process.stderr
    assert "bit-identical" in process.stdout
    assert not (directory / "verification.json").exists()
    if options == ("--json",):
        assert json.loads(process.stdout)["not_stored"]
    else:
        assert "verification.json" in " ".join((process.stdout + process.stderr).split())
        assert "run the same command again" in " ".join(process.stderr.split())


READ_ONLY = """
import errno, os, sys
from localjudge.cli.main import main

directory = os.path.realpath(sys.argv[2])

def refuse(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & os.O_ACCMODE:
        if os.path.realpath(arguments[0]).startswith(directory):
            raise OSError(errno.{name}, os.strerror(errno.{name}), arguments[0])

sys.addaudithook(refuse)
main()
"""
"""A program that cannot open files of its run for writing, as on a disk that is mounted so."""


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.O_ACCMODE")
@pytest.mark.parametrize("name", ["EROFS", "EACCES", "EPERM"])
@pytest.mark.parametrize("options", [("--quiet",), ("--json",), ()], ids=str)
def test_a_result_in_a_directory_that_cannot_be_written_says_what_to_do(
    directory: Path, options: tuple[str, ...], name: str
) -> None:
    program = READ_ONLY.replace("{name}", name)
    command = [sys.executable, "-B", "-c", program, "verify", str(directory), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 4, process.stderr
    assert "bit-identical" in process.stdout
    assert not (directory / "verification.json").exists()
    said = " ".join((process.stdout + process.stderr).split())
    if options == ("--json",):
        said = json.loads(process.stdout)["not_stored"]
    assert "verification.json" in said
    assert "verify a copy" in said


def test_a_changed_verdict_is_exit_code_3(directory: Path, call: Call) -> None:
    with_answer(directory, "1 - p_yes")
    code, output, _ = call("verify", directory, "--quiet")
    assert code == 3
    assert output.strip().startswith("not verified: 3 of 3 stored answers repeated, 2 the same")


def test_other_last_bits_are_verified_only_with_the_option(directory: Path, call: Call) -> None:
    """The files are consistent with the changed bit, so only the judge contradicts them."""
    with_answer(directory, "p_yes * 0.999999")
    for name in ("scores.jsonl", "verdicts.jsonl", "summary.json"):
        (directory / name).unlink()
    evaluate(ROWS, metrics=["context_recall"], threads=1, out=directory)
    code, output, _ = call("verify", directory, "--quiet", "--json")
    assert (code, json.loads(output)["result"]) == (3, "same verdicts")
    assert call("verify", directory, "--quiet", "--accept", "verdicts")[0] == 0


def test_a_run_keeps_the_text_of_its_prompt(tmp_path: Path, call: Call) -> None:
    """The run is verified without the folder. A changed text is another judge."""
    own = Path(
        shutil.copytree(PROFILES / "instruct", tmp_path / "own"),
    )
    model = random_model.write(tmp_path / "model.gguf", random_model.byte_vocabulary())
    options: Any = {
        "metrics": ["context_recall"],
        "profile": str(own),
        "threads": 1,
        "min_valid_mass": 0,
    }
    run = evaluate(ROWS, judge=model, out=tmp_path / "run", **options)
    assert call("verify", run.directory, "--quiet")[0] == 0
    shutil.rmtree(own)
    assert call("verify", run.directory, "--quiet")[0] == 0
    manifest = run.directory / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("{context}", "{context} "))
    code, output, _ = call("verify", run.directory, "--quiet", "--json")
    verification = json.loads(output)
    assert (code, verification["result"]) == (3, "different")
    assert "judge.profile_sha256" in {
        change["ingredient"] for change in verification["judge_changes"]
    }


def test_a_model_that_was_moved_is_named_with_its_checksum(tmp_path: Path, call: Call) -> None:
    model = tmp_path / "my-judge.gguf"
    moved = tmp_path / "elsewhere.gguf"
    run = tmp_path / "run"
    shutil.copy(resources.bundled_file("models", "lexical.gguf"), model)
    evaluate(ROWS, judge=model, metrics=["context_recall"], threads=1, out=run)
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()[:12]
    model.rename(moved)
    code, output, errors = call("verify", run, "--quiet")
    assert (code, output) == (1, "")
    assert f"(my-judge, sha256 {sha256})" in errors
    assert call("verify", run, "--quiet", "--judge", moved)[0] == 0
