import hashlib
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEXTS = {".py", ".md", ".toml", ".json", ".txt", ""}
BARE_NAME = re.compile(r"(?:pipx?3?|uv|uvx|poetry|pdm|conda)\s(?:[^\n.,;:&|]*\s)?['\"]?localjudge(?![\w./-])")


@pytest.fixture(scope="module")
def shipped() -> dict[str, str]:
    included: dict[str, str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    return included


def test_no_text_recommends_installing_by_bare_name() -> None:
    """That name on the package index belongs to another project."""
    places = [ROOT, *(ROOT / folder for folder in ("localjudge", "scripts", "grammars", "models", "docs", ".ci"))]
    files = {path for place in places[1:] for path in place.rglob("*")} | set(ROOT.glob("*"))
    texts = [path for path in files if path.is_file() and path.suffix in TEXTS]
    told = {str(path): BARE_NAME.findall(path.read_text(encoding="utf-8")) for path in texts}
    assert len(told) > 100
    assert not {path: found for path, found in told.items() if found}


def test_every_grammar_is_shipped(shipped: dict[str, str]) -> None:
    assert {f"grammars/{path.name}" for path in (ROOT / "grammars").glob("*.json")} <= set(shipped)


def test_every_bundled_model_is_shipped(shipped: dict[str, str]) -> None:
    """The registry and the files it names by relative paths. Other packages ship theirs."""
    registry = tomllib.loads((ROOT / "models" / "registry.toml").read_text(encoding="utf-8"))
    bundled = {f"models/{model['file']}" for model in registry["model"] if "file" in model and "package" not in model}
    assert {"models/registry.toml", *bundled} <= set(shipped)


def test_the_bundled_judge_is_the_pinned_one() -> None:
    registry = tomllib.loads((ROOT / "models" / "registry.toml").read_text(encoding="utf-8"))
    row = next(model for model in registry["model"] if model["name"] == "reference")
    content = (ROOT / "models" / row["file"]).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (row["size"], row["sha256"])


def test_shipped_files_are_listed_individually_with_their_paths(shipped: dict[str, str]) -> None:
    """A whole folder could ship stray files."""
    for source, target in shipped.items():
        assert (ROOT / source).is_file()
        assert target == f"localjudge/{source}"


def test_shipped_files_are_not_ignored_by_git(shipped: dict[str, str]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *shipped], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ignored.stdout == ""
