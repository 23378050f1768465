import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call, config_here
from tests.conftest import ScriptedRun

ROW: dict[str, Any] = {"id": "a", "reference": "It rains.", "retrieved_contexts": ["It rains."]}


@pytest.fixture
def folder(folder: Path, scripted_run: ScriptedRun) -> Path:
    """Working directory with the runs `old` (all unsupported) and `new` (all supported)."""
    scripted_run("old", [ROW], {"It rains.": 0.0})
    scripted_run("new", [ROW], {})
    return folder


def test_a_report_is_written_into_the_run_with_an_escaped_title(folder: Path, call: Call) -> None:
    code, output, errors = call("report", "new", "--title", "Ward <b> 7")
    assert (code, output.split(), errors) == (0, ["report", "new/report.html"], "")
    page = (folder / "new" / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>Ward &lt;b&gt; 7</title>" in page
    assert call("report", "new", "--out", "a\x1b[2J.html")[1].strip() == "report a\\x1b[2J.html"


def test_only_a_certificate_has_a_language(folder: Path, call: Call) -> None:
    code, _, errors = call("report", "new", "--language", "es")
    assert (code, errors.splitlines()[0]) == (
        1,
        "localjudge: --language is the language of a certificate",
    )
    assert not (folder / "new" / "report.html").exists()
    code, _, errors = call("report", "new", "--certificate", "c.html", "--language", "it")
    assert (code, "'it' is not one of 'en', 'de', 'fr', 'es'" in errors) == (1, True)


@pytest.mark.parametrize(
    "others", [("--baseline", "old"), ("--out", "page.html"), ("--allow-different", "judges")]
)
def test_a_certificate_refuses_the_options_of_a_report(
    others: tuple[str, str], folder: Path, call: Call
) -> None:
    code, _, errors = call("report", "new", "--certificate", "c.html", *others)
    assert code == 1
    assert others[0] in errors
    assert ("--against" in errors) == ("--baseline" in others)
    assert not (folder / "c.html").exists()


def test_a_report_shows_slices_of_a_column(folder: Path, call: Call) -> None:
    assert call("report", "new", "--by", "ward")[2].startswith(
        "localjudge: the run has no column ward"
    )
    assert not (folder / "new" / "report.html").exists()
    assert call("report", "new", "--by", "ward", "--certificate", "c.html")[0] == 1


def test_a_report_has_comparison_gates_and_another_path(folder: Path, call: Call) -> None:
    """1 against 0 on one sample: the gate at -1 passes, 0.9 is undecided."""
    arguments = (
        "report",
        "new",
        "--baseline",
        "old",
        "--out",
        "page.html",
        "--gate",
        "context_recall.delta>=-1",
    )
    code, output, _ = call(*arguments)
    assert code == 0
    assert "a: context_recall 1.000, was 0.000" in output
    code, output, _ = call(*arguments, "--gate", "context_recall.delta>=0.9", "--json")
    said = json.loads(output)
    assert code == 3
    assert (said["file"], said["bytes"]) == ("page.html", (folder / "page.html").stat().st_size)
    assert [decision["outcome"] for decision in said["gates"]] == ["pass", "undecided"]
    assert said["comparison"]["samples"]["by_id"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none",), "none contains no run"),
        (("new", "--out", "old"), "old is a directory"),
        (("new", "--gate", "context_recall.delta>=0"), "needs a baseline"),
        (("new", "--baseline", "none"), "none contains no run"),
    ],
)
def test_an_unwritable_report_is_refused(
    folder: Path, call: Call, arguments: tuple[str, ...], said: str
) -> None:
    code, output, errors = call("report", *arguments)
    assert (code, output) == (1, "")
    assert said in errors
    assert not (folder / "new" / "report.html").exists()


def test_a_certificate_is_written_instead_of_a_report(folder: Path, call: Call) -> None:
    assert call("report", "new", "--certificate", "c.html") == (0, " certificate c.html\n", "")
    assert "about 100 % of the sentences" in (folder / "c.html").read_text()
    assert call("report", "new", "--certificate", "c.html", "--language", "fr")[0] == 0
    french = (
        "Dans une réponse de référence moyenne, "
        "environ 100\u00a0% des phrases sont étayées par les documents"
    )
    assert french in (folder / "c.html").read_text(encoding="utf-8")
    assert not (folder / "new" / "report.html").exists()
    code, _, _ = call("report", "new", "--certificate", "c.html", "--gate", "context_recall>=0.5")
    assert code == 3  # two samples decide nothing
    assert "context_recall&gt;=0.5" in (folder / "c.html").read_text()
    code, _, errors = call("report", "new", "--certificate", "c.html", "--out", "page.html")
    assert code == 1
    assert "omit --out" in errors


def test_the_certificate_of_an_altered_run_is_exit_code_3(folder: Path, call: Call) -> None:
    scores = folder / "new" / "scores.jsonl"
    scores.write_text(scores.read_text().replace('"score": 1.0', '"score": 0.9'))
    code, output, _ = call("report", "new", "--certificate", "c.html", "--json")
    said = json.loads(output)
    problems = [
        "scores.jsonl was changed: its sha256 differs from manifest.json",
        "scores.jsonl does not follow from the stored answers (row 1)",
    ]
    assert (code, said) == (3, {"file": "c.html", "problems": problems})
    assert f"<li><bdi>{problems[0]}</bdi></li>" in (folder / "c.html").read_text()


def test_compare_gives_the_whole_comparison_as_json(folder: Path, call: Call) -> None:
    code, output, errors = call("compare", "old", "new", "--json", "--moved", "0")
    comparison = json.loads(output)
    assert (code, errors, comparison["schema_version"]) == (0, "", 1)
    assert comparison["metrics"]["context_recall"]["scores"]["difference"] == 1.0
    assert comparison["metrics"]["context_recall"]["moved"] == []
    assert comparison["judge_changes"] == []


@pytest.mark.engine
def test_run_writes_its_report(folder: Path, call: Call) -> None:
    (folder / "data.jsonl").write_text(json.dumps(ROW))
    arguments = (
        "run",
        "data.jsonl",
        "--metrics",
        "context_recall",
        "--quiet",
        "--threads",
        "1",
        "--out",
        "run",
    )
    assert call(*arguments)[0] == 0
    assert not (folder / "run" / "report.html").exists()
    config_here(report=True)
    code, output, _ = call(*arguments, "--gate", "context_recall>=0.01")
    assert code == 0
    assert output.rstrip().endswith("report run/report.html")
    assert "context_recall&gt;=0.01" in (folder / "run" / "report.html").read_text()
    assert json.loads(call(*arguments, "--json")[1])["report"] == "run/report.html"
