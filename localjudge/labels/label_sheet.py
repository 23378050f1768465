"""Write sheets of statements to label, and read them back.

    .jsonl   a JSON object on each line
    .csv     an instruction, then the columns statement, context, answer, human, and all others
             UTF-8 with a byte-order mark, CRLF; separated by commas in an English sheet, by
             semicolons in other languages, as Excel expects; texts are never formulas

Rows contain the evidence without the judge's verdict. Columns are read by name: `label_id`, the key
of the statement; its `text` (in CSV `statement`), to detect a column that was sorted separately;
`human`, the label; `annotator`, `when`, `draw`, `planned` (the number of statements of the sheet)
and `evidence_seen`. All others are only for the annotator. In CSV, the `answer` has the statement
between >>> and <<<. A sheet with the closest sentences has them in the column `closest`, after
`context`; what is in this column was shown, also if `evidence_seen` was deleted. It was called
`evidence`, although the sentences may contradict the statement.

The reader also accepts what spreadsheets save: other separators and encodings, columns in another
order, rows and columns without text, and records without their last empty cells. It skips rows
without a label_id and a label, such as the instruction. A label is 1 or 0, yes or no in several
languages, or a spreadsheet's version of them:

    1     1   1.0   1,00   TRUE   WAHR    VRAI  VERO    y  yes  ja    oui  si   sí  sì  tak  sim  да
    0     0   0.0   0,00   FALSE  FALSCH  FAUX  FALSO   n  no   nein  non  nee  nie  não  нет
    None  empty   ?   -
"""

import csv
import io
import logging
import math
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from localjudge.dataset.formats import read
from localjudge.dataset.rows import Problem, Problems, RawRow, Report, check_id, describe, shown
from localjudge.dataset.sources import Source, shown_name
from localjudge.errors import DataError, InputError
from localjudge.labels.label_source import SheetRow, name_context
from localjudge.resources import write_output
from localjudge.run_directory.label_rows import EvidenceSeen
from localjudge.run_directory.result_rows import json_line
from localjudge.text.names import is_damaged
from localjudge.types import Label
from localjudge.words import escape_formula, numbered, option

ENDINGS = (".jsonl", ".csv")
HUMAN = "human"

_PAGE = "--page FILE; in Python a file that ends in .html"
_log = logging.getLogger(__name__)
_CLOCKS_DIFFER = timedelta(days=1)
"""A label from further in the future is refused."""
PLANNED = "planned"
"""Column with the number of statements of the sheet or page."""
CLOSEST = "closest"
"""Column with the sentences closest to the statement, only in a sheet that shows them."""
_EARLIER_CLOSEST = "evidence"
EVIDENCE_SEEN = "evidence_seen"
"""Column that says whether the annotator saw them: opened, shown, or an empty cell."""
_TECHNICAL = ("label_id", "draw", "sample_id", "metric", "position", PLANNED)
_WHOLE_NUMBER = re.compile(r"([0-9]{1,9})(?:[.,]0+)?")
_OPTIONAL = ("task", "question", "reference", "response")
_NEEDED = (HUMAN, "label_id")
_TEXTS = ("label_id", "text", "annotator", "when", "draw")
_MAX_CELL = 32_767
"""Characters of an Excel cell."""
_MAX_NAMES = 20
"""Column names in a message."""
_LABEL_ID = re.compile("[0-9a-f]{32}")
_NOT_UTF8 = re.compile("[\udc80-\udcff]+")
"""Bytes that are not UTF-8, as decoded by `Source`."""
LABEL_FORM = "1 or 0 (also true and false, yes and no, in several languages), or an empty cell"
_NUMBER = re.compile(r"([01])(?:[.,]0+)?")
_LABELS: dict[str, Label | None] = {
    **dict.fromkeys(("y", "yes", "ja", "oui", "si", "sí", "sì", "tak", "sim", "да"), 1),
    **dict.fromkeys(
        ("true", "wahr", "vrai", "verdadero", "verdadeiro", "vero", "waar", "prawda", "истина"),
        1,
    ),
    **dict.fromkeys(("n", "no", "nein", "non", "nee", "nie", "não", "нет"), 0),
    **dict.fromkeys(("false", "falsch", "faux", "falso", "onwaar", "fałsz", "ложь"), 0),
    **dict.fromkeys(("", "?", "-"), None),
}


class SheetLabel(NamedTuple):
    """A row of a sheet.

    Texts may keep the apostrophe of `words.escape_formula`. `when` is ISO 8601 in UTC.
    `is_answered`: it has a label, or says that the statement cannot be decided (`is_undecidable`).
    `planned` is the number of statements of its sheet or page. `evidence_seen` says whether the
    annotator saw the evidence.
    """

    place: str
    label_id: str
    text: str | None
    human: Label | None
    annotator: str | None
    when: str | None
    draw: str | None
    is_answered: bool
    planned: int | None
    evidence_seen: EvidenceSeen | None
    is_undecidable: bool = False


def write_sheet(
    path: Path, rows: Sequence[SheetRow], *, instruction: str = "", separator: str = ","
) -> None:
    """Write the rows in the format of the path's suffix.

    `instruction` is the first line of a .csv, `separator` is between its cells. Raises InputError
    for an existing file or another suffix.
    """
    _refuse_workbook(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        hint = f"name a file that ends in {', '.join(ENDINGS)}, or in .html for a page"
        raise InputError(f"{path} is not a sheet", hint=hint)
    if path.exists() or path.is_symlink():
        raise InputError(
            f"{path} already exists and may contain labels",
            hint=f"name another with {option('out')}",
        )
    if ending == ".csv":
        _write_csv(path, [_csv_row(row) for row in rows], instruction, separator)
        return
    lines: list[bytes] = []
    for row in rows:
        answer = row["source_text"]
        values = {**row, "source_text": answer and answer.in_words}
        if CLOSEST in row:
            values[CLOSEST] = [sentence._asdict() for sentence in row[CLOSEST]]
        lines.append(json_line(values).encode())
    write_output(path, lines)


def _refuse_workbook(path: Path) -> None:
    if path.suffix.lower() == ".xlsx":
        raise InputError(
            f"{path} is an Excel workbook",
            hint=f"save the sheet as CSV, or use a page ({_PAGE})",
        )


def _csv_row(row: SheetRow) -> SheetRow:
    """Return the cells of a row in reading order."""
    contexts: list[str] = []
    for number, text in enumerate(row["contexts"] or (), 1):
        contexts.append(f"[{name_context(row, number)}] {text}")
    answer = row["response"]
    response = None
    if row["source_text"] is not None:
        answer = row["source_text"].in_words
        response = row["response"]
    closest: SheetRow = {}
    seen: SheetRow = {}
    if CLOSEST in row:
        sentences = [sentence.in_words for sentence in row[CLOSEST]]
        closest[CLOSEST] = "\n\n".join(sentences) or None
        seen[EVIDENCE_SEEN] = row[EVIDENCE_SEEN]
    return {
        "statement": row["text"],
        "context": "\n\n".join(contexts) or None,
        **closest,
        "answer": answer,
        HUMAN: row[HUMAN],
        "annotator": row["annotator"],
        "task": row["asks"],
        "question": row["user_input"],
        "reference": row["reference"],
        "response": response,
        **{column: row.get(column) for column in _TECHNICAL},
        **seen,
    }


def _write_csv(path: Path, rows: Sequence[SheetRow], instruction: str, separator: str) -> None:
    """Write the cells without columns for the annotator that are empty in all rows."""
    empty = {column for column in _OPTIONAL if all(row[column] is None for row in rows)}
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator)
    if instruction:
        writer.writerow([instruction])
    too_long = 0
    for number, row in enumerate(rows):
        filled = {column: cell for column, cell in row.items() if column not in empty}
        if number == 0:
            writer.writerow(filled)
        writer.writerow(map(escape_formula, filled.values()))
        too_long += sum(isinstance(cell, str) and len(cell) > _MAX_CELL for cell in filled.values())
    write_output(path, [text.getvalue().encode("utf-8-sig")])
    if too_long:
        texts = f"{numbered(too_long, 'text')} longer than the limit of an Excel cell"
        _log.warning(
            "%s (%s characters): Excel splits such a cell into several rows; "
            "a page shows them whole (%s)",
            texts,
            f"{_MAX_CELL:,}",
            _PAGE,
        )


def read_sheet(path: str | Path) -> tuple[list[SheetLabel], list[str]]:
    """Read the non-empty rows of a file or of standard input (`-`), with remarks on the reading.

    Raises DataError if it cannot be read, lacks columns, or has invalid or contradictory rows;
    InputError for an Excel workbook.
    """
    _refuse_workbook(Path(path))
    name = shown_name(str(path))
    if Path(path).exists() and not Path(path).is_file():
        raise DataError(
            f"{name} is not a regular file", hint="name a file, or - for standard input"
        )
    with Source(str(path)) as source:
        rows = list(read(source, {}, sheet=_NEEDED))
    columns: set[str] = set()
    for row in rows:
        if isinstance(row, RawRow):
            columns.update(row.values)
    missing = [column for column in _NEEDED if column not in columns]
    if columns and missing:
        names = ", ".join(sorted(map(shown, columns))[:_MAX_NAMES])
        raise DataError(
            f"{name} has no column {', '.join(missing)} (columns: {names})",
            hint="a sheet needs both",
        )
    labels, problems = _read_rows(rows)
    if problems.count:
        bad_rows = f"{problems.bad_rows} of {len(rows)} rows of the sheet cannot be used"
        raise problems.error(f"{bad_rows}, so no label was stored", "correct the rows")
    if not labels:
        raise DataError(f"{name} has no rows")
    remarks = []
    if source.other_encoding is not None:
        remarks.append(f"{name} is not UTF-8 and was read as {source.other_encoding}")
    return labels, remarks


def _read_rows(rows: Sequence[RawRow | Problem]) -> tuple[list[SheetLabel], Problems]:
    problems = Problems()
    labels: list[SheetLabel] = []
    label_of: dict[tuple[str, str | None, str | None], SheetLabel] = {}
    for row in rows:
        if isinstance(row, Problem):
            problems.add_row([row])
            continue
        label, problems_of_row = _read_row(row)
        if label and label.human is not None:
            other = label_of.setdefault((label.label_id, label.annotator, label.when), label)
            if other.human != label.human:
                clash = f"{label.human}, and {other.human} for the same statement in {other.place}"
                contradiction = Problem(
                    place=label.place, field=HUMAN, value=clash, expected="one label"
                )
                problems_of_row.append(contradiction)
        if problems_of_row:
            problems.add_row(problems_of_row)
        if label:
            labels.append(label)
    return labels, problems


def _read_row(row: RawRow) -> tuple[SheetLabel | None, list[Problem]]:
    """Return the label of a row, None for a note, and the problems of the row."""
    problems: list[Problem] = []

    def report(column: str, value: str, expected: str) -> None:
        problems.append(Problem.at(row.place, column, value, expected))

    values = {"text": row.values.get("statement"), **row.values}
    cells = {column: _read_cell(values.get(column)) for column in (*_TEXTS, HUMAN)}
    label_id = ""
    if isinstance(cells["label_id"], str):  # never a number
        label_id = cells["label_id"].strip().lower()
    if _is_note(row, cells, label_id):
        return None, []
    texts = {column: check_id(cells[column], column, report) for column in _TEXTS}
    del texts["label_id"]
    if not _LABEL_ID.fullmatch(label_id):
        report("label_id", describe(cells["label_id"]), "32 hexadecimal digits")
    name = row.values.get("annotator")
    if isinstance(name, str) and is_damaged(name):
        damaged = f"a name damaged by another encoding ({describe(name)})"
        report("annotator", damaged, "the name as it was (save the sheet as UTF-8)")
    if texts["annotator"]:
        texts["annotator"] = texts["annotator"].strip()
    human = read_label(cells[HUMAN], HUMAN, report)
    if texts["when"]:
        texts["when"] = _read_time(texts["when"], report)
    label = SheetLabel(
        place=str(row.place),
        label_id=label_id,
        human=human,
        **texts,
        is_answered=cells[HUMAN] is not None or texts["when"] is not None,
        planned=_whole_number(row.values.get(PLANNED)),
        evidence_seen=_read_evidence_seen(row, report),
        is_undecidable=is_undecidable(cells[HUMAN]),
    )
    return label, problems


def _read_evidence_seen(row: RawRow, report: Report) -> EvidenceSeen | None:
    """Return how the annotator saw the evidence, or None. Reports any other value.

    A sheet with the closest sentences has shown them.
    """
    cell = _read_cell(row.values.get(EVIDENCE_SEEN))
    word = str(cell).strip().casefold()
    for seen in get_args(EvidenceSeen):
        if word == seen:
            return cast(EvidenceSeen, seen)
    if cell is not None:
        report(EVIDENCE_SEEN, describe(cell), "opened, shown, or an empty cell")
    if _read_cell(row.values.get(CLOSEST) or row.values.get(_EARLIER_CLOSEST)):
        return "shown"
    return None


def _read_time(text: str, report: Report) -> str:
    """Return the time as ISO 8601 in UTC. Reports one that is not a time, or in the future."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if not moment.tzinfo:
            moment = moment.replace(tzinfo=UTC)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        report("when", describe(text), "a date and time, such as 2026-01-31T09:30:00Z")
        return text
    if moment > datetime.now(UTC) + _CLOCKS_DIFFER:
        report("when", describe(text), "a time that is not in the future, or an empty cell")
    return moment.isoformat()


def _whole_number(cell: Any) -> int | None:
    """Return the whole number in a cell, or None. Spreadsheets may write 50 as 50.0 or 50,0."""
    match = _WHOLE_NUMBER.fullmatch(str(cell).strip())
    if not match:
        return None
    return int(match[1])


def _is_note(row: RawRow, cells: dict[str, Any], label_id: str) -> bool:
    """Whether a row has neither a label nor a statement, such as the instruction in any column."""
    if cells[HUMAN] is not None or _LABEL_ID.fullmatch(label_id):
        return False
    filled = sum(_read_cell(value) is not None for value in row.values.values())
    return cells["label_id"] is None or filled == 1


def _read_cell(value: Any) -> Any:
    """Return the value of a cell, None if it is empty. Other bytes than UTF-8 are Windows-1252."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    return _NOT_UTF8.sub(
        lambda match: match[0].encode(errors="surrogateescape").decode("cp1252", "replace"), value
    )


def is_undecidable(value: Any) -> bool:
    """Return whether a cell or JSON value says that the annotator cannot tell: `?`."""
    return isinstance(value, str) and unicodedata.normalize("NFKC", value).strip() == "?"


def read_label(value: Any, column: str, report: Report, form: str = LABEL_FORM) -> Label | None:
    """Return the label in a cell or JSON value, None if unlabelled. Reports any other value."""
    try:
        return parse_label(value)
    except ValueError:
        report(column, describe(value), form)
        return None


def parse_label(value: Any) -> Label | None:
    """Parse the label in a cell or JSON value, None if unlabelled. Raises ValueError otherwise."""
    if isinstance(value, str):
        word = unicodedata.normalize("NFKC", value).strip().casefold()
        if word in _LABELS:
            return _LABELS[word]
        number = _NUMBER.fullmatch(word)
        if number:
            value = int(number[1])
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float) and value == 1:
        return 1
    if isinstance(value, int | float) and value == 0:
        return 0
    raise ValueError(f"not a label: {value!r:.40}")
