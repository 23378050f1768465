import csv
import io
import json
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import DataError, InputError
from localjudge.labels.label_sheet import read_sheet, write_sheet
from localjudge.text.names import is_damaged
from tests.conftest import ScriptedRun

ENDINGS = (".jsonl", ".csv")

ID = "0123456789abcdef0123456789abcdef"
KEY: dict[str, Any] = {
    "sample_id": "s1",
    "metric": "faithfulness",
    "position": 0,
    "text": "It rains.",
}
LABELLED = {"label_id": ID, **KEY, "human": 1}
HOSTILE = [
    '=HYPERLINK("http://x")',
    "+1",
    "@SUM(A1)",
    "\t=1",
    '"',
    'say ""so""',
    "a;b,c\td",
    "two\nlines",
    "carriage\r\nreturn\r",
    "NUL\x00 \x1b[2J \x7f",
    "\u202ereversed \u200f",
    "\ufeffmark",
    " blanks ",
]


def sheet_row(**cells: Any) -> Any:
    row = {
        "label_id": ID,
        "draw": "0:context_recall,faithfulness",
        **KEY,
        "asks": "Is it so?",
        "user_input": "Why?",
    }
    row |= {
        "contexts": ["First.", "Second."],
        "reference": None,
        "response": "An answer.",
        "source_text": None,
    }
    return row | {"human": None, "annotator": None, "planned": 1} | cells


def read_rows(path: Path) -> list[Any]:
    labels, _ = read_sheet(path)
    return labels


def saved(
    path: Path,
    table: Sequence[Sequence[Any]],
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(table)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def make_table(*rows: dict[str, Any]) -> list[list[Any]]:
    return [[*rows[0]], *([row.get(column) for column in rows[0]] for row in rows)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(HOSTILE)
FILLED = TEXTS.filter(str.strip)
ROWS = st.builds(
    sheet_row,
    label_id=st.uuids().map(lambda uuid: uuid.hex),
    sample_id=FILLED,
    position=st.integers(0, 10**9 - 1),
    user_input=TEXTS,
    contexts=st.none() | st.lists(TEXTS, max_size=2),
    text=FILLED,
    human=st.sampled_from([1, 0, None]),
    # A name that another encoding damaged is refused.
    annotator=st.none() | FILLED.map(str.strip).filter(lambda name: not is_damaged(name)),
)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(ROWS, min_size=1, max_size=3, unique_by=lambda row: row["label_id"]))
def test_a_sheet_comes_back_as_it_was(tmp_path: Path, ending: str, rows: list[Any]) -> None:
    """In CSV, a text that looks like a formula gets an apostrophe."""
    path = tmp_path / f"sheet{ending}"
    path.unlink(missing_ok=True)
    write_sheet(path, rows)
    sheet = read_rows(path)
    for row, label in zip(rows, sheet, strict=True):
        for column in ("label_id", "text", "human", "annotator"):
            read = getattr(label, column)
            assert read == row[column] or (ending == ".csv" and read == f"'{row[column]}")
        assert (label.when, label.draw, label.planned) == (None, row["draw"], 1)
        assert label.is_answered == (row["human"] is not None)


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_csv_opens_in_excel_and_holds_no_formula(tmp_path: Path, separator: str) -> None:
    """It has a byte-order mark and CRLF."""
    write_sheet(
        tmp_path / "sheet.csv",
        [sheet_row(text=text, contexts=['a "quote"', text]) for text in HOSTILE],
        separator=separator,
    )
    content = (tmp_path / "sheet.csv").read_bytes()
    assert content.startswith(
        "\ufeff".encode() + separator.join(["statement", "context", "answer", "human"]).encode(),
    )
    assert content.count(b"planned\r\n") == 1
    cells = [
        *csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator),
    ]
    assert not [
        cell for row in cells for cell in row.values() if cell.lstrip()[:1] in {*"=+-@"} - {""}
    ]
    assert cells[0]["statement"] == "'" + HOSTILE[0]
    assert cells[0]["context"] == f'[1] a "quote"\n\n[2] {HOSTILE[0]}'


@pytest.mark.parametrize("ending", ENDINGS)
def test_texts_that_are_too_long_for_excel_are_counted_in_a_warning(
    tmp_path: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_sheet(tmp_path / f"short{ending}", [sheet_row(contexts=["x" * 32_763])])  # with "[1] "
    assert not caplog.records
    write_sheet(
        tmp_path / f"long{ending}",
        [sheet_row(contexts=["x" * 32_764], response="y" * 40_000), sheet_row()],
    )
    assert [record.getMessage()[:7] for record in caplog.records] == ["2 texts"] * (
        ending == ".csv"
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_sheet_is_private_and_replaces_no_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"sheet{ending}"
    write_sheet(path, [sheet_row()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    (tmp_path / f"link{ending}").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / f"link{ending}"):
        with pytest.raises(InputError, match="already exists"):
            write_sheet(taken, [sheet_row(text="Other.")])
    assert path.read_bytes() == content


def test_unknown_file_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a sheet(?s:.*)\.jsonl, \.csv, or in \.html"):
        write_sheet(tmp_path / "sheet.ods", [sheet_row()])
    with pytest.raises(InputError, match="sheet as CSV"):
        write_sheet(tmp_path / "sheet.XLSX", [sheet_row()])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("excel.csv", {"delimiter": ";", "encoding": "utf-8-sig"}),
        ("libreoffice.csv", {}),
        ("unicode-text.txt", {"delimiter": "\t", "encoding": "utf-16"}),
        ("big-endian.csv", {"delimiter": ";", "encoding": "utf_16_be"}),
        ("plain.csv", {"delimiter": ";", "encoding": "cp1252"}),
    ],
)
def test_a_sheet_is_read_as_spreadsheets_save_it(
    tmp_path: Path, name: str, form: dict[str, str]
) -> None:
    mark = "\ufeff" if name == "big-endian.csv" else ""
    header = [mark + "notes", "human", "text", "position", "metric", "label_id", "annotator", ""]
    row = ["?", "sí", "Größe: 5 €\n„so“; =1", 0, "faithfulness", ID, "René", None]
    path = saved(tmp_path / name, [header, row, [None] * 8, [None] * 8], **form)
    [label], remarks = read_sheet(path)
    assert bool(remarks) == (form.get("encoding") == "cp1252")
    assert label.place.startswith(str(path))
    assert (label.label_id, label.text, label.human, label.annotator) == (ID, row[2], 1, "René")
    assert label.place.endswith(", row 2")


SPREADSHEETS = {
    "excel, semicolons": {"delimiter": ";", "encoding": "utf-8-sig"},
    "libreoffice, commas": {"delimiter": ",", "encoding": "utf-8"},
    "unicode text, tabs": {"delimiter": "\t", "encoding": "utf-16"},
    "windows": {"delimiter": ";", "encoding": "cp1252"},
}
INSTRUCTION = "Écrivez 1 ou 0; laissez vide, si ce n'est pas clair."


@pytest.mark.parametrize("form", SPREADSHEETS.values(), ids=SPREADSHEETS)
@pytest.mark.parametrize(
    "at", [0, 1, 3, None], ids=["first", "below the header", "between rows", "missing"]
)
def test_a_sheet_comes_back_from_a_spreadsheet(
    tmp_path: Path, form: dict[str, str], at: int | None
) -> None:
    """With other columns first, empty columns and rows, and the instruction moved or removed."""
    texts = ["Größe: 5 €", "Zwei\r\nZeilen; mit, Zeichen\t.", "Drei"]
    ids = [f"{number:032x}" for number in range(len(texts))]
    path = tmp_path / "sheet.csv"
    rows = [
        sheet_row(label_id=key, text=text, annotator="Zoë")
        for key, text in zip(ids, texts, strict=True)
    ]
    write_sheet(path, rows, instruction=INSTRUCTION)
    _, header, *cells = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    columns = [
        header.index(name)
        for name in ("label_id", "human", "statement", "annotator", "draw", "context")
    ]
    table = [[header[column] for column in columns] + ["", "notes"]]
    for number, row in enumerate(cells):
        table += [[*(row[column] for column in columns), "", "n"], [""] * 8]
        table[-2][1] = str(number % 2)
    if at is not None:
        table.insert(at, [INSTRUCTION])
    labels = read_rows(saved(tmp_path / "saved.csv", table, **form))
    assert [(label.label_id, label.human, label.annotator) for label in labels] == [
        (key, number % 2, "Zoë") for number, key in enumerate(ids)
    ]
    assert [(label.text or "").split() for label in labels] == [text.split() for text in texts]


@pytest.mark.parametrize(("language", "sign"), [("en", ","), ("de", ";"), ("fr", ";")])
def test_the_language_decides_the_separator(
    scripted_run: ScriptedRun, tmp_path: Path, language: Any, sign: str
) -> None:
    row = {"user_input": "Why?", "retrieved_contexts": ["First."], "response": "It rains. It is."}
    run = scripted_run("run", [row], {}, metrics=["faithfulness"])
    path = run.label(tmp_path / "sheet.csv", language=language)
    lines = path.read_bytes().decode("utf-8-sig").split("\r\n")
    assert lines[1].split(sign)[:4] == ["statement", "context", "answer", "human"]
    assert "reference" not in lines[1]
    assert sorted(label.text for label in read_rows(path)) == ["It is.", "It rains."]


def test_a_record_may_lack_its_last_cells_where_they_are_empty(tmp_path: Path) -> None:
    """Excel omits empty cells at the end of some rows."""
    path = tmp_path / "sheet.csv"
    header = "label_id;metric;position;text;human;annotator\r\n"
    path.write_text(header + f"{ID};m;0;a;1;Ann\r\n{ID};m;1;b\r\n\r\n{ID};m;2;c;0;;;\r\n")
    assert [label.human for label in read_rows(path)] == [1, None, 0]
    path.write_text(header + f'{ID};m;0;"two\nlines";1;Ann\r\n{ID};m;1;b;1;Ann;note\r\n')
    with pytest.raises(
        DataError, match=r"sheet\.csv:4, row 3: found a record of 7 .*expected 6 cells"
    ):
        read_sheet(path)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"human": "1,00"}, {"human": 1}),
        ({"when": "2026-01-31 09:30:00"}, {"when": "2026-01-31T09:30:00+00:00"}),
        ({"when": "2026-01-31T09:30:00+02:00"}, {"when": "2026-01-31T07:30:00+00:00"}),
        ({"label_id": f" {ID.upper()} "}, {"label_id": ID}),
    ],
)
def test_cells_are_read_in_several_forms(
    tmp_path: Path, cells: dict[str, Any], expected: dict[str, Any]
) -> None:
    [label] = read_rows(saved(tmp_path / "sheet.csv", make_table({**LABELLED, **cells})))
    assert label._asdict().items() >= expected.items()


def test_a_pipe_as_a_sheet_is_refused_at_once(tmp_path: Path) -> None:
    """Without a writer, reading a pipe would block forever."""
    os.mkfifo(tmp_path / "sheet.csv")
    with pytest.raises(DataError, match="regular file"):
        read_sheet(tmp_path / "sheet.csv")


def test_labels_of_the_page_and_of_a_store_are_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    at = [
        {"when": f"2026-01-31T09:30:0{second}.5Z", "annotator": "Ann", "draw": "0:x"}
        for second in range(3)
    ]
    rows = [
        {"label_id": ID, "human": human, **when}
        for human, when in zip((1, 0, None), at, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"way": "page", **LABELLED}]))
    sheet = read_rows(path)
    assert [label.human for label in sheet] == [1, 0, None, 1]
    assert sheet[1].when == "2026-01-31T09:30:01.500000+00:00"


def test_a_label_from_the_future_is_refused(tmp_path: Path) -> None:
    """A page of a clock a year ahead: its labels would count before every later one."""
    ahead = datetime.now(UTC) + timedelta(days=365)
    rows = [LABELLED | {"annotator": "Ann", "when": ahead.isoformat()}]
    with pytest.raises(DataError, match=r"row 2: when: found .* in the future"):
        read_sheet(saved(tmp_path / "sheet.csv", make_table(*rows)))
    almost = [LABELLED | {"when": (ahead - timedelta(days=364.5)).isoformat()}]
    assert len(read_rows(saved(tmp_path / "sheet.csv", make_table(*almost)))) == 1


def test_contradicting_rows_of_one_annotator_are_refused(tmp_path: Path) -> None:
    """Two annotators may differ, and equal rows may repeat."""
    rows = [LABELLED | {"annotator": "Ann"}, LABELLED | {"annotator": "Bo", "human": 0}]
    path = tmp_path / "sheet.csv"
    assert len(read_rows(saved(path, make_table(*rows, rows[0])))) == 3
    with pytest.raises(
        DataError,
        match=r"sheet\.csv:4, row 4: human: found 0, and 1 for the same .*:2, row 2, exp",
    ):
        read_sheet(saved(path, make_table(*rows, rows[0] | {"human": 0})))


def test_all_problems_are_reported_together_and_each_once(tmp_path: Path) -> None:
    rows = [LABELLED | {"human": "maybe", "when": None} for _ in range(100)]
    rows += [LABELLED | {"when": "soon"}, LABELLED | {"label_id": None}, LABELLED]
    problems = (
        "102 of 103 rows",
        "97 more rows: human: .*'maybe'",
        "row 102: when: .*'soon'",
        "row 103: label_id: .*null",
    )
    with pytest.raises(DataError, match=".*\n.*".join(problems)):
        read_sheet(saved(tmp_path / "sheet.csv", make_table(*rows)))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("sheet.csv", b"", "has no rows"),
        ("sheet.csv", b"label_id;human\r\n;\r\n;;\r\n", "has no rows"),
        ("sheet.csv", b"a;b\r\n1;2\r\n", r"no column human, label_id .*a, b"),
        ("sheet.csv", b"label_id;label\r\n1;2\r\n", "has no column human"),
        ("sheet.csv", b"human;human;label_id\r\n1;2;3\r\n", "two columns human"),
        ("sheet.jsonl", b"{\n{\n", r"2 of 2 rows(?s:.*)sheet\.jsonl:1; .*invalid JSON"),
        (
            "sheet.jsonl",
            b'{"label_id": [1], "human": {"a": 1}}\n',
            "found a list(?s:.*)human: found an object",
        ),
        (
            "sheet.jsonl",
            b'{"label_id": "\\ud800", "human": 1' + b"0" * 400 + b"}\n",
            "half of a surr(?s:.*)bits, exp",
        ),
        ("sheet.csv", b"PK\x03\x04", "a zip archive"),
        ("sheet.xls", b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_sheet(tmp_path / name)
