"""Each benchmark can be started with this version of localjudge."""

import subprocess
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent
SCRIPTS = sorted(path.name for path in _FOLDER.iterdir() if path.is_file() and not path.suffix)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_explains_its_options(script: str) -> None:
    """Its imports exist, which are read before its options."""
    command = [sys.executable, str(_FOLDER / script), "--help"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
