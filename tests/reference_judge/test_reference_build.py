import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from reference_judge import committed

pytestmark = pytest.mark.engine

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build-reference-judge"


def test_the_build_gives_the_pinned_bytes() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_committed_file_is_the_pinned_one() -> None:
    tables = tomllib.loads((committed.MODELS / "registry.toml").read_text(encoding="utf-8"))["model"]
    row = next(table for table in tables if table["name"] == "reference")
    data = committed.MODEL.read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (row["size"], row["sha256"])
