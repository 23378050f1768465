"""The benchmark runs to its end, and its table says what its figures are made of."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_benchmark_measures_every_way_of_asking(tmp_path: Path) -> None:
    """A tiny model, the bundled samples: seven ways in turns, four at once, nothing evaluated twice."""
    model, report = tmp_path / "model.gguf", tmp_path / "report.json"
    make = [sys.executable, str(ROOT / "scripts" / "random_model.py"), str(model), "--context", "8192"]
    measure = [sys.executable, str(ROOT / "scripts" / "bench"), "--model", str(model), "--threads", "1"]
    subprocess.run(make, check=True, capture_output=True)
    printed = subprocess.run([*measure, "--json", str(report)], check=True, capture_output=True, text=True).stdout
    found = json.loads(report.read_text(encoding="utf-8"))
    [turns] = found["in_turns"].values()
    assert len(turns["rows"]) == 7
    assert len(found["at_once"]["rows"]) == 4
    assert all(row["name"] in printed for row in turns["rows"])
    assert found["at_once"]["figures"]["evaluated / unique"] <= 1.02
