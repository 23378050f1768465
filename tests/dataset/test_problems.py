import json
import re
from pathlib import Path

import pytest

from localjudge import DataError
from localjudge.dataset import load

SOUND = {"question": "q"}


def test_problems_are_counted_and_shown_by_cause() -> None:
    """A repeated problem is one line with three places; 20 causes are shown."""
    with pytest.raises(DataError) as caught:
        load([*({"question": number} for number in range(50)), SOUND])
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("50 of 51 rows cannot be used")
    assert lines[1].startswith(
        "  rows, row 1; rows, row 2; rows, row 3 and 47 more rows: question: found a number (0)",
    )
    assert len(lines) == 3
    with pytest.raises(DataError) as caught:
        load([{"question": {chr(ord("A") + number): 1}} for number in range(25)])
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[21]) == (23, "  ... and 5 more")


def test_skipped_bad_rows_are_reported() -> None:
    data = load([SOUND, {"question": 1, "answer": True}, 7, SOUND], skip_bad_rows=True)
    assert len(data.samples) == 2
    assert (data.skipped, data.problem_count) == (2, 3)
    places = ["rows, row 2: question", "rows, row 2: answer", "rows, row 3"]
    assert [problem.partition(": found")[0] for problem in data.problems] == places


def test_a_broken_line_loses_only_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"question": "a"}\n'
        b'{"question": \n'
        b'{"question": "caf\xe9 \xc3\xa9"}\n'
        b"\x00\x00\n"
        b'{"question": "b"}\n'
    )
    data = load(path, skip_bad_rows=True)
    assert [sample.user_input for sample in data.samples] == ["a", "b"]
    assert [line.partition(": ")[0] for line in data.problems] == [
        f"{path}:2; {path}:4",
        f"{path}:3",
    ]


def test_an_object_in_place_of_a_text_is_refused_with_the_path_to_use() -> None:
    """Langfuse and MLflow store texts in objects with keys that users choose."""
    with pytest.raises(DataError, match=r"keys frage(?s:.*)mapping={'user_input': 'input\.NAME'}"):
        load([{"input": {"frage": "q"}}])
    assert load([{"input": {"frage": "q"}}], mapping={"user_input": "input.frage"}).samples


def test_infinity_in_a_file_is_not_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": NaN, "answer": Infinity}\n')
    with pytest.raises(DataError, match=r"problems: 1(?s:.*)answer: found Infinity"):
        load(tmp_path / "a.jsonl")


def test_control_characters_in_column_names_are_escaped() -> None:
    with pytest.raises(DataError, match=re.escape(r"(columns: \x1b[2J\ud800)")):
        load([{"\x1b[2J\ud800": "x"}])


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
