"""Test the memory of a large run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine


@pytest.mark.slow
def test_a_large_run_needs_the_documented_memory() -> None:
    """From 10,000 to 60,000 samples, memory stays below 300 MiB; a stopped run resumes."""
    peaks = {}
    for count in (10_000, 60_000):
        measure = [
            sys.executable,
            str(Path(__file__).with_name("bench-large")),
            str(count),
            "--stop-at",
            "0.9",
        ]
        printed = subprocess.run(measure, check=True, capture_output=True, text=True).stdout
        to_stop, resumed = (
            float(line.split()[0]) for line in printed.splitlines() if "peak memory" in line
        )
        peaks[count] = max(map(int, re.findall(r"peak memory (\d+) MiB", printed)))
        assert resumed < to_stop, printed
    assert peaks[60_000] < 300
    assert peaks[60_000] < 2 * peaks[10_000]
