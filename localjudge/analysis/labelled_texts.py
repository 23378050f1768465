"""Texts that people labelled, to measure a judge on: read from a file.

Its shapes are told apart by its columns:

    attribution  context (or contexts), statement, label       is the statement in the contexts?
    relevance    question, sentences, relevant                 which sentences answer it?

A label is 1 or 0, as `localjudge.analysis.human_label` reads it; an empty one means not labelled. Everything wrong with
any row is said at once, and no row is dropped in silence.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from localjudge.analysis.human_label import LABEL_FORM, parse_label
from localjudge.dataset.formats import read
from localjudge.dataset.problems import Problem, Problems, describe, shown
from localjudge.dataset.rows import RawRow, read_cell
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.types import Label

LabelShape = Literal["attribution", "relevance"]
_LISTS = ("contexts", "sentences", "relevant")


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


_Text = Annotated[str, Field(description="text")]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1, description="texts")]
_HumanLabel = Annotated[Label | None, BeforeValidator(parse_label), Field(description=LABEL_FORM)]


class _Row(BaseModel):
    """A row of a file of labels; `columns` is the row as it was read, whatever else it holds."""

    model_config = ConfigDict(frozen=True)

    place: str
    columns: Mapping[str, Any]


class LabelledStatement(_Row):
    """Whether a person attributes a statement to its contexts; None where not labelled."""

    contexts: _Texts
    statement: _Text
    label: _HumanLabel = None
    question: _Text | None = Field(default=None, description="text")


class LabelledSentences(_Row):
    """Which sentences of a passage a person needs to answer the question; None where not labelled."""

    question: _Text
    sentences: _Texts
    relevant: Annotated[tuple[_HumanLabel, ...], BeforeValidator(_listed)] = Field(
        description="1, 0 or nothing for each sentence"
    )

    @field_validator("relevant")
    @classmethod
    def _one_for_each(cls, labels: tuple[Label | None, ...], info: ValidationInfo) -> tuple[Label | None, ...]:
        if len(labels) != len(info.data.get("sentences", labels)):
            raise ValueError("one label for each sentence")
        return labels


_KINDS: dict[str, Any] = {"attribution": LabelledStatement, "relevance": LabelledSentences}


class LabelledTexts(NamedTuple):
    """The labelled texts of a file of one shape. `sha256` is that of the file, unpacked.

    `unlabelled` counts statements (which are left out) and sentences of passages that have no label.
    """

    name: str
    sha256: str
    shape: LabelShape
    texts: tuple[LabelledStatement | LabelledSentences, ...]
    unlabelled: int


def read_labelled_texts(file: str | Path) -> LabelledTexts:
    """The labelled texts of a file, or of standard input (`-`).

    Raises DataError for a file that cannot be read, has none of the shapes or any row that is not as it should be (all
    of them are named).
    """
    with closing(Source(str(file))) as source:
        sha256 = hashlib.sha256()
        with source.open() as opened:
            for chunk in iter(lambda: opened.stream.read(2**20), b""):
                sha256.update(chunk)
        rows = [*read(source, {})]
    shape = _shape(rows, source.name)
    texts: list[LabelledStatement | LabelledSentences] = []
    problems, unlabelled = Problems(), 0
    for row in rows:
        wrong: list[Problem] = [row] if isinstance(row, Problem) else []
        label = None if isinstance(row, Problem) else _labelled(row, _KINDS[shape], wrong)
        match label:
            case LabelledSentences():
                unlabelled += label.relevant.count(None)
                texts.append(label)
            case LabelledStatement():
                unlabelled += label.label is None
                texts += [label] if label.label is not None else []
        if wrong:
            problems.add_row(wrong)
    if problems.count:
        raise problems.error(f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used", "correct the rows")
    return LabelledTexts(source.name, sha256.hexdigest(), shape, tuple(texts), unlabelled)


def _shape(rows: Sequence[RawRow | Problem], name: str) -> LabelShape:
    """The shape of the first rows' columns. A file whose rows cannot be read at all counts as attribution."""
    columns = {column: None for row in rows[:100] if isinstance(row, RawRow) for column in row.values}
    if not rows:
        raise DataError(f"{name} has no rows")
    if not columns or ("statement" in columns and "label" in columns and columns.keys() & {"context", "contexts"}):
        return "attribution"
    if columns.keys() >= {"question", "sentences", "relevant"}:
        return "relevance"
    raise DataError(
        f"{name} holds no labelled texts (columns: {', '.join(shown(str(column)) for column in columns)})",
        hint="either context, statement and label, or question, sentences and relevant; labels of a run's verdicts are "
        "taken by: localjudge label RUN --read FILE",
    )


def _labelled(row: RawRow, kind: type[_Row], problems: list[Problem]) -> _Row | None:
    """The row as its shape has it; what is wrong with it is added to the problems."""

    def report(column: str, problem: str, expected: str) -> None:
        problems.append(Problem.at(row.place, column, problem, expected))

    filled = {name: value for name, value in row.values.items() if value not in (None, "")}  # NaN in a pandas table
    cells = {name: value for name, value in filled.items() if not (isinstance(value, float) and math.isnan(value))}
    if "context" in cells:
        cells["contexts"] = cells.pop("context")
    if not row.typed:
        cells |= {name: read_cell(cells[name], name, report) for name in _LISTS if name in cells}
    try:
        return kind.model_validate({**cells, "place": str(row.place), "columns": row.values})
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            column = str(problem["loc"][0])
            value = None if problem["type"] == "missing" else problem["input"]
            report(column, describe(value), kind.model_fields[column].description or "")
        return None
