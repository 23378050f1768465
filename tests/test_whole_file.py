"""Files that a run writes are whole and private, and temporary runs leave nothing behind."""

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import sleep
from typing import Any

import filelock
import pytest

import localjudge
from localjudge import InputError, OutOfResource, Run, ScriptedEngine

ROWS = [{"id": "a", "retrieved_contexts": ["It rains."], "response": "It rains."}]
HEADING = b"sample_id,"
IN_A_COPY = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def run() -> Run:
    return temporary_run()


def temporary_run() -> Run:
    engine = ScriptedEngine({}, default=1.0)
    return localjudge.evaluate(ROWS, metrics="faithfulness", engine=engine, out=False)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_private_under_any_umask(run: Run, tmp_path: Path, open_umask: None) -> None:
    file = tmp_path / "scores.csv"
    file.write_bytes(b"old")
    file.chmod(0o644)
    run.export(file)
    assert file.read_bytes().startswith(HEADING)
    assert file.stat().st_mode & 0o777 == 0o600


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes into a file, as when it is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_interrupted_write_leaves_only_the_old_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_bytes(b"old")
    with files_up_to(20), pytest.raises(OutOfResource, match="File too large"):
        run.export(file)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"scores.csv": b"old"}


@contextmanager
def other_process(work: Callable[[Connection], None]) -> Iterator[tuple[Connection, BaseProcess]]:
    """Let a copy of this process do some work, with a connection to it, and kill it afterwards."""
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there,))
    process.start()
    there.close()
    try:
        yield here, process
    finally:
        process.kill()
        process.join()


@IN_A_COPY
def test_a_killed_write_leaves_the_old_file_and_the_next_write_cleans_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed when the new file is complete, but has not got its name yet."""
    file = tmp_path / "scores.csv"
    file.write_bytes(b"old")

    def write(caller: Connection) -> None:
        def wait(_descriptor: int) -> None:
            caller.send("written")
            sleep(60)

        monkeypatch.setattr(os, "fsync", wait)
        run.export(file)

    with other_process(write) as (written, process):
        written.recv()
        [part] = tmp_path.glob(".scores.csv.*.part")
        assert file.read_bytes() == b"old"
        os.utime(part, (0, 0))
        run.export(file)
        assert part.exists()  # its process still writes
        process.kill()
    os.utime(part, (0, 0))
    (tmp_path / ".scores.csv.short.part").write_bytes(b"of somebody else")
    run.export(file)
    assert {path.name for path in tmp_path.iterdir()} == {"scores.csv", ".scores.csv.short.part"}
    assert file.read_bytes().startswith(HEADING)


def test_a_link_is_replaced_and_a_pipe_is_written_through(run: Run, tmp_path: Path) -> None:
    """A link may point to a foreign file; a shell's `>(gzip)` is a pipe."""
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    run.export(tmp_path / "link", "csv")
    assert ((tmp_path / "victim").read_bytes(), (tmp_path / "link").is_symlink()) == (b"old", False)
    assert (tmp_path / "link").read_bytes().startswith(HEADING)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run.export(tmp_path / "pipe", "csv")
    assert os.read(reader, 10_000) == (tmp_path / "link").read_bytes()
    os.close(reader)
    run.export("/dev/null", "csv")
    assert Path("/dev/null").is_char_device()


def test_a_write_error_has_its_reason(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no/file cannot be written: No such file"):
        run.export(tmp_path / "no" / "file", "csv")
    with pytest.raises(InputError, match="Is a directory"):
        run.export(tmp_path, "csv")
    with pytest.raises(OutOfResource, match="No space left"):
        run.export("/dev/full", "csv")


def keep_a_run(caller: Connection) -> None:
    """Make a temporary run, and delete it when the caller says so."""
    run = temporary_run()
    caller.send(run.directory.parent)
    caller.recv()


@IN_A_COPY
def test_folders_of_killed_processes_are_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process is killed and another one lives. A folder without our lock is not ours."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    foreign = tmp_path / "localjudge-foreign"
    foreign.mkdir()
    with other_process(keep_a_run) as (killed, _):
        left = killed.recv()
    assert (left / "run" / "scores.jsonl").exists()
    with other_process(keep_a_run) as (living, process):
        used = living.recv()
        assert not left.exists()
        first = temporary_run()
        second = temporary_run()
        folders = {run.directory.parent for run in (first, second)}
        assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
        assert set(tmp_path.iterdir()) == {foreign, used, *folders}
        del first, second
        living.send("end")
        process.join(60)
    assert list(tmp_path.iterdir()) == [foreign]


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making and locking it, another thread or process may take it for a left one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    removed: list[Path] = []
    lock: Callable[..., bool] = filelock.lock_descriptor

    def lock_late(descriptor: int, **how: Any) -> bool:
        if not removed:
            removed.extend(tmp_path.iterdir())
            shutil.rmtree(removed[0])
        return lock(descriptor, **how)

    monkeypatch.setattr(filelock, "lock_descriptor", lock_late)
    run = temporary_run()
    assert run.directory.parent.is_dir()
    assert [run.directory.parent] != removed
    del run
    assert not list(tmp_path.iterdir())
