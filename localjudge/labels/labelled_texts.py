"""Read labelled texts for measuring a judge. The columns determine the shape of the file.

attribution  context (or contexts), statement, label       do the contexts support the statement?
relevance    question, sentences, relevant                 which sentences answer it?
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from localjudge.dataset.contexts import read_cell
from localjudge.dataset.formats import read
from localjudge.dataset.problems import Problem, Problems, check_text, describe, shown
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.labels.human_label import LABEL_FORM, parse_label
from localjudge.types import Label

LabelShape = Literal["attribution", "relevance"]
_LISTS = ("contexts", "sentences", "relevant")
_STATEMENT, _SENTENCES = ("contexts", "statement", "label"), ("sentences", "question", "relevant")


class LabelledText(NamedTuple):
    """A statement with its contexts and one label, or the sentences of a passage with a label each."""

    place: str
    columns: Mapping[str, Any]
    texts: tuple[str, ...]
    labels: tuple[Label | None, ...]
    statement: str | None
    question: str | None


class LabelledTexts(NamedTuple):
    """Labelled texts of one file. `sha256` is of the decompressed file, `unlabelled` the number of missing labels."""

    name: str
    sha256: str
    shape: LabelShape
    texts: tuple[LabelledText, ...]
    unlabelled: int


def read_labelled_texts(file: str | Path) -> LabelledTexts:
    """Read a file, or standard input (`-`), without unlabelled statements.

    Raises DataError if it cannot be read, has an unknown shape, or has invalid rows.
    """
    with closing(Source(str(file))) as source:
        sha256 = hashlib.sha256()
        with source.open() as opened:
            for chunk in iter(lambda: opened.stream.read(2**20), b""):
                sha256.update(chunk)
        rows = [*read(source, {})]
    shape = _shape_of(rows, source.name)
    texts, problems = list[LabelledText](), Problems()
    for row in rows:
        wrong: list[Problem] = [row] if isinstance(row, Problem) else []
        text = None if isinstance(row, Problem) else _labelled_text(row, shape, wrong)
        if text is None:
            problems.add_row(wrong)
        else:
            texts.append(text)
    if problems.count:
        raise problems.error(
            f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used",
            "correct the rows",
        )
    unlabelled = sum(text.labels.count(None) for text in texts)
    usable = tuple(text for text in texts if shape == "relevance" or None not in text.labels)
    return LabelledTexts(source.name, sha256.hexdigest(), shape, usable, unlabelled)


def _shape_of(rows: Sequence[RawRow | Problem], name: str) -> LabelShape:
    if not rows:
        raise DataError(f"{name} has no rows")
    columns = {
        column: None for row in rows[:100] if isinstance(row, RawRow) for column in row.values
    }
    if not columns or (
        "statement" in columns and "label" in columns and columns.keys() & {"context", "contexts"}
    ):
        return "attribution"
    if columns.keys() >= {"question", "sentences", "relevant"}:
        return "relevance"
    raise DataError(
        f"{name} has no labelled texts (columns: {', '.join(map(shown, columns))})",
        hint="use the columns context, statement and label, or question, sentences and relevant; to read labels of a "
        "run's verdicts: localjudge label RUN --read FILE",
    )


def _labelled_text(row: RawRow, shape: LabelShape, problems: list[Problem]) -> LabelledText | None:
    def report(column: str, value: str, expected: str) -> None:
        problems.append(Problem.at(row.place, column, value, expected))

    filled = {
        name: value for name, value in row.values.items() if value not in (None, "")
    }  # NaN in a pandas table
    cells = {
        name: value
        for name, value in filled.items()
        if not (isinstance(value, float) and math.isnan(value))
    }
    if "context" in cells:
        cells["contexts"] = cells.pop("context")
    if not row.typed:
        cells |= {name: read_cell(cells[name], name, report) for name in _LISTS if name in cells}
    of_passage = shape == "relevance"
    list_column, text_column, label_column = _SENTENCES if of_passage else _STATEMENT
    form = "1, 0 or null for each sentence" if of_passage else LABEL_FORM
    texts, label = _as_list(cells.get(list_column)), cells.get(label_column)
    marks = _as_list(label) if of_passage else [label]
    single = [text_column] if of_passage or "question" not in cells else [text_column, "question"]
    for column, value in [
        *((list_column, text) for text in texts),
        *((name, cells.get(name)) for name in single),
    ]:
        if check_text(value, column, report, "text") is None and value is None:
            report(column, describe(None), "text")
    if not texts:
        report(list_column, describe(texts), "texts")
    if of_passage and len(marks) != len(texts):
        report(label_column, describe(label), form)
    labels: list[Label | None] = []
    for mark in marks:
        try:
            labels.append(parse_label(mark))
        except ValueError:
            report(label_column, describe(mark), form)
    statement, question = None if of_passage else cells.get("statement"), cells.get("question")
    labelled_text = LabelledText(
        str(row.place), row.values, tuple(texts), tuple(labels), statement, question
    )
    return None if problems else labelled_text


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
