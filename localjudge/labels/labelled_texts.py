"""Read labelled texts for measuring a judge. The columns determine the shape of the file.

attribution  context (or contexts), statement, label       do the contexts support the statement?
relevance    question, sentences, relevant                 which sentences answer it?
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from localjudge.dataset.contexts import read_printed
from localjudge.dataset.formats import read
from localjudge.dataset.rows import Problem, Problems, RawRow, Report, check_text, describe, shown
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.labels.label_sheet import LABEL_FORM, parse_label
from localjudge.types import Label

LabelShape = Literal["attribution", "relevance"]
_LISTS = ("contexts", "sentences", "relevant")
_LABELS_OF_SENTENCES = "1, 0 or null for each sentence"
_ROWS_FOR_SHAPE = 100
"""Number of rows that decide the shape of a file by their columns."""


class LabelledText(NamedTuple):
    """A statement with its contexts and one label, or sentences of a passage with a label each."""

    place: str
    columns: Mapping[str, Any]
    texts: tuple[str, ...]
    labels: tuple[Label | None, ...]
    statement: str | None
    question: str | None

    @property
    def shape(self) -> LabelShape:
        if self.statement is None:
            return "relevance"
        return "attribution"


def hash_content(source: Source) -> str:
    """Return the sha256 of the decompressed content of a file."""
    sha256 = hashlib.sha256()
    with source.open() as opened:
        for chunk in iter(lambda: opened.stream.read(2**20), b""):
            sha256.update(chunk)
    return sha256.hexdigest()


def read_labelled_texts(source: Source) -> tuple[list[LabelledText], int]:
    """Read the rows of a file, except unlabelled statements, and count the missing labels.

    Raises DataError if it cannot be read, has an unknown shape, has invalid rows, or has no label.
    """
    rows = list(read(source, {}))
    shape = _find_shape(rows, source.name)
    texts: list[LabelledText] = []
    problems = Problems()
    for row in rows:
        if isinstance(row, Problem):
            problems.add_row([row])
            continue
        text, problems_of_row = _read_row(row, shape)
        if problems_of_row:
            problems.add_row(problems_of_row)
        else:
            texts.append(text)
    if problems.count:
        raise problems.error(
            f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used",
            "correct the rows",
        )
    unlabelled = sum(text.labels.count(None) for text in texts)
    if unlabelled == sum(len(text.labels) for text in texts):
        raise DataError(
            "the file has no labels",
            hint="fill in the labels, 1 or 0, and run the command again",
        )
    if shape == "attribution":
        texts = [text for text in texts if None not in text.labels]
    return texts, unlabelled


def _find_shape(rows: Sequence[RawRow | Problem], name: str) -> LabelShape:
    if not rows:
        raise DataError(f"{name} has no rows")
    columns: dict[str, None] = {}
    for row in rows[:_ROWS_FOR_SHAPE]:
        if isinstance(row, RawRow):
            columns |= dict.fromkeys(row.values)
    has_context = "context" in columns or "contexts" in columns
    if not columns or (has_context and columns.keys() >= {"statement", "label"}):
        return "attribution"
    if columns.keys() >= {"question", "sentences", "relevant"}:
        return "relevance"
    raise DataError(
        f"{name} has no labelled texts (columns: {', '.join(map(shown, columns))})",
        hint="use the columns context, statement and label, or question, sentences and relevant; "
        "to read labels of a run's verdicts: localjudge label RUN --read FILE",
    )


def _read_row(row: RawRow, shape: LabelShape) -> tuple[LabelledText, list[Problem]]:
    """Return the texts and labels of a row, and its problems."""
    problems: list[Problem] = []

    def report(column: str, value: str, expected: str) -> None:
        problems.append(Problem.at(row.place, column, value, expected))

    cells = _read_cells(row, report)
    if shape == "relevance":
        text = _read_passage(row, cells, report)
    else:
        contexts = _as_list(cells.get("contexts"))
        _check_texts(contexts, "contexts", report)
        _require_text(cells.get("statement"), "statement", report)
        if "question" in cells:
            _require_text(cells["question"], "question", report)
        label = _read_label(cells.get("label"), "label", LABEL_FORM, report)
        text = LabelledText(
            str(row.place),
            row.values,
            tuple(contexts),
            (label,),
            cells.get("statement"),
            cells.get("question"),
        )
    return text, problems


def _read_cells(row: RawRow, report: Report) -> dict[str, Any]:
    """Return the filled cells, with the lists in them. A single context becomes `contexts`."""
    cells: dict[str, Any] = {}
    for name, value in row.values.items():
        is_nan = isinstance(value, float) and math.isnan(value)  # an empty cell of a pandas table
        if value is not None and value != "" and not is_nan:
            cells[name] = value
    if "context" in cells:
        cells["contexts"] = cells.pop("context")
    if not row.typed:
        for name in _LISTS:
            if name in cells:
                cells[name] = read_printed(cells[name], name, report)
    return cells


def _read_passage(row: RawRow, cells: Mapping[str, Any], report: Report) -> LabelledText:
    """Read a row with a question and the sentences of a passage, with a label each."""
    sentences = _as_list(cells.get("sentences"))
    _check_texts(sentences, "sentences", report)
    _require_text(cells.get("question"), "question", report)
    marks = _as_list(cells.get("relevant"))
    if len(marks) != len(sentences):
        report("relevant", describe(cells.get("relevant")), _LABELS_OF_SENTENCES)
    labels = [_read_label(mark, "relevant", _LABELS_OF_SENTENCES, report) for mark in marks]
    return LabelledText(
        str(row.place),
        row.values,
        tuple(sentences),
        tuple(labels),
        None,
        cells.get("question"),
    )


def _check_texts(texts: Sequence[Any], column: str, report: Report) -> None:
    for text in texts:
        _require_text(text, column, report)
    if not texts:
        report(column, describe(texts), "texts")


def _require_text(value: Any, column: str, report: Report) -> None:
    if check_text(value, column, report, "text") is None and value is None:
        report(column, describe(None), "text")


def _read_label(value: Any, column: str, form: str, report: Report) -> Label | None:
    try:
        return parse_label(value)
    except ValueError:
        report(column, describe(value), form)
        return None


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    return [value]
