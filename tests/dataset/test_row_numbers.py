"""A column that numbers the rows is their id, and rows without id have the row of a spreadsheet."""

from pathlib import Path

import pytest

from localjudge import DataError, RunPair, ScriptedEngine, evaluate_pair
from localjudge.dataset import load

HEADER = "Nr;question;contexts;old;answer\n"


def write(path: Path, *rows: str, header: str = HEADER) -> str:
    path.write_text(header + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


def judged_pair(file: str) -> RunPair:
    """Return the runs of the columns `old` and `answer`."""
    engine = ScriptedEngine({}, default=0.9)
    return evaluate_pair(file, "old", metrics="faithfulness", engine=engine, out=False)


@pytest.mark.parametrize("name", ["Nr", "nr.", "Number", "Nummer", "número"])
def test_column_that_numbers_the_rows_is_the_id(tmp_path: Path, name: str) -> None:
    header = HEADER.replace("Nr", name)
    file = write(tmp_path / "data.csv", "12;Why?;Because;No;Yes", "7;How?;So;No;No", header=header)
    dataset = load(file)
    assert [sample.id for sample in dataset.samples] == ["12", "7"]
    assert dataset.mapping["id"] == name
    pair = judged_pair(file)
    for run in (pair.baseline, pair.run):
        assert [row.sample_id for row in run.scores] == ["12", "7"]


@pytest.mark.parametrize("numbers", [("1", "1"), ("1", ""), ("1", "1 ")])
def test_numbers_that_do_not_identify_the_rows_are_no_ids(
    tmp_path: Path, numbers: tuple[str, str]
) -> None:
    rows = [f"{number};Why {place}?;Because;No;Yes" for place, number in enumerate(numbers)]
    dataset = load(write(tmp_path / "data.csv", *rows))
    assert all(sample.id.startswith("row-") for sample in dataset.samples)
    assert dataset.unused == (("Nr", "old"),)


def test_files_that_begin_at_1_each_and_other_ids_keep_their_ids(tmp_path: Path) -> None:
    files = []
    for letter in "ab":
        files.append(write(tmp_path / f"{letter}.csv", f"1;Why {letter}?;Because;No;Yes"))
    assert all(sample.id.startswith("row-") for sample in load(files).samples)
    header = HEADER.replace("old", "id")
    file = write(tmp_path / "data.csv", "1;Why?;Because;first;Yes", header=header)
    assert [sample.id for sample in load(file).samples] == ["first"]


def test_place_after_a_line_break_in_a_cell_has_the_row_of_a_spreadsheet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The header is row 1. The second sample begins in line 5, which is row 3."""
    header = HEADER.replace("Nr", "topic")
    rows = ['a;Why?;"One\n\ntwo";No;Yes', "b;How?;So;;No", "c;Who?;So;Me;"]
    file = write(tmp_path / "data.csv", *rows, header=header)
    judged_pair(file)
    assert caplog.messages[-1].endswith(f"missing: {file}:5, row 3, {file}:6, row 4")
    with pytest.raises(DataError, match=r"data\.csv:7, row 5"):
        load(write(tmp_path / "data.csv", *rows, "d;too;many;cells;here;now", header=header))
    plain = write(tmp_path / "plain.csv", "b;How?;So;;No", "c;Who?;So;Me;I", header=header)
    judged_pair(plain)
    assert caplog.messages[-1].endswith(f"missing: {plain}:2")
