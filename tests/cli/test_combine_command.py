import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import random_model

from tests.cli.conftest import OPENINGS, Call, suite_here, write_rows

pytestmark = pytest.mark.engine

RUN = ("run", "data.jsonl", "--metrics", "context_recall", "--threads", "1")


def test_every_command_takes_a_combined_run(call: Call, output: Callable[..., str]) -> None:
    write_rows("data.jsonl", *OPENINGS)
    suite_here(min_legal_mass=0)
    random_model.write(Path("random.gguf"), random_model.byte_vocabulary())
    output(*RUN, "--judge", "random.gguf", "--out", "a")
    output(*RUN, "--judge", "reference", "--out", "b")
    said = " ".join(output("combine", "a", "b", "--out", "both").split())
    assert "random + reference by mean log odds (reference: lexical, not for decisions)" in said
    said = " ".join(output("verify", "both", "--quiet").split())
    assert "bit-identical: the same runs were combined again" in said
    assert f"combined from {Path('a').absolute()} and {Path('b').absolute()}: verify each of them, too" in said
    shown = json.loads(output("show", "both", "eiffel", "--json"))
    assert [list(row["judges"]) for row in shown["verdicts"]] == [["random", "reference"]] * 2
    assert "random 0." in output("show", "both", "eiffel")
    table = list(csv.DictReader(io.StringIO(output("export", "both", "--format", "csv", "--rows", "verdicts"))))
    assert [float(row["p_yes of reference"]) for row in table] == [
        json.loads(line)["judges"]["reference"] for line in Path("both/verdicts.jsonl").read_text().splitlines()
    ]
    output("report", "both")
    assert "random + reference by mean log odds" in Path("both/report.html").read_text(encoding="utf-8")
    assert "the judges differ" not in output("compare", "both", "both")
    assert call("run", "--rescore", "both", "--threshold", "0.3")[0] == 1
