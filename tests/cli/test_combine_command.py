"""Two judges by the command: the bundled one, and one of random weights; their runs are combined."""

import csv
import io
import json
from pathlib import Path

import pytest
import random_model

from tests.cli.conftest import called, suite_here

pytestmark = pytest.mark.engine

ROWS = [
    {"id": "eiffel", "retrieved_contexts": ["It opened in 1889."], "reference": "It opened in 1889. It is in Paris."},
    {"id": "mars", "retrieved_contexts": ["The king lives."], "reference": "Mars is red."},
]
RUN = ("run", "data.jsonl", "--metrics", "context_recall", "--threads", "1")


def done(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints that ends well."""
    code, output, errors = called(capfd, *arguments)
    assert code == 0, errors
    return output


def test_every_command_takes_a_combined_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    suite_here(min_legal_mass=0)
    random_model.write(Path("random.gguf"), random_model.byte_vocabulary())
    done(capfd, *RUN, "--judge", "random.gguf", "--out", "a")
    done(capfd, *RUN, "--judge", "reference", "--out", "b")
    said = " ".join(done(capfd, "combine", "a", "b", "--out", "both").split())
    assert "random + reference by mean log odds (reference: lexical, not for decisions)" in said
    said = " ".join(done(capfd, "verify", "both", "--quiet").split())
    assert "bit-identical: the same runs were combined again" in said
    assert f"combined from {Path('a').absolute()} and {Path('b').absolute()}: verify each of them, too" in said
    shown = json.loads(done(capfd, "show", "both", "eiffel", "--json"))
    assert [list(row["judges"]) for row in shown["verdicts"]] == [["random", "reference"]] * 2
    assert "random 0." in done(capfd, "show", "both", "eiffel")
    table = list(csv.DictReader(io.StringIO(done(capfd, "export", "both", "--format", "csv", "--rows", "verdicts"))))
    assert [float(row["p_yes of reference"]) for row in table] == [
        json.loads(line)["judges"]["reference"] for line in Path("both/verdicts.jsonl").read_text().splitlines()
    ]
    redacted = done(capfd, "redact", "both")
    assert len(json.loads(redacted.splitlines()[0])["judge"]["models"]) == 2
    done(capfd, "report", "both")
    assert "random + reference by mean log odds" in Path("both/report.html").read_text(encoding="utf-8")
    assert "the judges differ" not in done(capfd, "compare", "both", "both")
    assert called(capfd, "run", "--rescore", "both", "--threshold", "0.3")[0] == 1
