import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
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
HEAVY = {
    "llama_cpp",
    "llguidance",
    "numpy",
    "outlines",
    "pydantic",
    "pyarrow",
    "rich",
    "scipy",
    "spacy",
}


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules of a fresh interpreter after the statement."""
    program = f"{statement}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_importing_localjudge_imports_nothing_heavy() -> None:
    """Public names are imported when they are used, so the import takes a millisecond."""
    loaded = modules_after("import localjudge")
    assert not loaded & HEAVY
    assert loaded - modules_after("import importlib, warnings") == {"localjudge"}


def test_building_the_command_line_imports_no_model_library() -> None:
    """So `localjudge --help` is fast."""
    loaded = modules_after("import localjudge.cli.main")
    assert not loaded & {"llama_cpp", "llguidance", "outlines", "spacy", "scipy", "pyarrow"}


def test_importing_localjudge_opens_no_socket_and_starts_no_thread() -> None:
    program = (
        "import socket, threading, sys\n"
        "def refuse(*a, **k): sys.exit('a socket was opened')\n"
        "socket.socket.__init__ = refuse\n"
        "import localjudge, localjudge.cli.main\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_two_classes_have_one_name() -> None:
    """Public ones."""
    seen = Counter(
        node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in seen.items() if count > 1 and not name.startswith("_")]


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield module and name of every import, name "" for `import module`, also in functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_imports_have_no_cycles() -> None:
    """Including imports in functions and for type checkers."""
    graph = {
        name: {
            f"{module}.{part}" if f"{module}.{part}" in MODULES else module
            for module, part in imports(tree)
        }
        for name, tree in TREES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_the_public_names_exist_and_are_few() -> None:
    assert dir(localjudge) == localjudge.__all__ == sorted(localjudge.__all__)
    assert len(localjudge.__all__) <= 18
    for name in (*localjudge.__all__, "__version__"):
        assert getattr(localjudge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = localjudge.nothing  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_public_names() -> None:
    """The stub imports each name from the module from which the package imports it."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    modules: dict[str, str | None] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            modules |= {alias.name: node.module for alias in node.names}
    for name, module in modules.items():
        assert module is not None
        assert getattr(import_module(module), name) is getattr(localjudge, name)
    assert sorted(modules) == localjudge.__all__


def test_a_unit_test_cannot_open_a_model(request: pytest.FixtureRequest) -> None:
    from localjudge.engine.llamacpp.model import llama_cpp

    assert request.node.get_closest_marker("unit")
    with pytest.raises(AssertionError, match=r"unit test .*lexical\.gguf"):
        llama_cpp.llama_model_load_from_file(
            bytes(resources.bundled_file("models", "lexical.gguf")), None
        )
