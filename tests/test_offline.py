"""No module can open a connection, and the main job, observed by strace, opens no socket and needs
no network.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import localjudge

pytestmark = pytest.mark.engine

STRACE = ["strace", "-f", "-qq", "-e", "trace=socket,connect", "-o"]
INTERNET_SOCKET = re.compile(r"socket\(AF_INET6?,|connect\([^)]*AF_INET6?")

NETWORK = {
    *(
        "_socket",
        "aiohttp",
        "asyncio",
        "ftplib",
        "http",
        "httpx",
        "huggingface_hub",
        "imaplib",
        "poplib",
        "ray",
        "requests",
    ),
    *(
        "smtplib",
        "socket",
        "socketserver",
        "ssl",
        "urllib",
        "urllib3",
        "webbrowser",
        "websockets",
        "wsgiref",
        "xmlrpc",
    ),
}


def network_names(program: str) -> Iterator[str]:
    """Yield each imported module that can open a connection, and each attribute that is used of two
    of them.
    """
    for node in ast.walk(ast.parse(program)):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module), level=0):
                names = [f"{module}.{alias.name}" for alias in node.names]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                names = [name]
            case ast.Attribute(value=ast.Name(id="asyncio" | "socket" as module), attr=attribute):
                names = [f"{module}.{attribute}"]
        yield from (name for name in names if name.partition(".")[0] in NETWORK)


def test_no_module_imports_a_network_client() -> None:
    """Of two modules one name is used: a thread, and the flag that keeps spaCy's client from
    opening a socket. Ray is imported where a cluster was named.
    """
    package = Path(localjudge.__file__).parent
    modules = {
        path: set(network_names(path.read_text(encoding="utf-8"))) for path in package.rglob("*.py")
    }
    assert len(modules) > 100
    used = {path.relative_to(package).as_posix(): names for path, names in modules.items() if names}
    assert used == {
        "engine/cluster.py": {"ray"},
        "engine/ray_engine.py": {
            "ray",
            "ray.exceptions.RayError",
            "ray.exceptions.RayTaskError",
            "ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy",
        },
        "integrations/deepeval.py": {"asyncio", "asyncio.to_thread"},
        "text/segmenter.py": {"socket", "socket.has_ipv6"},
    }


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("def f():\n import http.client as c", "http.client"),
        ("from urllib import request", "urllib.request"),
        ("from socket import create_connection", "socket.create_connection"),
        ("import_module('ssl')", "ssl"),
    ],
)
def test_control_a_network_client_is_found(program: str, name: str) -> None:
    assert list(network_names(program)) == [name]


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
    namespace = ["unshare", "-rn"] if works("unshare", "-rn") else []
    run = [
        sys.executable,
        "-m",
        "localjudge",
        "run",
        "--demo",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
    ]
    subprocess.run([*STRACE, str(log), *namespace, *run], check=True, cwd=tmp_path)
    calls = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if INTERNET_SOCKET.search(line)
    ]
    assert calls == []
    assert (tmp_path / "run" / "summary.json").is_file()
    if not namespace:
        pytest.skip(
            "watched by strace, but NOT in a network namespace: unshare -rn is not allowed here",
        )


@pytest.mark.parametrize("action", ["evaluate", "connect"])
def test_a_run_in_this_process_makes_no_socket(tmp_path: Path, action: str) -> None:
    """Python reports each socket and each look-up of a name to an audit hook; the control makes
    one. Without a cluster, nothing of Ray is imported.
    """
    program = (
        "import sys, socket, localjudge\n"
        "def refuse(event, values):\n"
        "    if event.startswith('socket.') and event != 'socket.gethostname':\n"
        "        raise SystemExit(7)\n"
        "sys.addaudithook(refuse)\n"
        "def connect(): socket.create_connection(('127.0.0.1', 9))\n"
        "def evaluate():\n"
        "    rows = [{'id': 'a', 'retrieved_contexts': ['x'], 'response': 'x y.'}]\n"
        f"    out = {str(tmp_path / 'run')!r}\n"
        "    run = localjudge.evaluate(rows, metrics=['faithfulness'], out=out)\n"
        "    assert run.verify() and run.report('page.html')\n"
        "    assert not {'ray', 'localjudge.engine.ray_engine'} & sys.modules.keys()\n"
        f"{action}()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=tmp_path)
    assert done.returncode == (0 if action == "evaluate" else 7)


def test_control_an_internet_socket_is_detected(log: Path) -> None:
    program = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()"
    subprocess.run([*STRACE, str(log), sys.executable, "-c", program], check=True)
    assert INTERNET_SOCKET.search(log.read_text(errors="replace"))
