"""Runs in a Ray cluster of several nodes on this machine: the bytes of one process, whatever fails.

The cluster is in a process of its own, and the driver is the command line, so that both can be
killed, and no test imports Ray.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.engine.conftest import TEMPLATE, ModelMaker

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="NOT CHECKED: the package Ray is not installed"
    ),
    pytest.mark.skipif(
        sys.platform != "linux", reason="NOT CHECKED: only Linux has several nodes on a machine"
    ),
]
ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
SAMPLES = 60
SENTENCES = 6
# Workers take 40 ms for an answer, or wait, while a file says so: a test finds them at work.
SLOWLY = """
import os, sys, time
clock = time.perf_counter
pace = os.environ["PACE"]
def slow_clock():
    if sys._getframe(1).f_globals["__name__"].startswith("localjudge.engine."):
        if os.path.exists(f"{pace}/slow"):
            time.sleep(0.02)
        while os.path.exists(f"{pace}/held"):
            time.sleep(0.02)
    return clock()
time.perf_counter = slow_clock
"""
UNREACHABLE = """
import json, sys, time
from localjudge.cli.main import main
began = time.monotonic()
try:
    main(["run", sys.argv[1], "--judge", "lexical", "--out", sys.argv[2], "--ray", "127.0.0.1:9"])
except SystemExit as ended:
    print(json.dumps([ended.code, time.monotonic() - began]))
"""
LIMIT = 240.0
_LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 as the system writes it, also as an address of IPv6."""
# A jury by Python, and its run verified by the same workers.
JURY = """
import json, sys, localjudge
data, model, out, cluster = sys.argv[1:]
options = {"threads": 1, "ray": cluster or None}
judges = ["lexical", model]
run = localjudge.evaluate(
    data, judge=judges, metrics="context_recall", out=out, min_valid_mass=0, sample=6, **options
)
print(json.dumps([run.verify(**options).result, "ray" in sys.modules]))
"""


class RayCluster:
    """The process with the cluster."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.pace = Path(variables["PACE"])
        self._process = subprocess.Popen(
            [sys.executable, str(SUPPORT / "ray_cluster.py"), json.dumps(variables)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        begun = self._read_reply()
        self.address: str = begun["address"]
        self.raylets: dict[str, int] = {"head": begun["raylet"]}

    def add(self, name: str, processors: int, variables: Mapping[str, str]) -> None:
        order = {"add": name, "processors": processors, "variables": dict(variables)}
        self.raylets[name] = self._ask(order)["raylet"]

    def remove(self, name: str) -> None:
        del self.raylets[name]
        self._ask({"remove": name})

    def workers(self) -> dict[int, str]:
        """Return the name of the node of each worker process."""
        nodes = {raylet: name for name, raylet in self.raylets.items()}
        workers: dict[int, str] = {}
        for process in list_processes():
            if process.command.startswith("ray::Worker") and process.parent in nodes:
                workers[process.number] = nodes[process.parent]
        return workers

    def hold(self) -> None:
        """Let workers wait before their next answer."""
        (self.pace / "held").touch()

    def release(self) -> None:
        (self.pace / "held").unlink(missing_ok=True)

    def close(self) -> None:
        """End the cluster, and the process in any case."""
        try:
            self._process.communicate(timeout=LIMIT)
        finally:
            self._process.kill()

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return self._read_reply()

    def _read_reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise AssertionError("the cluster ended")


class Process(NamedTuple):
    """A process of this machine."""

    number: int
    parent: int
    command: str


def list_processes() -> list[Process]:
    processes: list[Process] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            processes.append(Process(int(folder.name), int(parent), command))
    return processes


def running_processes() -> set[int]:
    return {process.number for process in list_processes() if process.command}


def list_descendants(number: int) -> list[Process]:
    """Return the processes that a process has started, and those that they have started."""
    processes = list_processes()
    descendants: list[Process] = []
    parents = [number]
    while parents:
        parent = parents.pop()
        children = [process for process in processes if process.parent == parent]
        parents += [child.number for child in children]
        descendants += children
    return descendants


def list_listening_addresses(processes: Iterable[Process]) -> set[str]:
    """Return the addresses at which these processes wait for connections."""
    sockets: set[str] = set()
    for process in processes:
        for file in Path(f"/proc/{process.number}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(os.readlink(file))
    addresses: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == _LISTENING and f"socket:[{columns[9]}]" in sockets:
                addresses.add(columns[1].partition(":")[0])
    return addresses


def wait_until(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def fast_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """Two nodes of one processor each."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "sitecustomize.py").write_text(SLOWLY)
    variables = {"PYTHONPATH": str(folder), "PACE": str(folder)}
    with closing(RayCluster(variables)) as cluster:
        cluster.add("second", 1, {})
        yield cluster


@pytest.fixture
def cluster(fast_cluster: RayCluster) -> Iterator[RayCluster]:
    """The same cluster with slow workers."""
    (fast_cluster.pace / "slow").touch()
    yield fast_cluster
    (fast_cluster.pace / "slow").unlink()
    fast_cluster.release()


@contextmanager
def added(
    cluster: RayCluster,
    name: str,
    processors: int = 1,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[None]:
    cluster.add(name, processors, variables)
    try:
        yield
    finally:
        if name in cluster.raylets:
            cluster.remove(name)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 samples of 6 different statements: 360 questions."""
    rows: list[str] = []
    for sample in range(SAMPLES):
        statements = [f"River {sample} has {number} mouths." for number in range(SENTENCES)]
        row = {"id": str(sample), "retrieved_contexts": [f"The river {sample} has 3 mouths."]}
        rows.append(json.dumps({**row, "reference": " ".join(statements)}))
    file = tmp_path_factory.mktemp("data") / "data.jsonl"
    file.write_text("\n".join(rows))
    return file


class Driver:
    """`localjudge run` in another process."""

    def __init__(self, data: Path, out: Path, *options: str) -> None:
        self.out = out
        command = [sys.executable, "-m", "localjudge", "run", str(data), "--out", str(out)]
        command += ["--threads", "1", *options]
        if "--judge" not in options:
            command += ["--judge", "lexical"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def wait_for_answers(self, count: int) -> None:
        wait_until(lambda: self.answers >= count or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()[0]

    @property
    def answers(self) -> int:
        store = self.out / "run.sqlite"
        if not store.exists():
            return 0
        with closing(sqlite3.connect(store)) as opened, suppress(sqlite3.OperationalError):
            return int(opened.execute("SELECT count(*) FROM answer").fetchone()[0])
        return 0

    def kill(self) -> None:
        with self.process:  # waits, and closes its output
            self.process.kill()

    def finish(self, expected: int = 0) -> str:
        """Return what it printed."""
        printed, _ = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == expected, printed
        return printed


Drive = Callable[..., Driver]


@pytest.fixture
def drive() -> Iterator[Drive]:
    """Start drivers, none of which outlives its test."""
    drivers: list[Driver] = []

    def start(*arguments: Any) -> Driver:
        drivers.append(Driver(*arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()


def results(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def expected(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of one process."""
    out = tmp_path_factory.mktemp("alone") / "run"
    Driver(data, out).finish()
    return results(out)


def test_the_ray_engine_meets_the_contract(
    fast_cluster: RayCluster, make_model: ModelMaker
) -> None:
    model = make_model("llama", vocabulary="pieces", chat_template=TEMPLATE)
    command = [
        sys.executable,
        str(SUPPORT / "ray_contract.py"),
        str(model.path),
        fast_cluster.address,
    ]
    with added(fast_cluster, "third", processors=2):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_two_nodes_give_the_bytes_of_one_process(
    fast_cluster: RayCluster, drive: Drive, labelled_data: Path, tmp_path: Path
) -> None:
    """306 samples of ClapNQ."""
    file = labelled_data / "rag_clapnq.dev.jsonl"
    drive(file, tmp_path / "alone").finish()
    printed = drive(file, tmp_path / "ray", "--ray", fast_cluster.address).finish()
    assert "306 samples" in printed
    assert "2 workers on 2 nodes" in printed
    assert results(tmp_path / "ray") == results(tmp_path / "alone")
    manifests = [(tmp_path / run / "manifest.json").read_text() for run in ("alone", "ray")]
    signatures = [json.loads(manifest)["signature"] for manifest in manifests]
    assert signatures[0] == signatures[1]
    assert fast_cluster.address not in manifests[1]
    assert "ray" not in json.loads(manifests[1])["environment"]["settings"]


def test_the_questions_of_a_killed_worker_are_asked_again(
    cluster: RayCluster, drive: Drive, data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    driver = drive(data, tmp_path / "run", "--ray", cluster.address)
    driver.wait_for_answers(30)
    cluster.hold()
    killed, node = next(iter(cluster.workers().items()))
    os.kill(killed, signal.SIGKILL)
    cluster.release()
    printed = driver.finish()
    assert f"({node}) was lost" in printed
    assert "(raylet)" not in printed, "Ray has words of its own for it"
    assert results(driver.out) == expected


def test_a_node_may_go_and_another_come_during_a_run(
    cluster: RayCluster, drive: Drive, data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """The third node loses the questions of its worker, the fourth one answers."""
    with added(cluster, "third"):
        driver = drive(data, tmp_path / "run", "--ray", cluster.address)
        driver.wait_for_answers(30)
        cluster.hold()
        wait_until(lambda: "third" in cluster.workers().values())
        cluster.remove("third")
    with added(cluster, "fourth"):
        wait_until(lambda: "fourth" in cluster.workers().values())
        cluster.release()
        printed = driver.finish()
    assert "(third) was lost" in printed
    assert "Ray: 3 workers on 3 nodes" in printed
    assert results(driver.out) == expected


def test_a_killed_driver_leaves_no_worker_and_its_run_resumes(
    cluster: RayCluster, drive: Drive, data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    driver = drive(data, tmp_path / "run", "--ray", cluster.address)
    driver.wait_for_answers(30)
    cluster.hold()
    wait_until(lambda: len(cluster.workers()) == 2)
    driver.kill()
    wait_until(lambda: not cluster.workers())
    cluster.release()
    stored = driver.answers
    printed = drive(data, tmp_path / "run", "--ray", cluster.address).finish()
    assert f"resuming: {stored} answers" in printed
    assert results(driver.out) == expected


def test_a_run_whose_workers_are_killed_again_and_again_ends_and_resumes_elsewhere(
    cluster: RayCluster, drive: Drive, data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Exit code 4, and the same command without a cluster takes over its answers."""
    driver = drive(data, tmp_path / "run", "--ray", cluster.address)
    driver.wait_for_answers(30)
    while driver.process.poll() is None:
        for worker in cluster.workers():
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.05)
    printed = driver.finish(4)
    assert "run the same command again" in printed
    assert driver.answers >= 30
    stored = driver.answers
    resumed = drive(data, tmp_path / "run").finish()
    assert f"resuming: {stored} answers" in resumed
    assert results(driver.out) == expected


@pytest.fixture
def other_model(make_model: ModelMaker, tmp_path: Path) -> dict[str, str]:
    """Variables of a node on which the judge `lexical` is another file."""
    model = make_model("llama", vocabulary="pieces", chat_template=TEMPLATE)
    row = f'name = "lexical"\npath = "{model.path}"\nsha256 = "{model.sha256}"\nsize = {model.size}'
    home = tmp_path / "home"
    home.mkdir()
    (home / "registry.toml").write_text(f"[[model]]\n{row}\n")
    return {"LOCALJUDGE_HOME": str(home)}


def test_a_node_with_another_model_is_refused_by_name(
    cluster: RayCluster,
    drive: Drive,
    data: Path,
    tmp_path: Path,
    expected: dict[str, bytes],
    other_model: dict[str, str],
) -> None:
    with added(cluster, "third", variables=other_model):
        cluster.hold()
        driver = drive(data, tmp_path / "run", "--ray", cluster.address)
        wait_until(lambda: "third" in cluster.workers().values())
        wait_until(lambda: "third" not in cluster.workers().values())
        cluster.release()
        printed = driver.finish()
    assert "(third) is not used: " in printed
    assert "is another model (sha256 " in printed
    assert results(driver.out) == expected


def test_several_judges_and_their_verification_by_python(
    fast_cluster: RayCluster, data: Path, tmp_path: Path, make_model: ModelMaker
) -> None:
    model = make_model("llama", vocabulary="pieces", chat_template=TEMPLATE)
    for cluster, name in (("", "alone"), (fast_cluster.address, "ray")):
        command = [sys.executable, "-c", JURY, str(data), str(model.path), str(tmp_path / name)]
        done = subprocess.run(
            [*command, cluster], capture_output=True, text=True, check=False, timeout=LIMIT
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == ["bit-identical", bool(cluster)]
    assert results(tmp_path / "ray") == results(tmp_path / "alone")


def test_a_cluster_on_this_machine_is_private_and_leaves_nothing(
    drive: Drive, data: Path, tmp_path: Path
) -> None:
    """The dry run says where it measured. All that listens, listens on the loopback interface."""
    temporary = Path(tempfile.gettempdir())
    before = set(temporary.glob("ray-*"))
    driver = drive(data, tmp_path / "run", "--ray", "local", "--dry-run")
    processes: list[Process] = []

    def has_worker() -> bool:
        processes[:] = list_descendants(driver.process.pid)
        return any(process.command.startswith("ray::Worker") for process in processes)

    wait_until(has_worker)
    made = set(temporary.glob("ray-*")) - before
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700]
    addresses = list_listening_addresses(processes)
    printed = driver.finish()
    assert addresses
    assert addresses <= LOOPBACK
    processors = len(os.sched_getaffinity(0))
    assert f"{processors} worker" in printed
    wait_until(lambda: not {process.number for process in processes} & running_processes())
    assert set(temporary.glob("ray-*")) <= before


def test_the_folder_of_a_killed_cluster_is_removed_at_the_next_start(
    drive: Drive, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that somebody else made, without its lock, stays."""
    temporary = Path(tempfile.mkdtemp(prefix="t", dir=tempfile.gettempdir()))
    monkeypatch.setenv("TMPDIR", str(temporary))
    other = temporary / "ray-other"
    other.mkdir()
    driver = drive(data, tmp_path / "run", "--ray", "local", "--dry-run")
    wait_until(lambda: list(temporary.glob("ray-*/ray/session_*")))
    [left] = [folder for folder in temporary.glob("ray-*") if folder != other]
    driver.kill()
    assert left.exists()
    drive(data, tmp_path / "run", "--ray", "local", "--dry-run").finish()
    assert list(temporary.iterdir()) == [other]
    shutil.rmtree(temporary)


def test_a_cluster_that_cannot_be_reached_is_an_error_within_20_seconds(
    data: Path, tmp_path: Path
) -> None:
    """Measured in the process, because a busy machine may take long to start it."""
    command = [sys.executable, "-c", UNREACHABLE, str(data), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    code, seconds = json.loads(done.stdout)
    assert (code, seconds < 20) == (1, True), done.stdout
    assert "there is no Ray cluster at 127.0.0.1:9" in done.stderr
    assert not (tmp_path / "run").exists()
