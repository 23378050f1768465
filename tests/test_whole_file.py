import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, OutOfResource
from localjudge.resources import LockState, private_folder, try_lock, write_output, write_whole


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_private_under_any_umask(tmp_path: Path, open_umask: None) -> None:
    file = tmp_path / "scores.csv"
    file.write_bytes(b"old")
    file.chmod(0o644)
    assert write_whole(file, [b"a", b"bc"]) == 3
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"abc", 0o600)


def test_an_interrupted_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_bytes(b"old")

    def parts() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        write_whole(file, parts())
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"scores.csv": b"old"}


def test_a_killed_write_leaves_the_old_file_and_the_next_write_cleans_up(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_bytes(b"old")
    code = (
        "import sys, time; from pathlib import Path; from localjudge.resources import write_whole\n"
        "def parts():\n    yield b'x' * 10_000_000\n    print(flush=True)\n    time.sleep(60)\n"
        "write_whole(Path(sys.argv[1]), parts())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        [part] = tmp_path.glob(".scores.csv.*.part")
        os.utime(part, (0, 0))
        write_whole(file, [b"old"])
        assert part.exists()  # its process still writes
        process.kill()
    assert file.read_bytes() == b"old"
    os.utime(part, (0, 0))
    (tmp_path / ".scores.csv.short.part").write_bytes(b"of somebody else")
    write_whole(file, [b"new"])
    assert {path.name for path in tmp_path.iterdir()} == {"scores.csv", ".scores.csv.short.part"}


def test_a_link_is_replaced_and_a_pipe_is_written_through(tmp_path: Path) -> None:
    """A link may point to a foreign file; a shell's `>(gzip)` is a pipe."""
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    write_whole(tmp_path / "link", [b"new"])
    assert ((tmp_path / "victim").read_bytes(), (tmp_path / "link").is_symlink()) == (b"old", False)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", [b"new"])
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert write_whole(Path("/dev/null"), [b"new"]) == 3
    assert Path("/dev/null").is_char_device()


def test_a_write_error_has_its_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no/file cannot be written: No such file"):
        write_output(tmp_path / "no" / "file", [b"x"])
    with pytest.raises(InputError, match="Is a directory"):
        write_output(tmp_path, [b"x"])
    with pytest.raises(OutOfResource, match="No space left"):
        write_output(Path("/dev/full"), [b"x"])


def test_folders_of_killed_processes_are_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process is killed and another one lives. A folder without our lock is not ours."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "from localjudge.resources import private_folder\n"
        "with private_folder('localjudge-') as folder:\n"
        "    (folder / 'run').mkdir()\n"
        "    print(folder, flush=True)\n"
        "    input()\n"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    foreign = tmp_path / "localjudge-foreign"
    foreign.mkdir()
    with subprocess.Popen(command, env=environment, **pipes) as killed:
        assert killed.stdout
        left = Path(killed.stdout.readline().strip())
        killed.kill()
    assert (left / "run").exists()
    with subprocess.Popen(command, env=environment, **pipes) as living:
        assert living.stdout
        used = Path(living.stdout.readline().strip())
        assert not left.exists()
        with private_folder("localjudge-") as folder, private_folder("localjudge-") as second:
            assert folder.stat().st_mode & 0o777 == 0o700
            assert set(tmp_path.iterdir()) == {foreign, used, folder, second}
        living.communicate("\n")
    assert list(tmp_path.iterdir()) == [foreign]


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making and locking it, another thread or process may take it for a left one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    removed: list[Path] = []

    def lock_late(descriptor: int) -> LockState:
        if not removed:
            removed.extend(tmp_path.iterdir())
            shutil.rmtree(removed[0])
        return try_lock(descriptor)

    monkeypatch.setattr("localjudge.resources.try_lock", lock_late)
    with private_folder("localjudge-") as folder:
        assert folder.is_dir()
        assert [folder] != removed
    assert not list(tmp_path.iterdir())
