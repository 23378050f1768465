import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

from reference_judge.model_file import model_bytes
from reference_judge.scalars import Scalars
from reference_judge.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parents[2]


def test_the_build_gives_the_pinned_bytes() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "build-reference-judge"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_committed_file_is_the_pinned_one() -> None:
    row = tomllib.loads((ROOT / "models" / "registry.toml").read_text(encoding="utf-8"))["model"][0]
    data = (ROOT / "models" / "reference-judge.gguf").read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (row["size"], row["sha256"])


def test_building_twice_gives_the_same_bytes(words: Vocabulary, numbers: Scalars) -> None:
    assert model_bytes(words, numbers) == model_bytes(words, numbers)
