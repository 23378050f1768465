"""The scripts of the repository use names that the package has."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def is_python(path: Path) -> bool:
    """Return whether a file is Python: a script without an ending by its first line."""
    if path.suffix or not path.is_file():
        return path.suffix == ".py"
    return path.read_bytes().startswith(b"#!/usr/bin/env python3\n")


def list_scripts() -> list[Path]:
    files: list[Path] = []
    for folder in ("scripts", "models"):
        files += filter(is_python, (ROOT / folder).rglob("*"))
    return sorted(files)


def exists(module: str, name: str) -> bool:
    """Return whether a module has a name, or a package such a module."""
    if hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("path", list_scripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_names_that_a_script_imports_from_the_package_exist(path: Path) -> None:
    """Neither mypy nor a test looks at scripts without the ending .py."""
    missing: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.partition(".")[0] != "localjudge":
            continue
        for name in node.names:
            if not exists(node.module, name.name):
                missing.append(f"{node.module}.{name.name}")
    assert not missing
