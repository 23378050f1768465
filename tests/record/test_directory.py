import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.record.directory import PartFile, RunDirectory


def test_a_run_directory_is_private(tmp_path: Path) -> None:
    """Mode 0700, because it contains private text."""
    with closing(RunDirectory(tmp_path / "runs" / "one")) as directory:
        assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700


def test_a_directory_in_use_refuses_a_second_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from localjudge.record.directory import RunDirectory\n"
        "RunDirectory(Path(sys.argv[1]))"
    )
    with closing(RunDirectory(tmp_path)):
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "is being written by another process" in done.stderr
    subprocess.run(command, check=True)


def test_foreign_directories_and_files_are_refused_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(RunDirectoryError, match="not empty and contains no run"):
        RunDirectory(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"thesis\.tex cannot be written: File exists"):
        RunDirectory(tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == "important"


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "half of the new"
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(RunDirectory(tmp_path)) as directory:
        directory.write("scores.jsonl", "old\n")
        part = PartFile(tmp_path / "scores.jsonl")
        with pytest.raises(OutOfResource, match="No space left"):
            part.write(pieces())
        part.close()
    assert (tmp_path / "scores.jsonl").read_text() == "old\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT CHECKED: root may read and write every file")
def test_an_unwritable_directory_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunDirectoryError, match="cannot be written: Permission denied"):
        RunDirectory(tmp_path / "run")
