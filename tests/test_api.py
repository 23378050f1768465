"""What Python's users see: help, progress, and runs that show themselves."""

import inspect
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import localjudge
from localjudge import Run, ScriptedEngine
from localjudge.progress import Silence
from localjudge.run.settings import RunSettings

ROW = {"id": "a", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."}


def evaluated(out: Path, **options: Any) -> Run:
    return localjudge.evaluate([ROW], engine=ScriptedEngine({"It rains.": 1.0}, default=0.0), out=out, **options)


@pytest.mark.parametrize("name", RunSettings.model_fields)
def test_help_names_each_option_with_type_default_and_meaning(name: str) -> None:
    """As the field of the settings gives them; the signature, too."""
    field = RunSettings.model_fields[name]
    default = field.get_default(call_default_factory=True, validated_data={})
    words = " ".join((localjudge.evaluate.__doc__ or "").split())
    start = words.index(f" {name} (")
    assert words[start:].partition("):")[0].endswith(f", default {default!r}")
    assert words[start:].partition("): ")[2].startswith(" ".join(str(field.description).split()))
    parameter = inspect.signature(localjudge.evaluate).parameters[name]
    assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, default)


def test_help_names_the_other_arguments() -> None:
    for name in list(inspect.signature(localjudge.evaluate).parameters)[:6]:
        assert f"\n{name}: " in (localjudge.evaluate.__doc__ or "")


def test_an_option_that_is_none_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(localjudge.UsageError, match=r"no option 'thresold'\n  hint: did you mean threshold\?"):
        evaluated(tmp_path, thresold=0.5)


class _Terminal(io.StringIO):
    """Where stderr goes, and that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("progress", "stream", "heard"),
    [
        (None, io.StringIO, False),
        (None, _Terminal, True),
        (True, io.StringIO, True),
        (True, _Terminal, True),
        (False, io.StringIO, False),
        (False, _Terminal, False),
    ],
)
def test_progress_is_shown_on_terminals_unless_it_is_wanted_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: bool | None, stream: type[io.StringIO], heard: bool
) -> None:
    said = stream()
    monkeypatch.setattr(sys, "stderr", said)
    evaluated(tmp_path, progress=progress)
    assert ("asked 2 verdicts" in said.getvalue()) == heard


def test_a_run_is_read_like_a_mapping_of_its_metrics(tmp_path: Path) -> None:
    run = evaluated(tmp_path, metrics=["context_recall"])
    assert (list(run), len(run)) == (["context_recall"], 1)
    assert dict(run) == run.summary.metrics
    assert "context_recall" in run
    assert "faithfulness" not in run
    assert len({run, Run.open(tmp_path)}) == 1


def test_what_no_terminal_shows_is_logged_and_kept_with_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Columns that are not used, metrics that are left out, and a column that may be the one that is missing."""
    row = {"question": "Where?", "contexts": ["Rain."], "gold_standard": "It rains.", "zone": "z"}
    with caplog.at_level("INFO", logger="localjudge"):
        run = localjudge.evaluate([row], engine=ScriptedEngine({}, default=1.0), out=tmp_path, progress=False)
    for said in ("columns not used: gold_standard, zone", "no column for reference", "gold_standard may be the"):
        assert any(said in note for note in run.notes)
        assert said in caplog.text
    assert (Run.open(tmp_path), Run.open(tmp_path).notes) == (run, ())


@pytest.mark.parametrize(("shell", "heard"), [("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False)])
def test_progress_is_shown_in_notebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, heard: bool
) -> None:
    """A kernel's stderr is no terminal. Without the widgets that a bar needs there, lines are written."""
    ipython = SimpleNamespace(get_ipython=type(shell, (), {}))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    evaluated(tmp_path)
    assert ("asked 2 verdicts" in said.getvalue()) == heard


def test_progress_of_one_s_own_is_told_what_goes_on(tmp_path: Path) -> None:
    class Heard(Silence):
        notes: tuple[str, ...] = ()

        def note(self, text: str) -> None:
            self.notes = (*self.notes, text)

    heard = Heard()
    evaluated(tmp_path, progress=heard)
    assert any(note.startswith("asked 2 verdicts") for note in heard.notes)


def test_a_metric_of_a_run_is_looked_up_by_its_name(tmp_path: Path) -> None:
    run = evaluated(tmp_path)
    assert run["context_recall"] == run.summary.metrics["context_recall"]
    assert run["context_recall"].mean == 0.5
    with pytest.raises(KeyError, match="the run has no metric 'recall'; it has context_recall"):
        run["recall"]


def test_a_run_says_briefly_what_came_out_and_who_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert repr(evaluated(Path("run"))) == "Run('run', 1 sample, context_recall=0.500, judge scripted)"


def test_a_run_with_more_failures_than_allowed_has_no_mean_in_words(tmp_path: Path) -> None:
    """One of two samples failed, none may."""
    rows = [ROW, {**ROW, "id": "b", "reference": "It snows."}]
    engine = ScriptedEngine({"It snows.": "it does not fit"}, default=1.0)
    assert "context_recall=no mean" in repr(localjudge.evaluate(rows, engine=engine, out=tmp_path / "none"))
    allowed = localjudge.evaluate(rows, engine=engine, out=tmp_path / "one", max_failed=1)
    assert "context_recall=1.000" in repr(allowed)


def test_many_metrics_are_counted_and_not_all_named(tmp_path: Path) -> None:
    metrics = [f"matrix_recall@{first}" for first in range(1, 7)]
    text = repr(evaluated(tmp_path, metrics=metrics))
    assert "matrix_recall@4=0.500, and 2 more, judge" in text
    assert "matrix_recall@5" not in text
