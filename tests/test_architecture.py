"""What must stay true of the package as a whole."""

import ast
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import localjudge
from localjudge import resources

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "localjudge"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
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
def test_a_module_says_why_it_exists(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))


NAMED_LIKE_ANOTHER = {
    "engine": "the class that the package is named after",
    "run": "the process, and what it left behind",
}
"""Names of modules that occur twice, each with its reason. Chapters of `cli/` may be named like what they run."""


def test_no_two_modules_have_one_name() -> None:
    """A reader who hears a name knows the file."""
    names = [name for name in MODULES if not name.startswith("localjudge.cli.") and not name.endswith("__main__")]
    seen = Counter(name.rpartition(".")[2] for name in names)
    assert {name for name, count in seen.items() if count > 1} == NAMED_LIKE_ANOTHER.keys()


def test_no_two_classes_have_one_name() -> None:
    """Public ones, in all of the package; but a run's record is a `Run`, as is what Python's users have of it."""
    seen = Counter(node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in seen.items() if count > 1 and not name.startswith("_")] == ["Run"]


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of every `from module import name`, name "" for `import module`; late imports, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_no_imports_go_in_a_circle() -> None:
    """Not even late ones, which a function makes when it is called, and those for type checkers alone."""
    graph = {
        name: {f"{module}.{part}" if f"{module}.{part}" in MODULES else module for module, part in imports(tree)}
        for name, tree in TREES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_the_public_names_are_there_and_few() -> None:
    assert dir(localjudge) == localjudge.__all__ == sorted(localjudge.__all__)
    assert len(localjudge.__all__) <= 18
    for name in (*localjudge.__all__, "__version__"):
        assert getattr(localjudge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = localjudge.nothing  # type: ignore[attr-defined]


def test_the_import_takes_less_than_150_milliseconds() -> None:
    """Measured in fresh interpreters against importing nothing; the best of five each, as others use the machine."""

    def seconds(program: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        return time.perf_counter() - started

    imported, nothing = (min(seconds(statement) for _ in range(5)) for statement in ("import localjudge", "pass"))
    assert imported - nothing < 0.15


def test_a_unit_test_cannot_open_a_model(request: pytest.FixtureRequest) -> None:
    """Not even the bundled one."""
    from localjudge.engine.llamacpp.model import llama_cpp

    assert request.node.get_closest_marker("unit")
    with pytest.raises(AssertionError, match=r"a unit test tried to open the model .*reference-judge\.gguf"):
        llama_cpp.llama_model_load_from_file(bytes(resources.bundled_file("models", "reference-judge.gguf")), None)
