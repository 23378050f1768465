"""The wheel holds every bundled grammar and model, and no file that git ignores; what is imported is declared."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DISTRIBUTIONS = {"inspect_ai": ["inspect-ai"], "llama_index": ["llama-index-core"], **packages_distributions()}
OUR_MODULES = {
    "localjudge",
    "tests",
    "bare_llama",
    "benchmark",
    "corrected_coverage",
    "reference_judge",
    "interval_coverage",
    "made_up_vocabulary",
    "paired_coverage",
    "random_model",
}
TEXTS = {".py", ".md", ".toml", ".json", ".txt", ""}
BARE_NAME = re.compile(r"(?:pipx?3?|uv|uvx|poetry|pdm|conda)\s(?:[^\n.,;:&|]*\s)?['\"]?localjudge(?![\w./-])")


@pytest.fixture(scope="module")
def shipped() -> dict[str, str]:
    """The wheel's list of files from outside the package: where each stands, and where it goes."""
    included: dict[str, str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    return included


def declared(*extras: str) -> set[str]:
    """Distributions that `pyproject.toml` names, whatever their markers say."""
    project = PROJECT["project"]
    requirements = project["dependencies"] + [
        requirement for extra in extras for requirement in project["optional-dependencies"][extra]
    ]
    return {normalised(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


def normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported(source: str) -> Iterator[str]:
    """Top-level modules that a source imports from outside this project and the standard library."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
        modules = {name.partition(".")[0] for name in names}
        yield from modules - OUR_MODULES - sys.stdlib_module_names


def undeclared(source: str, names: set[str]) -> set[str]:
    """Modules that come from no declared distribution; one that is not installed here has the name of its own."""
    return {
        module
        for module in imported(source)
        if not names & {normalised(home) for home in DISTRIBUTIONS.get(module, [module])}
    }


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("localjudge", ["deepeval", "haystack", "inspect", "pandas", "parquet", "polars", "pytest", "ray"]),
        ("scripts", ["dev"]),
        ("tests", ["dev", "peers"]),
    ],
)
def test_what_is_imported_is_declared(folder: str, extras: list[str]) -> None:
    """Not left to what another package happens to need today: Outlines brings Jinja, and Haystack jsonschema."""
    scripts = [path for path in (ROOT / folder).glob("*") if path.is_file() and is_python(path)]
    sources = {path: path.read_text(encoding="utf-8") for path in [*(ROOT / folder).rglob("*.py"), *scripts]}
    found = {str(path.relative_to(ROOT)): undeclared(source, declared(*extras)) for path, source in sources.items()}
    assert sources
    assert not {path: modules for path, modules in found.items() if modules}


def is_python(path: Path) -> bool:
    """A script without an ending says by its first line what it is written in."""
    return not path.suffix and "python" in path.read_text(encoding="utf-8").partition("\n")[0]


def test_nobody_is_told_to_install_us_by_bare_name() -> None:
    """On the package index that name holds something of somebody else."""
    places = [ROOT, *(ROOT / folder for folder in ("localjudge", "scripts", "grammars", "models", "docs", ".ci"))]
    files = {path for place in places[1:] for path in place.rglob("*")} | set(ROOT.glob("*"))
    texts = [path for path in files if path.is_file() and path.suffix in TEXTS]
    told = {str(path): BARE_NAME.findall(path.read_text(encoding="utf-8")) for path in texts}
    assert len(told) > 100
    assert not {path: found for path, found in told.items() if found}


def test_every_grammar_is_shipped(shipped: dict[str, str]) -> None:
    """A grammar that is missing in the wheel breaks an installed localjudge only."""
    assert {f"grammars/{path.name}" for path in (ROOT / "grammars").glob("*.json")} <= set(shipped)


def test_every_bundled_model_is_shipped(shipped: dict[str, str]) -> None:
    """The registry and each file that it names relative to itself; one in another package is not ours to ship."""
    registry = tomllib.loads((ROOT / "models" / "registry.toml").read_text(encoding="utf-8"))
    bundled = {f"models/{model['file']}" for model in registry["model"] if "file" in model and "package" not in model}
    assert {"models/registry.toml", *bundled} <= set(shipped)


def test_files_are_listed_one_by_one_and_keep_their_place(shipped: dict[str, str]) -> None:
    """A folder listed whole would ship whatever lies in it."""
    for source, target in shipped.items():
        assert (ROOT / source).is_file()
        assert target == f"localjudge/{source}"


def test_shipped_files_are_not_ignored_by_git(shipped: dict[str, str]) -> None:
    """What ships is what is committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *shipped], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ignored.stdout == ""
