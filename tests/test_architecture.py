"""What must stay true of the package as a whole."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "localjudge"
HEAVY = {"llama_cpp", "llguidance", "numpy", "outlines", "pydantic", "pyarrow", "rich", "scipy", "spacy"}


def modules_after(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after the statement."""
    program = f"{statement}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_localjudge_imports_nothing_heavy() -> None:
    """The heavy libraries come when something needs them."""
    assert not modules_after("import localjudge") & HEAVY


def test_building_the_command_line_imports_no_model_library() -> None:
    """`localjudge --help` must answer at once."""
    loaded = modules_after("import localjudge.cli.main")
    assert not loaded & {"llama_cpp", "llguidance", "outlines", "spacy", "scipy", "pyarrow"}


def test_importing_localjudge_opens_no_socket_and_starts_no_thread() -> None:
    """No telemetry, no update check: nothing runs because of an import."""
    program = (
        "import socket, threading, sys\n"
        "def refuse(*a, **k): sys.exit('a socket was opened')\n"
        "socket.socket.__init__ = refuse\n"
        "import localjudge, localjudge.cli.main\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_is_one_readable_idea(module: Path) -> None:
    """At most 400 lines, and a docstring that says why the module exists."""
    source = module.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(source))


def test_no_module_is_a_drawer() -> None:
    """Files are named after ideas."""
    drawers = {"utils", "util", "helpers", "common", "misc", "manager", "base"}
    assert not [path for path in PACKAGE.rglob("*.py") if path.stem in drawers]
