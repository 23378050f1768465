"""The main job, observed by strace, makes no connection and runs without a network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

STRACE = ["strace", "-f", "-qq", "-e", "trace=socket,connect", "-o"]
INTERNET_SOCKET = re.compile(r"socket\(AF_INET6?,|connect\([^)]*AF_INET6?")


def works(*command: str) -> bool:
    """Return whether the system permits the command."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    if not works(*STRACE, str(tmp_path / "tried.log")):
        pytest.skip("NOT CHECKED: strace cannot trace here, so nobody watched for internet sockets")
    return tmp_path / "strace.log"


def test_the_main_job_opens_no_internet_socket(tmp_path: Path, log: Path) -> None:
    """No process of `localjudge run --demo` opens an internet socket."""
    namespace = ["unshare", "-rn"] if works("unshare", "-rn") else []
    run = [sys.executable, "-m", "localjudge", "run", "--demo", "--quiet", "--out", str(tmp_path / "run")]
    subprocess.run([*STRACE, str(log), *namespace, *run], check=True, cwd=tmp_path)
    calls = [line for line in log.read_text(errors="replace").splitlines() if INTERNET_SOCKET.search(line)]
    assert calls == []
    assert (tmp_path / "run" / "summary.json").is_file()
    if not namespace:
        pytest.skip("watched by strace, but NOT in a network namespace: unshare -rn is not allowed here")


def test_a_run_with_a_model_file_imports_no_network_module(tmp_path: Path) -> None:
    """They are imported only for a judge behind an address."""
    program = (
        "import sys, localjudge.engine.opening, localjudge.run.judges\n"
        "assert 'http.client' not in sys.modules\n"
        f"import localjudge; localjudge.evaluate([{{'id': 'a', 'retrieved_contexts': ['x'], 'response': 'x y.'}}],"
        f" metrics=['faithfulness'], out={str(tmp_path / 'run')!r})\n"
        "assert 'localjudge.engine.server.connection' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_control_an_internet_socket_is_detected(log: Path) -> None:
    program = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()"
    subprocess.run([*STRACE, str(log), sys.executable, "-c", program], check=True)
    assert INTERNET_SOCKET.search(log.read_text(errors="replace"))
