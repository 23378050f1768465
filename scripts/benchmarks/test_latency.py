"""The benchmark of waiting times measures each of its rows."""

import re
import subprocess
import sys
from pathlib import Path


def test_each_row_is_measured() -> None:
    command = [sys.executable, str(Path(__file__).with_name("latency")), "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    header, _, *rows = done.stdout.splitlines()
    assert header == "| what | seconds |"
    measured = dict(re.findall(r"^\| (.*) \| (\d+\.\d{3}) \|$", "\n".join(rows), re.MULTILINE))
    assert len(measured) == len(rows) == 10
    assert float(measured["import localjudge"]) <= float(
        measured["from localjudge import evaluate"]
    )
