import copy
import csv
import inspect
import io
import json
import pickle
import re
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import localjudge
from localjudge import Run, ScriptedEngine
from localjudge.judging.settings import SETTINGS
from localjudge.metrics import catalog

ROW = {"id": "a", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."}


def evaluated(out: Path, **options: Any) -> Run:
    return localjudge.evaluate(
        [ROW], engine=ScriptedEngine({"It rains.": 1.0}, default=0.0), out=out, **options
    )


def test_every_setting_is_an_argument_that_help_explains() -> None:
    """Declared, so that editors complete them; `criteria` are metrics in Python."""
    parameters = inspect.signature(localjudge.evaluate).parameters
    assert SETTINGS.keys() - {"criteria"} <= parameters.keys()
    words = " ".join((localjudge.evaluate.__doc__ or "").split())
    for name in parameters:
        assert re.search(rf"\b{name}(, \w+)?: |, {name}: ", words), name
    assert "--" not in words
    for name in catalog.our_names():
        assert name in words


class _Terminal(io.StringIO):
    """Stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("progress", "stream", "shell", "heard"),
    [
        (None, io.StringIO, "", ""),
        (None, _Terminal, "TerminalInteractiveShell", "stderr"),
        (None, io.StringIO, "ZMQInteractiveShell", "stdout"),
        (True, io.StringIO, "", "stderr"),
        (False, _Terminal, "", ""),
    ],
)
def test_progress_is_shown_on_terminals_and_in_notebooks_by_default(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    progress: bool | None,
    stream: Any,
    shell: str,
    heard: str,
) -> None:
    """Notebooks show stderr in red. Without widgets for a bar, lines are printed."""
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=type(shell or "None", (), {}))
    )
    monkeypatch.setattr("localjudge.report.terminal.find_spec", lambda _name: None)
    streams = {"stdout": io.StringIO(), "stderr": stream()}
    for name, place in streams.items():
        monkeypatch.setattr(sys, name, place)
    evaluated(tmp_path, progress=progress)
    assert [name for name, place in streams.items() if "asked 2 questions" in place.getvalue()] == [
        heard
    ][: len(heard)]


def test_a_run_is_a_mapping_of_its_metrics(tmp_path: Path) -> None:
    run = evaluated(tmp_path, metrics=["context_recall"])
    assert isinstance(run, Mapping)
    assert (list(run), len(run), "faithfulness" in run) == (["context_recall"], 1, False)
    metric = run["context_recall"]
    assert (
        metric.model_dump(exclude={"corrected", "pooled"})
        == run.summary.metrics["context_recall"].model_dump()
    )
    assert (metric.corrected, metric.mean) == (None, 0.5)
    assert dict(run) == {"context_recall": metric}
    assert (run.get("context_recall"), run.get("faithfulness")) == (metric, None)
    with pytest.raises(KeyError, match=r"'recall'.*context_recall"):
        run["recall"]


def test_the_example_gates_of_help_are_valid(tmp_path: Path) -> None:
    gates = re.findall(r'"(\S+>=\S+)"', inspect.getdoc(Run.check) or "")
    assert len(gates) == 2
    run = evaluated(tmp_path, metrics=["context_recall"])
    assert len(run.check(gates, baseline=run).decisions) == 2


def test_runs_of_one_directory_are_equal(tmp_path: Path) -> None:
    """Also in sets."""
    run = evaluated(tmp_path / "a", metrics=["context_recall"])
    same = Run.open(tmp_path / "a")
    assert (run == same, same == run, len({run, same})) == (True, True, 1)
    other = evaluated(tmp_path / "b", metrics=["context_recall"])
    assert run != other
    assert run != dict(run)


def test_notes_are_logged_and_kept_with_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = {"question": "Where?", "contexts": ["Rain."], "gold_standard": "It rains.", "zone": "z"}
    with caplog.at_level("INFO", logger="localjudge"):
        run = localjudge.evaluate(
            [row], engine=ScriptedEngine({}, default=1.0), out=tmp_path, progress=False
        )
    for said in ("columns not used: gold_standard, zone", "no column for reference"):
        assert any(said in note for note in run.notes)
        assert said in caplog.text
    assert (Run.open(tmp_path), Run.open(tmp_path).notes) == (run, ())


def test_a_run_has_methods_for_all_analyses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = evaluated(tmp_path / "run", metrics=["context_recall"])
    stricter = localjudge.evaluate(
        reuse=run,
        threshold=1.0,
        engine=ScriptedEngine({"It rains.": 1.0}, default=0.0),
        out=tmp_path / "stricter",
    )
    assert stricter.manifest.environment.as_json["answers"]["asked"] == 0
    assert stricter.compare(run).metrics["context_recall"].scores is not None
    assert not run.check("context_recall>=0.9").passed
    assert run.report().name == "report.html"
    assert run.export(tmp_path / "scores.csv").read_text().startswith("sample_id,metric")
    assert run.export(tmp_path / "SCORES.CSV").read_text().startswith("sample_id,metric")
    assert run.label(tmp_path / "page.html", sample=2).exists()
    assert run.label(tmp_path / "PAGE.HTML", sample=2).read_text().startswith("<!doctype html>")
    assert run.label(tmp_path / "sheet.csv", sample=2).exists()
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        next(file)  # the instruction
        rows = [{**row, "human": 1} for row in csv.DictReader(file)]
    (tmp_path / "sheet.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run.labels is None
    _, _, hint = run._repr_html_().partition("next: ")
    call = unescape(hint.partition("<")[0])
    assert eval(call, {"Run": Run}) == Path("labels.html")
    assert Path("labels.html").exists()
    assert run.read_labels(tmp_path / "sheet.jsonl", "ann").new == 2
    assert run.labels is not None
    assert run.labels.annotators == {"ann": 2}
    corrected = run["context_recall"].corrected
    assert corrected is not None
    assert (corrected.mean, corrected.labels, corrected.is_complete) == (1, 2, True)
    # All statements of one sample: the exact interval of 1 of 1. Its lower end p has
    # p ** 1 = 0.025.
    assert corrected.ci95 == pytest.approx((0.025, 1))
    with pytest.raises(localjudge.InputError, match="remains to be labelled"):
        run.label(tmp_path / "more.csv")


def test_a_check_is_true_if_it_passed(tmp_path: Path) -> None:
    run = evaluated(tmp_path, metrics=["context_recall"])
    assert not run.check(["context_recall>=0.9"], undecided="fail")
    assert run.check(["context_recall<=1"])
    checked = run.check(["context_recall<=1", "context_recall>=0.9"])
    assert re.match(
        "<Check pass: context_recall<=1: .*; undecided: context_recall>=0.9: ",
        repr(checked),
    )
    assert run.verify(engine=ScriptedEngine({"It rains.": 1.0}, default=0.0))
    assert not run.verify(engine=ScriptedEngine({}, default=1.0))
    assert (
        run.verify(sample=1, engine=ScriptedEngine({"It rains.": 1.0}, default=0.0)).asked_again
        == 1
    )


def test_a_notebook_shows_tables(tmp_path: Path) -> None:
    run = evaluated(tmp_path / "run", metrics=["context_recall"])
    views: list[Any] = [
        run,
        run.compare(run),
        run.check("context_recall>=0.9"),
        run.summary,
        run["context_recall"],
    ]
    for view in views:
        html = view._repr_html_()
        assert "context_recall" in html or view is views[-1]
        assert html.count("<table>") == html.count("</table>") > 0
    hostile = run.summary.model_copy(update={"signature": "<script>\x1b[2J"})
    assert "&lt;script&gt;\\x1b[2J" in hostile._repr_html_()


def test_a_temporary_run_lives_as_long_as_its_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle or copy would lose the verdicts with the original; pickling is refused."""
    monkeypatch.chdir(tmp_path)
    run = localjudge.evaluate([ROW], engine=ScriptedEngine({}, default=1.0), out=False)
    folder = run.directory.parent
    assert folder.stat().st_mode & 0o77 == 0
    assert (folder / "localjudge.lock").exists()
    frame = run.to_pandas()
    scores = copy.copy(copy.deepcopy(run))
    with pytest.raises(localjudge.InputError, match="cannot be pickled"):
        pickle.dumps(run)
    del run
    assert len(scores.scores) == len(frame) == 1
    del scores
    assert not folder.exists()
    assert not list(tmp_path.iterdir())
