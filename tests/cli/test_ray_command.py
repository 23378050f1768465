import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_spec("ray") is None, reason="NOT CHECKED: the extra ray is not installed"),
]
# Restore Ctrl-C, which background jobs ignore by inheritance.
INTERRUPTIBLE_COMMAND = """
import signal
from localjudge.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
PATIENCE_SECONDS = 60
SAMPLES = 300


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "data.jsonl"
    rivers = [(number, f"The river {number} is {number * 7} km long") for number in range(SAMPLES)]
    rows = (
        {
            "id": str(number),
            "retrieved_contexts": [f"{river} and rises in the hills.", "It is deep."],
            "reference": f"{river}. It has {number} mouths. It rises in the hills.",
        }
        for number, river in rivers
    )
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


class Started:
    """A run in its own process group, with a marker in the environment of its processes."""

    def __init__(self, folder: Path, data: Path, *options: str) -> None:
        self.mark = f"LOCALJUDGE_TEST_MARK={os.urandom(8).hex()}"
        (folder / "home").mkdir()
        # Short, because paths of Ray's sockets have at most 107 bytes.
        self.temporary = Path(tempfile.mkdtemp(dir="/tmp"))
        self.home, self.out = folder / "home", folder / "run"
        environment = {
            **os.environ,
            **dict([self.mark.split("=")]),
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE_COMMAND, *command(data, self.out), *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_answers(self, count: int) -> None:
        """Wait until this many answers are stored."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.answers() < count:
            assert time.monotonic() < deadline, "no answers came"
            assert self.process.poll() is None, "the run ended too soon"
            time.sleep(0.02)

    def answers(self) -> int:
        """Return the number of stored answers."""
        if not (self.out / "run.sqlite").exists():
            return 0
        with closing(sqlite3.connect(self.out / "run.sqlite")) as store:
            try:
                return int(store.execute("SELECT count(*) FROM answer").fetchone()[0])
            except sqlite3.OperationalError:
                return 0

    def end(self) -> None:
        """Kill the remaining processes."""
        kill(marked(self.mark))
        self.process.communicate()
        shutil.rmtree(self.temporary)


def command(data: Path, out: Path) -> list[str]:
    return ["run", str(data), "--metrics", "context_recall", "--threads", "1", "--quiet", "--out", str(out)]


def results(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in ("scores.jsonl", "verdicts.jsonl", "summary.json")]


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def environ(pid: int) -> list[str]:
    return read(f"/proc/{pid}/environ").decode(errors="replace").split("\0")


def marked(mark: str) -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in environ(pid)]


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def listening(pids: list[int]) -> set[str]:
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                inodes.add(os.readlink(descriptor))
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in inodes:
                addresses.add(local.split(":")[0])
    return addresses


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, its IPv6 form, and ::1."""


@pytest.fixture
def started(data: Path, tmp_path: Path) -> Iterator[Started]:
    suite = tmp_path / "two.toml"
    suite.write_text('ray_workers = 2\nray = "local"\n')
    run = Started(tmp_path, data, "--suite", str(suite))
    yield run
    run.end()


def test_a_local_cluster_is_private_and_the_run_resumes_after_ctrl_c(
    started: Started, data: Path, tmp_path: Path
) -> None:
    """It listens on loopback only and reports no usage; a killed worker is replaced.

    Ctrl-C reaches the whole process group, as in a terminal. The rest runs without Ray.
    """
    started.wait_for_answers(50)
    pids = marked(started.mark)
    workers = [pid for pid in pids if b"ray::JudgeWorker" in read(f"/proc/{pid}/cmdline")]
    assert len(pids) > 5, "Ray's processes were not found"
    assert len(workers) == 2
    addresses = listening(pids)
    assert addresses
    assert addresses <= LOOPBACK
    of_ray = [pid for pid in pids if re.search(rb"/(raylet|gcs_server)\0", read(f"/proc/{pid}/cmdline"))]
    variables = [names for names in map(environ, of_ray) if len(names) > 1]
    assert ["RAY_USAGE_STATS_ENABLED=0" in names for names in variables] == [True] * 2
    os.kill(workers[0], signal.SIGKILL)
    started.wait_for_answers(started.answers() + 100)
    assert started.process.poll() is None
    os.killpg(started.process.pid, signal.SIGINT)
    said, complained = started.process.communicate(timeout=PATIENCE_SECONDS)
    assert started.process.returncode == 4
    assert said == ""
    assert complained.splitlines() == [
        "a worker of the Ray cluster died; its questions are asked again",
        "localjudge: interrupted",
        "  hint: run the same command again to go on",
    ]
    time.sleep(1)
    assert marked(started.mark) == []
    assert list(started.temporary.iterdir()) == []
    assert [path.name for path in started.home.iterdir() if path.name.startswith(".ray")] == []
    kept = started.answers()
    assert kept >= 150
    for out in (started.out, tmp_path / "alone"):
        subprocess.run([sys.executable, "-m", "localjudge", *command(data, out)], check=True, capture_output=True)
    assert results(started.out) == results(tmp_path / "alone")


def test_control_an_open_port_is_detected() -> None:
    with socket.create_server(("0.0.0.0", 0)):
        assert not listening([os.getpid()]) <= LOOPBACK


def test_a_run_in_a_shared_cluster_has_the_same_bytes_and_leaves_it_running(tmp_path: Path, data: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(data.read_text().splitlines()[:20]))
    folder = tempfile.mkdtemp(dir="/tmp")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    options = ["--head", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=1", "--block"]
    mark = f"LOCALJUDGE_TEST_MARK={os.urandom(8).hex()}"
    head = subprocess.Popen(
        [sys.executable, "-c", start, "start", *options, "--include-dashboard=false", f"--temp-dir={folder}"],
        env={**os.environ, **dict([mark.split("=")]), "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert head.stdout is not None
        assert any("Ray runtime started" in line for line in head.stdout)
        for out, more in ((tmp_path / "ray", ["--ray", f"127.0.0.1:{port}"]), (tmp_path / "alone", [])):
            ran = [sys.executable, "-m", "localjudge", *command(rows, out), *more]
            subprocess.run(ran, check=True, capture_output=True, timeout=2 * PATIENCE_SECONDS)
        assert results(tmp_path / "ray") == results(tmp_path / "alone")
        assert head.poll() is None
    finally:
        kill(marked(mark))
        head.communicate()
        shutil.rmtree(folder)
