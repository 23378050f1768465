import json
from pathlib import Path

import pytest

from localjudge.dataset import load
from localjudge.errors import DataError

SOUND = {"question": "q"}


def test_a_repeated_problem_is_one_line_with_count_and_three_places() -> None:
    rows = [{"question": number} for number in range(50)]
    with pytest.raises(DataError) as caught:
        load([*rows, SOUND])
    lines = str(caught.value).splitlines()
    assert lines[0] == "50 of 51 rows cannot be used, nothing was judged (problems: 50)"
    where = "rows, row 1; rows, row 2; rows, row 3 and 47 more rows"
    assert lines[1] == f"  {where}: question: found a number (0), expected text or null"
    assert len(lines) == 3


def test_the_first_twenty_causes_are_shown_and_all_problems_are_counted() -> None:
    with pytest.raises(DataError) as caught:
        load([{"question": {chr(ord("A") + number): 1}} for number in range(25)])
    lines = str(caught.value).splitlines()
    assert len(lines) == 23
    assert lines[21] == "  ... and 5 more"


def test_skipped_bad_rows_are_reported() -> None:
    data = load([SOUND, {"question": 1, "answer": 2}, 7, SOUND], skip_bad_rows=True)
    assert len(data.samples) == 2
    assert (data.skipped, data.problem_count) == (2, 3)
    assert [str(problem) for problem in data.problems] == [
        "rows, row 2: question: found a number (1), expected text or null",
        "rows, row 2: answer: found a number (2), expected text or null",
        "rows, row 3: found a number (7), expected an object with columns",
    ]


def test_a_broken_line_loses_only_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"question": "a"}\n{"question": \n{"question": "caf\xe9"}\n\x00\x00\n{"question": "b"}\n')
    data = load(path, skip_bad_rows=True)
    assert [sample.user_input for sample in data.samples] == ["a", "b"]
    assert [line.partition(": ")[0] for line in data.problems] == [f"{path}:2; {path}:4", f"{path}:3"]


def test_an_object_in_place_of_a_text_is_refused_with_the_path_to_use() -> None:
    """Langfuse and MLflow store texts in objects with user-defined keys."""
    with pytest.raises(DataError) as caught:
        load([{"input": {"frage": "q"}}])
    assert "input: found an object with the keys frage, expected text or null" in str(caught.value)
    assert "mapping={'user_input': 'input.NAME'}" in str(caught.value)
    assert load([{"input": {"frage": "q"}}], mapping={"user_input": "input.frage"}).samples


def test_infinity_in_a_file_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": NaN, "answer": Infinity}\n')
    with pytest.raises(DataError, match="problems: 1") as caught:
        load(tmp_path / "a.jsonl")
    assert "answer: found Infinity, expected text or null" in str(caught.value)


def test_control_characters_in_column_names_are_escaped() -> None:
    with pytest.raises(DataError) as caught:
        load([{"\x1b[2J\ud800": "x"}])
    assert r"(found: \x1b[2J\ud800)" in str(caught.value)


def test_unreadable_rows_are_reported_before_missing_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("no JSON\n")
    with pytest.raises(DataError, match="found invalid JSON"):
        load(tmp_path / "a.jsonl", mapping={"reference": "gold"})


def test_a_file_name_need_not_be_text(tmp_path: Path) -> None:
    path = str(tmp_path / "caf\udce9.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(SOUND, file)
    data = load(path)
    assert data.sources[0].endswith(r"caf\xe9.jsonl")
