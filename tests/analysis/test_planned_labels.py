"""Readings of whole sheets: the number of labels was planned, so the interval there is an ordinary
one.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines, refused
from human_labels import draw, fill_sheet

from localjudge import DataError, Run
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import draw_statements, label_units
from localjudge.labels.matched_labels import labelled_drawings
from localjudge.labels.units import unit_frames
from localjudge.run_directory.label_rows import append_labels, stored_labels
from localjudge.stats.corrected import prediction_powered
from localjudge.stats.interval import mean_interval
from tests.analysis.conftest import (
    JudgedRun,
    corrected,
    expect,
    human,
    label,
    label_words,
    labels_of,
    read_together,
    written,
)
from tests.analysis.labelled_runs import METRIC

CONFIDENCE = 0.95
LABELS_OF_SAMPLES = [[human(n, place) for place in range(1 + n % 3)] for n in range(40)]
SHARES = [sum(labels) / len(labels) for labels in LABELS_OF_SAMPLES]

Say = Callable[[str], Any]


def sheet(
    run: Run, count: int, say: Say = label_words, annotator: str = "ann"
) -> list[dict[str, Any]]:
    """Return the rows of a sheet of the next statements with labels."""
    return fill_sheet(draw(run, annotator, count), say)


def read(run: Run, path: Path, rows: list[dict[str, Any]]) -> Any:
    run.read_labels(written(path / f"sheet-{len(rows)}.jsonl", *rows), "ann")
    return corrected(run)


def ordinary(run: Run, mean: Any) -> tuple[float, float] | None:
    """Return the interval of a single look at these labels, computed from the files of the run."""
    rows = stored_labels(run.directory)
    frame = unit_frames(run)[METRIC]
    labels = {row.key: float(row.human) for row in rows if row.human in (0, 1)}
    drawings = labelled_drawings(Decisions(rows), {METRIC: frame})[METRIC]
    units = label_units(frame, labels, drawings, [labels.keys()])
    assert len(units.counted) == mean.labels
    return prediction_powered(units.units, CONFIDENCE).ci95


def test_a_whole_sheet_has_an_ordinary_interval(judged_run: JudgedRun, tmp_path: Path) -> None:
    """The same labels one by one have the interval of the look at 50, which is 8 % wider."""
    run = judged_run(samples=60)
    mean = read(run, tmp_path, sheet(run, 50))
    expect(mean, labels=50, next_look=100, is_planned=True, is_complete=False)
    assert mean.ci95 == ordinary(run, mean)
    other = corrected(label(judged_run("one by one", samples=60), n=50))
    assert (other.mean, other.is_planned) == (mean.mean, False)
    assert mean.ci95 is not None
    assert other.ci95 is not None
    widths = [limits[1] - limits[0] for limits in (mean.ci95, other.ci95)]
    assert 1.05 < widths[1] / widths[0] < 1.12


def test_more_labels_count_at_twice_the_planned_number(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run(samples=110)
    first = read(run, tmp_path, sheet(run, 50))
    between = read(run, tmp_path, sheet(run, 90))
    assert (between.labels, between.labelled, between.next_look) == (50, 90, 100)
    assert (between.mean, between.ci95, between.is_planned) == (first.mean, first.ci95, True)
    label(run, n=100)
    further = corrected(run)
    assert (further.labels, further.next_look, further.is_planned) == (100, 200, False)


@pytest.mark.parametrize("names", [("ann", "bob"), ("ann", "ann")], ids=["two people", "one name"])
def test_parts_of_a_sheet_read_in_one_command_are_one_plan(
    judged_run: JudgedRun, tmp_path: Path, names: tuple[str, str]
) -> None:
    """Each file has all 50 rows and labels of its half; empty cells withdraw no other label."""
    run = judged_run(samples=60)
    rows = sheet(run, 50)
    files = []
    for place, name in enumerate(names):
        half = [
            {**row, "annotator": name, "human": row["human"] if n % 2 == place else None}
            for n, row in enumerate(rows)
        ]
        files.append(written(tmp_path / f"part-{place}.jsonl", *half))
    assert [counts["new"] for counts in read_together(run, files)] == [25, 25]
    mean = corrected(run)
    assert (mean.labels, mean.is_planned) == (50, True)
    whole = read(judged_run("whole", samples=60), tmp_path, rows)
    assert (mean.mean, mean.ci95) == (whole.mean, whole.ci95)


def test_parts_read_one_after_the_other_are_no_plan(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run(samples=60)
    rows = sheet(run, 50)
    for part in (rows[:25], rows[25:]):
        run.read_labels(written(tmp_path / f"{part[0]['label_id']}.jsonl", *part), "ann")
    expect(corrected(run), labels=50, is_planned=False)


def test_two_annotators_of_one_whole_sheet_are_one_plan(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run(samples=60)
    rows = sheet(run, 50)
    files = [
        written(tmp_path / f"{name}.jsonl", *({**row, "annotator": name} for row in rows))
        for name in ("ann", "bob")
    ]
    read_together(run, files)
    expect(corrected(run), labels=50, is_planned=True)
    assert labels_of(run).annotators == {"ann": 50, "bob": 50}


def test_a_refused_file_stores_no_label_of_the_others(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run(samples=60)
    good = written(tmp_path / "good.jsonl", *sheet(run, 50))
    bad = written(tmp_path / "bad.jsonl", *[{**row, "human": 7} for row in sheet(run, 50)])
    message = refused("label", run, "--read", good, "--read", bad, "--annotator", "ann")
    assert "cannot be used" in message
    assert stored_labels(run.directory) == []


def test_a_sheet_without_a_label_withdraws_nothing(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run(samples=60)
    rows = sheet(run, 50)
    read(run, tmp_path, rows)
    empty = written(tmp_path / "empty.jsonl", *[{**row, "human": None} for row in rows])
    with pytest.raises(DataError, match="no labels yet"):
        run.read_labels(empty, "ann")
    withdrawn = written(tmp_path / "undecided.jsonl", *[{**row, "human": "?"} for row in rows])
    assert run.read_labels(withdrawn, "ann").withdrawn == 50


@pytest.mark.parametrize("left_out", ["cell", "row", "planned", "half"])
def test_a_part_of_a_sheet_is_no_plan(judged_run: JudgedRun, tmp_path: Path, left_out: str) -> None:
    """A reader of one part who looks, and reads the rest then, gets no ordinary interval."""
    run = judged_run(samples=60)
    whole = sheet(run, 50)
    part = [dict(row) for row in whole]
    match left_out:
        case "cell":
            part[-1]["human"] = None
        case "row":
            del part[-1]
        case "planned":
            for row in part:
                del row["planned"]
        case "half":
            part = part[:25]
    assert not read(run, tmp_path, part).is_planned
    mean = read(run, tmp_path, whole)
    assert (mean.labels, mean.is_planned) == (50, False)
    one_by_one = corrected(label(judged_run("one by one", samples=60), n=50))
    assert mean.ci95 == pytest.approx(one_by_one.ci95)


def test_a_sheet_after_other_labels_is_no_plan(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = label(judged_run(samples=60), n=3)
    assert not read(run, tmp_path, sheet(run, 50)).is_planned


def test_an_undecidable_statement_is_an_answer(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run(samples=60)
    rows = sheet(run, 50)
    rows[7]["human"] = "?"
    mean = read(run, tmp_path, rows)
    assert (mean.labels, mean.is_planned) == (49, True)


def test_withdrawn_labels_end_the_plan(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run(samples=60)
    rows = sheet(run, 50)
    assert read(run, tmp_path, rows).is_planned
    rows[7]["human"] = None
    mean = read(run, tmp_path, rows)
    assert (mean.labels, mean.labelled, mean.is_planned) == (30, 49, False)


def test_changed_rows_of_the_first_reading_are_no_plan(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run(samples=60)
    assert read(run, tmp_path, sheet(run, 50)).is_planned
    rows = stored_labels(run.directory)
    first, *others = rows
    unplanned = [row.model_copy(update={"planned": None}) for row in rows]
    for changed in (others, [first.model_copy(update={"planned": 49}), *others], unplanned):
        (run.directory / "labels.jsonl").unlink()
        append_labels(run.directory, changed)
        assert not corrected(run).is_planned


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_written_sheets_say_how_many_statements_they_have(
    judged_run: JudgedRun, tmp_path: Path, ending: str
) -> None:
    run = judged_run()
    path = tmp_path / f"sheet{ending}"
    run.label(path, sample=12, annotator="ann")
    text = path.read_text(encoding="utf-8-sig")
    assert "planned" in text
    if ending == ".jsonl":
        assert [json.loads(line)["planned"] for line in text.splitlines()] == [12] * 12


def test_all_statements_read_at_once_have_the_ordinary_interval_of_a_mean(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    """Labels of 40 samples are shares such as 2/3; their interval is the one of any 40 scores."""
    run = judged_run()
    mean = read(run, tmp_path, sheet(run, 1_000))
    expected = mean_interval(SHARES)
    assert (mean.mean, mean.ci95) == (expected.mean, expected.ci95)
    assert (mean.labels, mean.clusters, mean.is_complete, mean.is_planned) == (79, 40, True, True)
    assert mean.pooled is not None
    assert mean.pooled.mean == sum(map(sum, LABELS_OF_SAMPLES)) / 79


def test_all_statements_one_by_one_have_a_wider_interval(judged_run: JudgedRun) -> None:
    """79 statements can be looked at after 20, 30 and 50 labels, so the last error is 3.6 %."""
    mean = corrected(label(judged_run()))
    assert mean.ci95 == mean_interval(SHARES, confidence=1 - 0.03601).ci95


def test_labels_between_two_looks_ask_for_more_labels_first(judged_run: JudgedRun) -> None:
    """Of 40 labels in the terminal, 30 count; ten more make the look at 50."""
    run = label(judged_run(), n=40)
    mean = corrected(run)
    assert (mean.labels, mean.labelled, mean.until_next_look) == (30, 40, 10)
    shown = printed_lines("show", run, width=300)
    assert f"next: localjudge label {run.directory}" in shown
    assert "10 more labels to reach 50" in " ".join(shown)
    label(run, n=50)
    assert corrected(run).until_next_look == 0
    assert f"next: localjudge report {run.directory}" in printed_lines("show", run, width=300)


@pytest.mark.parametrize(("most", "is_weighed"), [(None, True), (20, False)], ids=str)
def test_a_drawing_of_the_same_statements_has_a_weight_only_at_all_labels(
    judged_run: JudgedRun, most: int | None, *, is_weighed: bool
) -> None:
    """A second drawing reached 30 labelled statements too. It begins after the look at 20."""
    frames = unit_frames(judged_run(samples=60))
    frame = frames[METRIC]
    first = draw_statements(frames, 30, seed=0).statements
    labels = {drawn.key: 1.0 for drawn in first}
    second = draw_statements(frames, len(frame.by_key), seed=5).statements
    once = label_units(frame, labels, [first], most=most)
    twice = label_units(frame, labels, [first, second], most=most)
    assert len(once.counted) == (most or 30)
    assert once.counted == twice.counted
    assert (once.units.drawn.tolist() != twice.units.drawn.tolist()) == is_weighed


@pytest.mark.parametrize(("drawn", "counted"), [(120, 50), (119, 120)], ids=str)
def test_labels_of_all_statements_are_cut_off_at_a_look_if_all_were_drawn(
    judged_run: JudgedRun, drawn: int, counted: int
) -> None:
    """60 samples have 20 x (1 + 2 + 3) = 120 statements."""
    frames = unit_frames(judged_run(samples=60))
    frame = frames[METRIC]
    labels = dict.fromkeys(frame.by_key, 1.0)
    drawing = draw_statements(frames, drawn, seed=0).statements
    units = label_units(frame, labels, [drawing], most=50)
    assert (len(units.counted), units.look.labels) == (counted, 50)
    assert units.is_complete == (counted == 120)


@pytest.mark.parametrize("is_first", [True, False], ids=["run first", "sheet first"])
def test_a_sheet_read_together_with_a_run_is_no_plan(
    judged_run: JudgedRun, tmp_path: Path, *, is_first: bool
) -> None:
    """The other run has labels of 3 of the sheet's 50 statements, by another person."""
    other = label(judged_run("other", samples=60), n=3, annotator="bob")
    run = judged_run(samples=60)
    whole = written(tmp_path / "sheet.jsonl", *sheet(run, 50))
    sources = [whole, other.directory]
    if is_first:
        sources.reverse()
    counts = read_together(run, sources, "ann")
    assert sorted(each["new"] for each in counts) == [3, 50]
    expect(corrected(run), labels=50, is_planned=False)


def test_a_file_follows_the_spelling_and_times_of_files_read_before_it(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run(samples=60)
    files = []
    for name in ("Ann", "ann"):
        rows = [{**row, "annotator": name} for row in sheet(run, 50)]
        files.append(written(tmp_path / f"by-{name}.jsonl", *rows))
    assert read_together(run, files) == [{"new": 50}, {"known": 50}]
    stored = stored_labels(run.directory)
    assert len(stored) == 50
    assert {row.annotator for row in stored} == {"Ann"}
