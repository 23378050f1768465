import csv
import io
import json
import locale
import os
import stat
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge.analysis import label_sheet
from localjudge.analysis.label_sheet import ENDINGS, SheetLabel, SheetRow, read_sheet, write_sheet
from localjudge.errors import DataError, InputError
from localjudge.words import escape_formula

ID = "0123456789abcdef0123456789abcdef"
KEY: dict[str, Any] = {"sample_id": "s1", "metric": "faithfulness", "position": 0, "text": "It rains."}
LABELLED = {"label_id": ID, **KEY, "human": 1}
HOSTILE = [
    '=HYPERLINK("http://x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "#N/A",
    "TRUE",
    "1,5",
    "007",
    "2024-01-05",
    "1e5",
    '"',
    'say ""so""',
    "a;b,c\td",
    "two\nlines",
    "carriage\r\nreturn\r",
    "NUL\x00 \x1b[2J \x7f",
    "_x0041_ _x005F_ \ufffe",
    "\u202ereversed \u200f",
    "\ufeffmark",
    " blanks ",
    "𝔘𝔫𝔦",
]


def sheet_row(**cells: Any) -> SheetRow:
    row = {"label_id": ID, "draw": "0:context_recall,faithfulness", **KEY, "asks": "Is it so?", "user_input": "Why?"}
    row |= {"contexts": ["First.", "Second."], "reference": None, "response": "An answer.", "human": None}
    return row | {"labeller": None} | cells


@pytest.fixture(params=[".", ","])
def decimal_point(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(label_sheet, "_DECIMAL_POINT", f"print({request.param!r})")
    return str(request.param)


def saved(path: Path, table: Sequence[Sequence[Any]], *, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    """Write the table as a workbook or as text, by the ending."""
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in table:
            book.active.append(row)
        book.save(path)
        return path
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(table)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def table_of(*rows: dict[str, Any]) -> list[list[Any]]:
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
    labeller=st.none() | FILLED.map(str.strip),
)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3, unique_by=lambda row: row["label_id"]))
def test_a_sheet_comes_back_as_it_was(tmp_path: Path, decimal_point: str, ending: str, rows: list[SheetRow]) -> None:
    """In CSV, a text that looks like a formula gets an apostrophe."""
    path = tmp_path / f"sheet{ending}"
    path.unlink(missing_ok=True)
    write_sheet(path, rows)
    sheet = read_sheet(path)
    for row, label in zip(rows, sheet, strict=True):
        for column in SheetLabel._fields[1:-2]:
            assert getattr(label, column) == (escape_formula(row[column]) if ending == ".csv" else row[column])
        assert (label.when, label.draw) == (None, row["draw"])


def test_a_csv_opens_in_excel_of_any_language_and_holds_no_formula(tmp_path: Path, decimal_point: str) -> None:
    """It has a byte-order mark, CRLF, and the separator of the locale's decimal point."""
    write_sheet(tmp_path / "sheet.csv", [sheet_row(text=text, contexts=['a "quote"', text]) for text in HOSTILE])
    content = (tmp_path / "sheet.csv").read_bytes()
    separator = {".": ",", ",": ";"}[decimal_point]
    assert content.startswith(f"\ufefflabel_id{separator}draw{separator}sample_id".encode())
    assert content.count(b"labeller\r\n") == 1
    cells = [*csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator)]
    assert not [cell for row in cells for cell in row.values() if cell.lstrip()[:1] in {*"=+-@"} - {""}]
    assert cells[0]["text"] == "'" + HOSTILE[0]
    assert cells[0]["contexts"] == f'[1] a "quote"\n\n[2] {HOSTILE[0]}'


def test_an_unknown_locale_counts_as_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process locale, shared by all threads, does not change."""
    monkeypatch.setenv("LC_ALL", "tlh_QO.UTF-8")
    monkeypatch.setattr(locale, "setlocale", lambda *_: pytest.fail("the locale is that of every thread"))
    write_sheet(tmp_path / "sheet.csv", [sheet_row()])
    assert (tmp_path / "sheet.csv").read_text("utf-8-sig").startswith("label_id,draw")


def test_a_workbook_can_be_read_and_filled_in(tmp_path: Path) -> None:
    write_sheet(tmp_path / "sheet.xlsx", [sheet_row(text=text, sample_id=text) for text in HOSTILE])
    sheet = openpyxl.load_workbook(tmp_path / "sheet.xlsx").active
    columns = {cell.value: cell for cell in sheet[1]}
    assert sheet.freeze_panes == "A2"
    [choice] = sheet.data_validations.dataValidation
    letter = columns["human"].column_letter
    assert (choice.type, choice.formula1, str(choice.sqref)) == (
        "list",
        '"1,0"',
        f"{letter}2:{letter}{len(HOSTILE) + 1}",
    )
    assert sheet.column_dimensions[columns["contexts"].column_letter].width > 20
    for row in sheet.iter_rows(min_row=2):
        assert {cell.data_type for cell in row if cell.value is not None} == {"n", "s"}  # no formula, error or date
        assert all(cell.alignment.wrap_text for cell in row)
        filled = [cell.column_letter for cell in row if cell.fill.fill_type == "solid"]
        assert filled == [letter]
        assert row[columns["sample_id"].column - 1].number_format == "@"  # 007 remains 007 if it is typed again


def test_oversized_texts_are_cut_visibly_in_columns_that_are_not_read_back(tmp_path: Path) -> None:
    """Excel counts UTF-16 units: 20,000 characters outside the basic plane are 40,000."""
    long = sheet_row(contexts=["x" * 40_000], response="𝔘" * 20_000, text="y" * 32_767)
    write_sheet(tmp_path / "sheet.xlsx", [long])
    cells = dict(zip(*openpyxl.load_workbook(tmp_path / "sheet.xlsx").active.values, strict=True))
    assert cells["contexts"].endswith("xxx\n[... cut here: it has 40,004 characters]")  # with "[1] "
    assert cells["response"].endswith("𝔘𝔘\n[... cut here: it has 20,000 characters]")
    assert {len(cells[column].encode("utf-16-le")) // 2 for column in ("contexts", "text")} == {32_767}
    assert read_sheet(tmp_path / "sheet.xlsx")[0].text == long["text"]
    with pytest.raises(InputError, match=r"text has 32,768 characters in a row(?s:.*)ends in \.jsonl"):
        write_sheet(tmp_path / "other.xlsx", [sheet_row(text="y" * 32_768)])
    assert not (tmp_path / "other.xlsx").exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_texts_that_are_too_long_for_excel_are_counted_in_a_warning(
    tmp_path: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_sheet(tmp_path / f"short{ending}", [sheet_row(contexts=["x" * 32_763])])  # with "[1] "
    assert not caplog.records
    write_sheet(tmp_path / f"long{ending}", [sheet_row(contexts=["x" * 32_764], response="y" * 40_000), sheet_row()])
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (ending != ".jsonl")
    assert all("2 texts longer than a cell of Excel can be (32,767 characters)" in text for text in said)
    assert all("--page FILE" in text for text in said)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_sheet_is_private_and_replaces_no_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"sheet{ending}"
    write_sheet(path, [sheet_row()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    (tmp_path / f"link{ending}").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / f"link{ending}"):
        with pytest.raises(InputError, match="is there already, and may hold labels"):
            write_sheet(taken, [sheet_row(text="Other.")])
    assert path.read_bytes() == content


def test_unknown_file_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a sheet(?s:.*)\.jsonl, \.csv, \.xlsx"):
        write_sheet(tmp_path / "sheet.ods", [sheet_row()])


def test_a_workbook_without_openpyxl_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sheet(tmp_path / "sheet.xlsx", [sheet_row()])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for attempt in (lambda: read_sheet(tmp_path / "sheet.xlsx"), lambda: write_sheet(tmp_path / "b.xlsx", [])):
        with pytest.raises(InputError, match=r"not installed(?s:.*)localjudge\[xlsx\]"):
            attempt()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("excel.csv", {"delimiter": ";", "encoding": "utf-8-sig"}),
        ("libreoffice.csv", {}),
        ("unicode-text.txt", {"delimiter": "\t", "encoding": "utf-16"}),
        ("big-endian.csv", {"delimiter": ";", "encoding": "utf_16_be"}),
        ("plain.csv", {"delimiter": ";", "encoding": "cp1252"}),
        ("sheet.xlsx", {}),
    ],
)
def test_a_sheet_is_read_as_spreadsheets_save_it(tmp_path: Path, name: str, form: dict[str, str]) -> None:
    """Reordered and added columns, multi-line texts, empty rows at the end."""
    mark = "\ufeff" if name == "big-endian.csv" else ""
    header = [mark + "notes", "human", "text", "position", "metric", "label_id", "labeller", ""]
    row = ["?", "sí", "Größe: 5 €\n„so“; =1", 0, "faithfulness", ID, "René", None]
    path = saved(tmp_path / name, [header, row, [None] * 8, [None] * 8], **form)
    sheet = read_sheet(path)
    [label] = sheet
    assert label.place.startswith(str(path))
    assert label[1:] == (ID, row[2], 1, "René", None, None)
    assert label.place.endswith(", row 2")


def test_a_record_may_lack_its_last_cells_where_they_are_empty(tmp_path: Path) -> None:
    """Excel omits empty cells at the end of some rows."""
    path = tmp_path / "sheet.csv"
    header = "label_id;metric;position;text;human;labeller\r\n"
    path.write_text(header + f"{ID};m;0;a;1;Ann\r\n{ID};m;1;b\r\n\r\n{ID};m;2;c;0;;;\r\n")
    assert [label.human for label in read_sheet(path)] == [1, None, 0]
    path.write_text(header + f'{ID};m;0;"two\nlines";1;Ann\r\n{ID};m;1;b;1;Ann;note\r\n')
    with pytest.raises(DataError, match=r"sheet\.csv:4, row 3: found a record of 7, expected 6 cells"):
        read_sheet(path)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"text": 1, "human": 1.0}, {"text": "1", "human": 1}),
        ({"text": 7.0, "human": True}, {"text": "7", "human": 1}),
        ({"text": 0.5, "human": False}, {"text": "0.5", "human": 0}),
        ({"text": datetime(2024, 1, 5), "human": "WAHR"}, {"text": "2024-01-05", "human": 1}),
        ({"labeller": True, "text": 2024.0, "human": "ЛОЖЬ"}, {"labeller": "TRUE", "text": "2024", "human": 0}),
        ({"text": 1.25e20, "human": "1,00"}, {"text": "125" + "0" * 18, "human": 1}),
        ({"when": datetime(2026, 1, 31, 9, 30)}, {"when": "2026-01-31T09:30:00+00:00"}),
        ({"when": "2026-01-31T09:30:00+02:00"}, {"when": "2026-01-31T07:30:00+00:00"}),
        ({"label_id": f" {ID.upper()} "}, {"label_id": ID}),
    ],
)
def test_cells_that_a_workbook_converted_are_texts_again(
    tmp_path: Path, cells: dict[str, Any], expected: dict[str, Any]
) -> None:
    [label] = read_sheet(saved(tmp_path / "sheet.xlsx", table_of({**LABELLED, **cells})))
    assert label._asdict().items() >= expected.items()


def zipped(path: Path, **parts: str) -> Path:
    """Write a workbook from its XML parts."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
EXCEL = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
    '"application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPE}.worksheet+xml"/>'
    f'<Override PartName="/xl/sharedStrings.xml" ContentType="{TYPE}.sharedStrings+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" Type='
    f'"{DOCUMENT}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{DOCUMENT}"><sheets><sheet name="labels" sheetId="1" '
    'r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" Type='
    f'"{DOCUMENT}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="{DOCUMENT}/sharedStrings" '
    'Target="sharedStrings.xml"/></Relationships>',
    "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}" count="5"><si><t>label_id</t></si><si><t>human</t></si>'
    f"<si><t>{ID}</t></si>"
    '<si><t>text</t></si><si><r><t>It </t></r><r><t xml:space="preserve">rains.</t></r></si>'
    "<si><t>a_x000D_&#10;b _x005F_x0041_</t></si></sst>",
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><dimension ref="A1:B2"/><cols><col min="1" max="1" '
    'hidden="1"/></cols><sheetData><row r="2"><c r="A2" t="s"><v>0</v></c><c r="C2" t="s"><v>1</v></c>'
    '<c r="D2" t="s"><v>3</v></c></row><row r="4" hidden="1"><c r="A4" t="s"><v>2</v></c><c r="C4" t="b"><v>1</v></c>'
    '<c r="D4" t="s"><v>4</v></c></row><row r="9"><c r="A9" t="str"><f>A4</f><v>f0123456789abcdef0123456789abcde</v>'
    '</c><c r="C9"><v>0</v></c><c r="D9" t="s"><v>5</v></c><c r="G9" t="s"><v>1</v></c></row></sheetData></worksheet>',
}


def test_a_workbook_is_read_as_excel_writes_it(tmp_path: Path) -> None:
    """Shared and rich strings, escapes, booleans, formula results, gaps, a wrong dimension."""
    labels = read_sheet(zipped(tmp_path / "sheet.xlsx", **EXCEL))
    assert [(label.label_id, label.human, label.text) for label in labels] == [
        (ID, 1, "It rains."),
        ("f" + ID[:-1], 0, "a\r\nb _x0041_"),
    ]
    assert [label.place.rpartition(", ")[2] for label in labels] == ["row 4", "row 9"]


def test_a_row_number_beyond_excel_is_refused_and_no_row_is_dropped(tmp_path: Path) -> None:
    sheet = EXCEL["xl/worksheets/sheet1.xml"].replace('<row r="9">', f'<row r="{"9" * 20}">')
    path = zipped(tmp_path / "sheet.xlsx", **{**EXCEL, "xl/worksheets/sheet1.xml": sheet})
    with pytest.raises(DataError, match="has rows beyond 1,048,576"):
        read_sheet(path)


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_a_pipe_as_a_sheet_is_refused_at_once(tmp_path: Path, ending: str) -> None:
    """Without a writer, reading a pipe would block forever."""
    os.mkfifo(tmp_path / f"sheet{ending}")
    with pytest.raises(DataError, match="is not a regular file"):
        read_sheet(tmp_path / f"sheet{ending}")


def test_other_worksheets_do_not_matter_but_two_with_labels_do(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["what", "how many"])
    for title in ("labels", "labels (2)"):
        for row in table_of(LABELLED):
            (book[title] if title in book.sheetnames else book.create_sheet(title)).append(row)
        book.save(tmp_path / f"{title}.xlsx")
    assert len(read_sheet(tmp_path / "labels.xlsx")) == 1
    with pytest.raises(DataError, match=r"has 2 sheets with a column human.*\(labels, labels \(2\)\)"):
        read_sheet(tmp_path / "labels (2).xlsx")


def test_labels_of_the_page_and_of_a_store_are_read(tmp_path: Path) -> None:
    """Rows have times, because a label may change or be withdrawn."""
    path = tmp_path / "labels.jsonl"
    at = [{"when": f"2026-01-31T09:30:0{second}.5Z", "labeller": "Ann", "draw": "0:x"} for second in range(3)]
    rows = [{"label_id": ID, "human": human, **when} for human, when in zip((1, 0, None), at, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"way": "page", **LABELLED}]))
    sheet = read_sheet(path)
    assert [label.human for label in sheet] == [1, 0, None, 1]
    assert sheet[1].when == "2026-01-31T09:30:01.500000+00:00"


def test_a_label_from_the_future_is_refused(tmp_path: Path) -> None:
    """A page on a machine whose clock is a year ahead: its labels would count before every later one."""
    ahead = datetime.now(UTC) + timedelta(days=365)
    rows = [LABELLED | {"labeller": "Ann", "when": ahead.isoformat()}]
    with pytest.raises(DataError, match=r"row 2: when: found .*, expected no time in the future, or nothing"):
        read_sheet(saved(tmp_path / "sheet.csv", table_of(*rows)))
    almost = [LABELLED | {"when": (ahead - timedelta(days=364.5)).isoformat()}]
    assert len(read_sheet(saved(tmp_path / "sheet.csv", table_of(*almost)))) == 1


def test_contradicting_rows_of_one_annotator_are_refused(tmp_path: Path) -> None:
    """Two annotators may differ, and equal rows may repeat."""
    rows = [LABELLED | {"labeller": "Ann"}, LABELLED | {"labeller": "Bo", "human": 0}]
    path = tmp_path / "sheet.csv"
    assert len(read_sheet(saved(path, table_of(*rows, rows[0])))) == 3
    with pytest.raises(DataError, match=r"sheet\.csv:4, row 4: human: found 0, and 1 for the same in .*:2, row 2, exp"):
        read_sheet(saved(path, table_of(*rows, rows[0] | {"human": 0})))


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_all_problems_are_reported_together_and_each_once(tmp_path: Path, ending: str) -> None:
    rows = [LABELLED | {"human": "maybe", "when": None} for _ in range(100)]
    rows += [LABELLED | {"when": "soon"}, LABELLED | {"label_id": None}, LABELLED]
    with pytest.raises(DataError) as error:
        read_sheet(saved(tmp_path / f"sheet{ending}", table_of(*rows)))
    summary, maybe, when, missing, hint = str(error.value).splitlines()
    assert summary == "102 of 103 rows of the sheet cannot be used, and none was taken"
    assert "row 4 and 97 more rows: human: found text 'maybe', expected 1 or 0 (also true" in maybe
    assert "row 102: when: found text 'soon', expected a date and time, such as" in when
    assert "row 103: label_id: found null, expected 32 hexadecimal digits" in missing
    assert hint == "  hint: correct the rows"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("sheet.csv", b"", "has no rows"),
        ("sheet.csv", b"label_id;human\r\n;\r\n;;\r\n", "has no rows"),
        ("sheet.csv", b"a;b\r\n1;2\r\n", r"has no column human, label_id \(columns: a, b\)"),
        ("sheet.csv", b"label_id;label\r\n1;2\r\n", "has no column human"),
        ("sheet.csv", b"human;human;label_id\r\n1;2;3\r\n", "two columns human"),
        ("sheet.jsonl", b"{\n{\n", r"2 of 2 rows(?s:.*)sheet\.jsonl:1; .*invalid JSON"),
        (
            "sheet.jsonl",
            b'{"label_id": [1], "human": {"a": 1}}\n',
            "label_id: found a list(?s:.*)human: found an object",
        ),
        (
            "sheet.jsonl",
            b'{"label_id": "\\ud800", "human": 1' + b"0" * 400 + b"}\n",
            "half a char(?s:.*)bits, expected 1 or",
        ),
        ("sheet.xlsx", b"PK\x03\x04 and nothing else", "cannot be read as an Excel workbook"),
        ("sheet.xlsx", b"\xd0\xcf\x11\xe0 with a password", "cannot be read as an Excel workbook"),
        ("sheet.csv", b"PK\x03\x04", "a zip archive"),
        ("sheet.xls", b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_sheet(tmp_path / name)


def test_a_workbook_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no sheets with a column human .*\(Sheet\)"):
        read_sheet(saved(tmp_path / "sheet.xlsx", [["a"], ["b"]]))
    with pytest.raises(DataError, match="two columns human"):
        read_sheet(saved(tmp_path / "sheet.xlsx", [["human", "human"], [1, 0]]))
    with pytest.raises(DataError, match=r"no column label_id \(columns: 7, human, metric\)"):
        read_sheet(saved(tmp_path / "sheet.xlsx", [["human", None, "metric", 7], [1, "x", "faithfulness"]]))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_sheet(tmp_path / "none.xlsx")


def test_empty_cells_up_to_excel_s_limits_take_no_memory(tmp_path: Path) -> None:
    """A row beyond the limit is refused."""
    sheet = "xl/worksheets/sheet1.xml"

    def with_row(row: int) -> Path:
        cells = f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row></sheetData>'
        return zipped(tmp_path / f"{row}.xlsx", **EXCEL | {sheet: EXCEL[sheet].replace("</sheetData>", cells)})

    assert len(read_sheet(with_row(2**20))) == 2
    with pytest.raises(DataError, match="rows beyond 1,048,576"):
        read_sheet(with_row(2 * 10**9))


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    grown = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(8))
    sheet = "xl/worksheets/sheet1.xml"
    for entities in ('<!ENTITY i SYSTEM "file:///etc/hostname">', f'<!ENTITY a "aaaaaaaaaa">{grown}'):
        content = f"<!DOCTYPE x [{entities}]>{EXCEL[sheet]}".replace("<v>0</v>", "<v>&i;</v>")
        with pytest.raises(DataError, match="cannot be read as an Excel workbook"):
            read_sheet(zipped(tmp_path / "sheet.xlsx", **EXCEL | {sheet: content}))


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    """100 MB of blanks in 100 kB."""
    bomb = EXCEL | {"xl/worksheets/sheet1.xml": " " * 100_000_000}
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        read_sheet(zipped(tmp_path / "sheet.xlsx", **bomb))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(EXCEL)), st.integers(0, 1500), st.sampled_from(["", "<", "9", "\x00", "&a;", '"', "é"]))
def test_a_damaged_workbook_is_labels_or_a_data_error(tmp_path: Path, part: str, place: int, other: str) -> None:
    content = EXCEL[part]
    place %= len(content)
    path = zipped(tmp_path / "sheet.xlsx", **EXCEL | {part: content[:place] + other + content[place + 1 :]})
    with suppress(DataError):
        assert len(read_sheet(path)) <= 2


@pytest.mark.parametrize("ending", ENDINGS)
def test_thousands_of_rows_come_back(tmp_path: Path, ending: str) -> None:
    rows = [sheet_row(label_id=f"{number:032x}", contexts=["word " * 100] * 3) for number in range(2_000)]
    write_sheet(tmp_path / f"sheet{ending}", rows)
    assert [label.label_id for label in read_sheet(tmp_path / f"sheet{ending}")] == [row["label_id"] for row in rows]
