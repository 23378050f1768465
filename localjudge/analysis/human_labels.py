"""What people said: a file of labels, in one of three shapes, told apart by its columns.

    verdicts     sample_id, metric, unit, source, source_index, index, text, human     rows of a run's verdicts
    attribution  context (or contexts), statement, label                               is the statement in the contexts?
    relevance    question, sentences, relevant                                         which sentences answer it?

A label is 1 or 0 (also true and false, yes and no); where there is none, the row or the sentence was not labelled.
JSONL, JSON, CSV and Parquet are read as data are. Everything that is wrong with any row is said at once, and no row is
dropped in silence.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from localjudge.dataset.cells import read_cell
from localjudge.dataset.problems import Problem, Problems, describe, shown
from localjudge.dataset.readers import read
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.record.result_rows import VerdictRow
from localjudge.types import Label

LabelShape = Literal["verdicts", "attribution", "relevance"]
HUMAN = "human"
INCLUSION_PROBABILITY = "inclusion_probability"
_LABEL_OF: dict[Any, Label] = {1: 1, 0: 0, "1": 1, "0": 0, "true": 1, "false": 0, "yes": 1, "no": 0, "1.0": 1, "0.0": 0}
_A_LABEL = "1 or 0 (also true and false, yes and no), or nothing"
_CHUNK = 2**20
_Given = TypeVar("_Given")


@dataclass(frozen=True)
class VerdictKey:
    """Which verdict of a run a label belongs to; `against` tells several verdicts on one unit apart."""

    sample_id: str
    metric: str
    unit: str
    source: str
    source_index: int | None
    index: int
    against: int | str | None = None


class LabelledVerdict(NamedTuple):
    """A verdict as a person judged it; `human` is None where nobody has yet.

    `columns` is the row as it was read, whatever else it holds.
    """

    place: str
    columns: Mapping[str, Any]
    key: VerdictKey
    text: str
    human: Label | None
    inclusion_probability: float
    annotator: str | None


class LabelledStatement(NamedTuple):
    """Whether a statement can be attributed to its contexts, as a person says."""

    place: str
    columns: Mapping[str, Any]
    contexts: tuple[str, ...]
    statement: str
    label: Label
    question: str | None


class LabelledSentences(NamedTuple):
    """Which sentences of a passage are needed to answer the question, as a person says; None where not labelled."""

    place: str
    columns: Mapping[str, Any]
    question: str
    sentences: tuple[str, ...]
    relevant: tuple[Label | None, ...]


class HumanLabels(NamedTuple):
    """The labels of a file: one of the lists holds them, as `shape` says. `sha256` is that of the file, unpacked."""

    name: str
    sha256: str
    shape: LabelShape
    verdicts: tuple[LabelledVerdict, ...] = ()
    statements: tuple[LabelledStatement, ...] = ()
    passages: tuple[LabelledSentences, ...] = ()
    unlabelled: int = 0
    """Rows without a label: verdicts and statements; of passages the sentences. Statements without one are left out."""


_Found = LabelledVerdict | LabelledStatement | LabelledSentences


class _Cells:
    """The values of one row, each read as what it has to be; what is wrong with them is collected."""

    def __init__(self, row: RawRow) -> None:
        self.row = row
        self.problems: list[Problem] = []

    def value(self, column: str) -> Any:
        """The value of a column; null where there is none: also for an empty cell of CSV and for NaN."""
        value = self.row.values.get(column)
        empty = value == "" or (isinstance(value, float) and math.isnan(value))
        return None if empty else value

    def text(self, column: str) -> str:
        value = self.value(column)
        if isinstance(value, int) and not isinstance(value, bool) and column == "sample_id":
            return str(value)
        return value if isinstance(value, str) else self._wrong(column, value, "text", "")

    def optional_text(self, column: str) -> str | None:
        return None if self.value(column) is None else self.text(column)

    def texts(self, column: str) -> tuple[str, ...]:
        items = self.listed(column)
        if items and all(isinstance(item, str) for item in items):
            return tuple(items)
        return self._wrong(column, self.value(column), "texts", ())

    def listed(self, column: str) -> list[Any]:
        """A list; one text is a list of one. In CSV it is written as JSON."""
        value = self.value(column)
        if isinstance(value, str):
            value = value if self.row.typed else read_cell(value, column, self._report)
        return list(value) if isinstance(value, list | tuple) else [value]

    def whole(self, column: str) -> int:
        number = self.optional_whole(column)
        return self._wrong(column, None, "a whole number", 0) if number is None else number

    def optional_whole(self, column: str) -> int | None:
        value = self.value(column)
        if value is None:
            return None
        number = self._number(value)
        if number is None or number < 0 or not number.is_integer():
            return self._wrong(column, value, "a whole number", 0)
        return int(number)

    def against(self) -> int | str | None:
        value = self.value("against")
        return value if isinstance(value, str) and not value.strip().isdecimal() else self.optional_whole("against")

    def label(self, column: str) -> Label | None:
        return self.label_of(column, self.value(column))

    def label_of(self, column: str, value: Any) -> Label | None:
        bare = value.strip().lower() if isinstance(value, str) else value
        if bare is None or bare == "":
            return None
        if isinstance(bare, str | bool | int | float) and bare in _LABEL_OF:
            return _LABEL_OF[bare]
        return self._wrong(column, value, _A_LABEL, None)

    def probability(self, column: str) -> float:
        """A probability above 0; 1 where there is none."""
        value = self.value(column)
        number = 1.0 if value is None else self._number(value)
        if number is None or not 0 < number <= 1:
            return self._wrong(column, value, "a probability above 0, at most 1", 1.0)
        return number

    def _number(self, value: Any) -> float | None:
        if (
            isinstance(value, bool)
            or not isinstance(value, str | int | float)
            or (self.row.typed and value == str(value))
        ):
            return None
        try:
            return float(value.replace(",", ".") if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            return None

    def _wrong(self, column: str, value: Any, expected: str, instead: _Given) -> _Given:
        self._report(column, describe(value), expected)
        return instead

    def _report(self, column: str, found: str, expected: str) -> None:
        self.problems.append(Problem.at(self.row.place, column, found, expected))


def read_labels(file: str | Path) -> HumanLabels:
    """The labels of a file, or of standard input (`-`).

    Raises DataError for a file that cannot be read, has none of the shapes or any row that is not as it should be (all
    of them are named), and for a verdict that is labelled twice.
    """
    with closing(Source(str(file))) as source:
        sha256 = _sha256(source)
        rows = [*read(source, {})]
    shape = _shape(rows, source.name)
    found, problems = _checked(rows, _READERS[shape])
    if problems.count:
        raise problems.error(f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used", "mend the rows")
    verdicts = tuple(row for row in found if isinstance(row, LabelledVerdict))
    statements = tuple(row for row in found if isinstance(row, LabelledStatement))
    passages = tuple(row for row in found if isinstance(row, LabelledSentences))
    bare = len(rows) - len(found) + sum(row.human is None for row in verdicts)
    bare += sum(label is None for row in passages for label in row.relevant)
    return HumanLabels(source.name, sha256, shape, verdicts, statements, passages, bare)


def key_of(row: VerdictRow) -> VerdictKey:
    """The key under which a person's label of this verdict is found."""
    return VerdictKey(row.sample_id, row.metric, row.unit, row.source, row.source_index, row.index, row.against)


def _shape(rows: Sequence[RawRow | Problem], name: str) -> LabelShape:
    """The shape of the first rows' columns. A file whose rows cannot be read at all counts as verdicts."""
    columns = {column: None for row in rows[:100] if isinstance(row, RawRow) for column in row.values}
    if not rows:
        raise DataError(f"{name} has no rows")
    if HUMAN in columns or not columns:
        return "verdicts"
    if "statement" in columns and "label" in columns and columns.keys() & {"context", "contexts"}:
        return "attribution"
    if columns.keys() >= {"question", "sentences", "relevant"}:
        return "relevance"
    found = ", ".join(shown(str(column)) for column in columns)
    raise DataError(
        f"{name} holds no labels that are known (columns: {found})",
        hint=f"either verdicts of a run with a column {HUMAN!r}, or context, statement and label, "
        "or question, sentences and relevant",
    )


def _checked(
    rows: Sequence[RawRow | Problem], reader: Callable[[_Cells], _Found | None]
) -> tuple[list[_Found], Problems]:
    found: list[_Found] = []
    problems = Problems()
    first: dict[VerdictKey, str] = {}
    for row in rows:
        if isinstance(row, Problem):
            problems.add_row([row])
            continue
        cells = _Cells(row)
        labelled = reader(cells)
        if isinstance(labelled, LabelledVerdict) and not cells.problems:
            if labelled.key in first:
                again = f"the verdict of {first[labelled.key]} again"
                cells.problems.append(Problem.at(row.place, None, again, "each verdict once"))
            first.setdefault(labelled.key, labelled.place)
        if cells.problems:
            problems.add_row(cells.problems)
        elif labelled is not None:
            found.append(labelled)
    return found, problems


def _verdict(cells: _Cells) -> LabelledVerdict:
    return LabelledVerdict(
        place=str(cells.row.place),
        columns=cells.row.values,
        key=VerdictKey(
            sample_id=cells.text("sample_id"),
            metric=cells.text("metric"),
            unit=cells.text("unit"),
            source=cells.text("source"),
            source_index=cells.optional_whole("source_index"),
            index=cells.whole("index"),
            against=cells.against(),
        ),
        text=cells.text("text"),
        human=cells.label(HUMAN),
        inclusion_probability=cells.probability(INCLUSION_PROBABILITY),
        annotator=cells.optional_text("annotator"),
    )


def _statement(cells: _Cells) -> LabelledStatement | None:
    contexts = "contexts" if cells.value("context") is None else "context"
    texts, statement, label = cells.texts(contexts), cells.text("statement"), cells.label("label")
    question = cells.optional_text("question")
    if label is None:
        return None
    return LabelledStatement(str(cells.row.place), cells.row.values, texts, statement, label, question)


def _passage(cells: _Cells) -> LabelledSentences:
    question, sentences = cells.text("question"), cells.texts("sentences")
    labels = [cells.label_of("relevant", value) for value in cells.listed("relevant")]
    if sentences and len(labels) != len(sentences):
        found = f"{len(labels)} labels for {len(sentences)} sentences"
        cells.problems.append(Problem.at(cells.row.place, "relevant", found, "one for each sentence"))
    return LabelledSentences(str(cells.row.place), cells.row.values, question, sentences, tuple(labels))


_READERS: dict[LabelShape, Callable[[_Cells], _Found | None]] = {
    "verdicts": _verdict,
    "attribution": _statement,
    "relevance": _passage,
}


def _sha256(source: Source) -> str:
    whole = hashlib.sha256()
    with source.open() as opened:
        while chunk := opened.stream.read(_CHUNK):
            whole.update(chunk)
    return whole.hexdigest()
