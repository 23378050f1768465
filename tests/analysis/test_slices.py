"""Each metric by the values of a column: every slice is what a run on its samples alone would be."""

import json
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.analysis import compare as module
from localjudge.analysis.compare import slices
from localjudge.errors import RunDirectoryError, UsageError
from tests.cli.conftest import called


def row(number: int, **columns: Any) -> dict[str, Any]:
    text = "Right" if number % 3 else "Wrong"
    return {"id": str(number), "retrieved_contexts": ["It rains."], "reference": f"{text} {number}.", **columns}


def judged(out: Path, rows: list[dict[str, Any]], **options: Any) -> Run:
    script = {f"Wrong {number}.": 0.1 for number in range(30)}
    engine = ScriptedEngine({**script, "Wrong 3.": "it does not fit"}, default=0.9)
    return evaluate(rows, metrics=["context_recall"], out=out, engine=engine, **options)


ROWS = [row(number, topic="ab"[number % 2], n=number % 2, doc=str(number // 4)) for number in range(20)]


@pytest.mark.parametrize("options", [{}, {"cluster_by": "doc"}], ids=["alone", "in groups"])
def test_a_slice_is_a_run_of_its_samples(tmp_path: Path, options: dict[str, Any]) -> None:
    """Mean, interval, counts and bounds; 3 fails and is odd."""
    found = slices(judged(tmp_path / "whole", ROWS, **options), "topic")
    assert [(one.value, one.samples) for one in found.slices] == [("a", 10), ("b", 10)]
    for one in found.slices:
        alone = judged(tmp_path / str(one.value), [row for row in ROWS if row["topic"] == one.value], **options)
        assert one.metrics == alone.summary.metrics
    assert [one.metrics["context_recall"].failed for one in found.slices] == [0, 1]


def test_values_are_texts_and_those_with_the_most_samples_come_first(tmp_path: Path) -> None:
    """A row without the column, or with null in it, is in the slice of those that have none."""
    values: list[dict[str, Any]] = [
        {"v": 1},
        {"v": "x"},
        {"v": None},
        {},
        {"v": "x"},
        {"v": True},
        {"v": "1"},
        {"v": ""},
    ]
    run = judged(tmp_path / "run", [row(number, **value) for number, value in enumerate(values)])
    found = [(one.value, one.samples) for one in slices(run, "v").slices]
    assert found == [("1", 2), ("x", 2), (None, 2), ("", 1), ("true", 1)]


def test_dots_reach_into_objects(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", [row(1, meta={"lang": "en"}), row(2, meta={"lang": "de"})])
    assert [one.value for one in slices(run, "meta.lang").slices] == ["de", "en"]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("nothing", "the run holds no column nothing\n  hint: its columns are meta, tags"),
        ("meta", r"the column meta of the sample 1 is not a text or a number\n  hint: .* with a dot: meta\.NAME"),
        ("tags", "the column tags of the sample 1 is not a text or a number"),
    ],
)
def test_what_is_no_column_of_single_values_is_refused(tmp_path: Path, column: str, said: str) -> None:
    run = judged(tmp_path / "run", [row(1, meta={"lang": "en"}, tags=["a"])])
    with pytest.raises(UsageError, match=said):
        slices(run, column)


def test_too_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SLICES", 4)
    run = judged(tmp_path / "run", ROWS)
    assert len(slices(run, "topic").slices) == 2
    with pytest.raises(UsageError, match="the column doc has more than 4 different values"):
        slices(run, "doc")


def test_a_score_of_a_sample_that_is_not_stored_is_no_bug(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    run = judged(tmp_path / "run", ROWS)
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as store, store:
        store.execute("DELETE FROM sample WHERE id = '7'")
    with pytest.raises(RunDirectoryError, match="a score of 7 and no such sample"):
        slices(run, "topic")


def test_the_table_shows_hostile_values_harmlessly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = judged(tmp_path / "run", [row(1, topic="\x1b[2J[r]x"), row(2, other="y" * 300)])
    code, out, _ = called(capfd, "show", run.directory, "--by", "topic")
    assert code == 0
    assert "\x1b[2J" not in out
    assert "[r]x" in out
    assert "each interval is that of its slice alone" in " ".join(out.split())
    out = called(capfd, "show", run.directory, "--by", "other")[1]
    assert 150 < out.count("y") <= 220


def test_a_slice_with_failures_has_no_mean(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As the whole run has none, unless so many may fail; JSON has all that is known."""
    run = judged(tmp_path / "run", ROWS)
    out = called(capfd, "show", run.directory, "--by", "topic")[1]
    lines = [line.split() for line in out.splitlines() if line.split()[1:2] in (["a"], ["10"])]
    assert lines[0][:4] == ["context_recall", "a", "10", "0.600"]
    assert lines[1] == ["b", "10", "-", "-", "0", "1"]
    values = json.loads(called(capfd, "show", run.directory, "--by", "topic", "--json")[1])
    assert [one["value"] for one in values["slices"]] == ["a", "b"]


def test_by_is_about_all_samples(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = judged(tmp_path / "run", ROWS)
    assert called(capfd, "show", run.directory, "1", "--by", "topic")[0] == 1
