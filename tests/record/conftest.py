"""Run directories that a test may spoil."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def directory(sound: Path, tmp_path: Path) -> Path:
    """A copy of the run that the module names `sound`."""
    return shutil.copytree(sound, tmp_path / "run")
