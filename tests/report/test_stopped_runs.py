import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import gate_file, printed_lines

from localjudge import InputError, Run, ScriptedEngine, calibrate, evaluate
from localjudge.cli.main import main
from tests.report.conftest import PageReader, one_each

ALWAYS_VALID = "the intervals are confidence sequences, which are valid at any stopping point"
GATE = "context_recall>=0.5"
ENGINE = ScriptedEngine({}, default=0.9)


def judged(out: Path, engine: ScriptedEngine = ENGINE, **options: Any) -> Run:
    metrics = ["context_recall"]
    return evaluate(one_each(60), metrics=metrics, engine=engine, out=out, **options)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All sentences are supported: few of 60 samples show that more than half are."""
    run = judged(tmp_path_factory.mktemp("stopped") / "run", until=[GATE])
    assert 5 < run.summary.samples < 30
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The gate is never decided."""
    return judged(tmp_path_factory.mktemp("whole") / "run", until=["context_recall>=0.999"])


def read_page_text(run: Run, *gates: str) -> str:
    with TemporaryDirectory() as folder:
        page = run.report(Path(folder) / "page.html", gates=gates).read_text(encoding="utf-8")
    return " ".join(PageReader(page).text.split())


def test_the_table_explains_the_stop_and_its_intervals(stopped: Run) -> None:
    count = stopped.summary.samples
    low = stopped["context_recall"].ci95[0]  # type: ignore[index]
    lines = printed_lines("show", stopped, "--details", width=200)
    why = f"context_recall 1.00 [{low:.2f}, 1.00], needs >= 0.5"
    assert f"stopped after {count} of 60 samples in random order (seed 0): {why}" in lines
    assert ALWAYS_VALID in lines
    assert [line for line in lines if "without --until" in line]
    assert f"next: localjudge report {stopped.directory}" in lines


def test_a_time_budget_ignores_scores(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", budget="0.000001s")
    lines = printed_lines("show", run, "--worst", "0", width=200)
    assert [
        line
        for line in lines
        if line.endswith("in random order (seed 0): the time is over (0.000001s)")
    ]
    assert ALWAYS_VALID not in lines
    assert f"next: localjudge label {run.directory}" in lines
    assert "Why the run ended: the time is over (0.000001s)" in read_page_text(run)
    assert run.label(tmp_path / "sheet.csv").exists()


def test_labels_of_a_stopped_run_are_refused_with_advice(stopped: Run, tmp_path: Path) -> None:
    for refused in (
        lambda: stopped.label(tmp_path / "sheet.csv"),
        lambda: stopped.read_labels(tmp_path / "sheet.csv"),
        lambda: calibrate(stopped),
    ):
        with pytest.raises(InputError, match=r"depends on its scores\n  hint: .* without until "):
            refused()
    assert not (tmp_path / "sheet.csv").exists()


def test_the_page_explains_the_stop(stopped: Run, whole: Run, tmp_path: Path) -> None:
    count = stopped.summary.samples
    text = read_page_text(stopped)
    assert f"{count} of 60 samples, in random order (seed 0), judged by scripted" in text
    assert "Why the run ended: context_rec" in text
    assert "No person has checked this." in text
    assert "localjudge label" not in text
    assert "It is a confidence sequence" in text
    assert "gate at least 0.5" in stopped.report(tmp_path / "page.html").read_text()
    assert (
        "60 samples, judged by scripted Why the run ended: all samples are judged: context_rec"
        in read_page_text(whole)
    )


def test_a_comparison_shows_only_intervals_valid_after_a_stop(stopped: Run, tmp_path: Path) -> None:
    after = judged(
        tmp_path / "after",
        ScriptedEngine({"Sentence 3.": 0.1, "Sentence 4.": 0.1}, default=0.9),
    )
    comparison = after.compare(stopped)
    change = comparison.metrics["context_recall"]
    assert change.scores
    assert change.verdicts
    assert (change.scores.method, change.verdicts.ci95) == ("confidence sequence", None)
    lines = printed_lines("compare", stopped, after, width=200)
    assert ALWAYS_VALID in lines
    gates = ["context_recall.delta>=-0.5"]
    assert ALWAYS_VALID in gate_file("markdown", after, gates, baseline=stopped)
    page = after.report(tmp_path / "page.html", baseline=stopped).read_text(encoding="utf-8")
    assert ALWAYS_VALID in page
    assert ALWAYS_VALID not in printed_lines("compare", after, after, width=200)


@pytest.mark.engine
def test_machine_readable_outputs_name_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{**row, "reference": "A context."} for row in one_each(40)]
    Path("data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = ("--junit", "gates.xml", "--markdown", "run.md")
    texts = []
    for command in (
        ["run", "data.jsonl", "--until", GATE, "--out", "u", *files, "--json"],
        ["show", "u", "--json"],
    ):
        with pytest.raises(SystemExit, match=r"^0$"):
            main(command)
        texts.append(json.loads(capsys.readouterr().out)["stopped"])
    assert texts[0].startswith("after ")
    assert texts[1] == texts[0]
    assert f"stopped {texts[0]}" in Path("run.md").read_text()
    named = {
        item.get("name"): item.get("value")
        for item in ElementTree.parse("gates.xml").iter("property")
    }
    assert named["stopped"] == texts[0]
