"""Evidence on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Output = Callable[..., str]
ROW = {
    "id": "danube",
    "retrieved_contexts": ["The Rhine ends in the Netherlands.", "The Danube rises in Germany."],
    "reference": "The Danube rises in Germany.",
}

pytestmark = pytest.mark.engine


@pytest.fixture
def data(folder: Path) -> Path:
    file = folder / "data.jsonl"
    file.write_text(json.dumps(ROW), encoding="utf-8")
    return file


def judged(output: Output, data: Path, *options: str) -> None:
    output("run", data, "--judge", "lexical", "--out", "run", "--quiet", *options)


def test_show_prints_evidence_as_json(output: Output, data: Path) -> None:
    judged(output, data, "--metrics", "context_recall")

    [verdict] = json.loads(output("show", "run", "danube", "--json"))["verdicts"]
    [closest] = verdict["evidence"]
    assert (closest["context"], closest["start"], closest["end"]) == (1, 0, 28)
    assert closest["text"] == ROW["reference"]
    assert closest["supports"] is True


def test_no_evidence_leaves_it_out(output: Output, data: Path, folder: Path) -> None:
    judged(output, data, "--metrics", "context_recall", "--no-evidence")

    assert not (folder / "run" / "evidence.jsonl").exists()
    [verdict] = json.loads(output("show", "run", "danube", "--json"))["verdicts"]
    assert verdict["evidence"] == []


def test_a_configuration_file_leaves_it_out(output: Output, data: Path, folder: Path) -> None:
    (folder / "localjudge.toml").write_text("no_evidence = true\n", encoding="utf-8")

    judged(output, data, "--metrics", "context_recall")

    assert not (folder / "run" / "evidence.jsonl").exists()


def test_export_has_the_columns(output: Output, data: Path, folder: Path) -> None:
    judged(output, data, "--metrics", "context_recall")

    output("export", "run", "--out", "verdicts.csv", "--format", "csv", "--rows", "verdicts")

    heading, row = (folder / "verdicts.csv").read_text(encoding="utf-8").splitlines()
    assert "evidence_context,evidence_start,evidence_end,evidence_text" in heading
    assert row.count(str(ROW["reference"])) == 2
