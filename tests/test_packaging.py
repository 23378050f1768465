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
REGISTRY = tomllib.loads((ROOT / "models" / "registry.toml").read_text(encoding="utf-8"))
MODELS = REGISTRY["model"]
ADAPTERS = REGISTRY["adapter"]
TEXTS = {".py", ".md", ".toml", ".json", ".txt", ""}
BARE_NAME = re.compile(
    r"(?:pipx?3?|uv|uvx|poetry|pdm|conda)\s(?:[^\n.,;:&|]*\s)?['\"]?localjudge(?![\w./-])"
)


@pytest.fixture(scope="module")
def shipped() -> dict[str, str]:
    included: dict[str, str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"][
        "force-include"
    ]
    return included


def test_no_text_recommends_installing_by_bare_name() -> None:
    """That name on the package index belongs to another project."""
    places = [
        ROOT,
        *(
            ROOT / folder
            for folder in ("localjudge", "scripts", "grammars", "models", "docs", ".ci")
        ),
    ]
    files = {path for place in places[1:] for path in place.rglob("*")} | set(ROOT.glob("*"))
    texts = [path for path in files if path.is_file() and path.suffix in TEXTS]
    told = {str(path): BARE_NAME.findall(path.read_text(encoding="utf-8")) for path in texts}
    assert len(told) > 100
    assert not {path: matches for path, matches in told.items() if matches}


def test_every_grammar_and_bundled_model_is_shipped(shipped: dict[str, str]) -> None:
    """Listed individually with their paths, as a whole folder could ship stray files. Other
    packages ship theirs.
    """
    wanted = {f"grammars/{path.name}" for path in (ROOT / "grammars").glob("*.json")} | {
        "models/registry.toml"
    }
    wanted |= {
        f"models/{model['file']}" for model in MODELS if "file" in model and "package" not in model
    }
    wanted |= {f"models/{adapter['file']}" for adapter in ADAPTERS}
    assert wanted <= shipped.keys()
    assert all(
        (ROOT / source).is_file() and target == f"localjudge/{source}"
        for source, target in shipped.items()
    )
    if (ROOT / ".git").exists():
        ignored = ["git", "check-ignore", "--no-index", *shipped]
        assert subprocess.run(ignored, cwd=ROOT, capture_output=True, check=False).stdout == b""


def test_the_bundled_judge_is_the_pinned_one() -> None:
    row = next(model for model in MODELS if model["name"] == "lexical")
    content = (ROOT / "models" / row["file"]).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (row["size"], row["sha256"])
