"""Export a run's results to files and to data frames of pandas and polars.

    jsonl, csv, parquet, frames   scores, verdicts, or samples with a column for each metric

A user column with a reserved name gets the prefix `data.`. A missing score is null in JSON and
Parquet, NaN in pandas, and empty in CSV. Lists and objects in CSV and Parquet are JSON text, and so
is a Parquet column with mixed types. In CSV, text that looks like a formula gets an apostrophe.

A context is a text, or an object with its id, score and meta if it has any:

    ["It is in Ulm.", {"id": "d2", "text": "It rains.", "score": 0.5, "meta": {"page": 3}}]

In Parquet and polars, all contexts of such a column are objects, with the meta as JSON text.
"""

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from itertools import groupby, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from localjudge.dataset.python_values import plain
from localjudge.dataset.samples import extras_text
from localjudge.errors import InputError, RunDirectoryError
from localjudge.labels.labelled_statements import with_labels
from localjudge.report.evidence_columns import evidence_kinds, evidence_values
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import CONTEXT_FIELDS, Context, Sample
from localjudge.words import escape_formula

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]
Format = Literal["jsonl", "csv", "parquet"]
Rows = Literal["scores", "verdicts", "samples"]
GROUP_ROWS = 65_536
_LARGEST = 2**63
_BLOCK = 1 << 20
_Kind = Literal["text", "texts", "contexts", "number", "whole", "flag"]
_TEXTS: dict[str, _Kind] = {
    "user_input": "text",
    "retrieved_contexts": "texts",
    "reference_contexts": "texts",
    "response": "text",
    "reference": "text",
}
_CONTEXT_COLUMNS = ("id", "text", "score", "meta")
_KINDS: dict[str, _Kind] = {
    "index": "whole",
    "source_index": "whole",
    "start": "whole",
    "end": "whole",
    "label": "whole",
    "human": "whole",
    "window": "whole",
    "position": "whole",
    "p_yes": "number",
    "valid_mass": "number",
    "score": "number",
    "numerator": "number",
    "denominator": "number",
}
"""Types of columns. All others are text, including `against`, a number or `reference`."""
_KINDS_OF_TYPES: dict[frozenset[type], _Kind] = {
    frozenset({float}): "number",
    frozenset({int, float}): "number",
    frozenset({int}): "whole",
    frozenset({bool}): "flag",
}


class FlatTable(NamedTuple):
    """Columns with their types, and rows that can be read repeatedly."""

    kinds: dict[str, _Kind]
    rows: Callable[[], Iterator[Row]]
    user_columns: Mapping[str, str] = {}
    """The user's columns with their names in this table."""

    def select(self, names: Sequence[str]) -> "FlatTable":
        """Return the table with these columns, in this order."""

        def rows() -> Iterator[Row]:
            for row in self.rows():
                yield {name: row[name] for name in names}

        kinds = {name: self.kinds[name] for name in names}
        return FlatTable(kinds, rows, self.user_columns)

    def columns(self, rows: Iterable[Row]) -> dict[str, list[Any]]:
        """Return the values of each column, in its type."""
        block = list(rows)
        columns: dict[str, list[Any]] = {}
        for name, kind in self.kinds.items():
            columns[name] = [_convert(row[name], kind) for row in block]
        return columns


def flat_table(
    run: RunRecord, rows: Rows, *, texts: bool = False, columns: bool = False
) -> FlatTable:
    """Return the rows, optionally with the texts and the user's columns of each sample.

    Raises RunDirectoryError if scores and samples differ in order.
    """
    kinds = _kinds(run, rows)
    if not texts and not columns:
        return FlatTable(kinds, lambda: plain_rows(run, rows))
    if rows != "samples" and not run.in_one_order():
        raise RunDirectoryError(
            f"the samples in {run.directory} are in another order than their scores",
            hint="repeat the command that made the run, or export without texts and columns",
        )
    if texts:
        kinds |= _TEXTS | dict.fromkeys(_fields_with_objects(run), "contexts")
    names: dict[str, str] = {}
    if columns:
        names = _add_user_columns(run, kinds)

    def rows_with_data() -> Iterator[Row]:
        data = zip(run.iter_samples(), run.iter_extras(), strict=True)
        for sample_id, group in groupby(plain_rows(run, rows), key=lambda row: row["sample_id"]):
            sample, (_, extras) = next(entry for entry in data if entry[0].id == sample_id)
            added = {name: extras.get(column) for column, name in names.items()}
            if texts:
                added = _sample_texts(sample) | added
            for row in group:
                yield row | added

    return FlatTable(kinds, rows_with_data, names)


def _add_user_columns(run: RunRecord, kinds: dict[str, _Kind]) -> dict[str, str]:
    """Add the user's columns to the types, and return their names in the table."""
    names: dict[str, str] = {}
    for column, kind in _kinds_of_user_columns(run).items():
        name = column
        while name in kinds:
            name = f"data.{name}"
        names[column] = name
        kinds[name] = kind
    return names


def _sample_texts(sample: Sample) -> Row:
    values: Row = {}
    for name in _TEXTS:
        values[name] = getattr(sample, name)
        if name in CONTEXT_FIELDS:
            values[name] = _context_values(values[name])
    return values


def _fields_with_objects(run: RunRecord) -> set[str]:
    """Return the fields with a context that is more than a text."""
    fields: set[str] = set()
    for sample in run.iter_samples():
        for name in CONTEXT_FIELDS:
            contexts = getattr(sample, name) or ()
            if not all(_is_plain(context) for context in contexts):
                fields.add(name)
    return fields


def _is_plain(context: Context) -> bool:
    return context.id is None and context.score is None and not context.meta


def _context_values(contexts: Sequence[Context] | None) -> list[str | dict[str, Any] | None] | None:
    if contexts is None:
        return None
    values: list[str | dict[str, Any] | None] = []
    for context in contexts:
        if _is_plain(context):
            values.append(context.text)
        else:
            values.append(_context_object(context))
    return values


def _context_object(context: Context) -> dict[str, Any]:
    values = {
        "id": context.id,
        "text": context.text,
        "score": context.score,
        "meta": context.meta or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _context_struct(context: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a context with all of its fields, as columns of one type need them."""
    values = {"text": context} if isinstance(context, str) else context
    struct = {name: values.get(name) for name in _CONTEXT_COLUMNS}
    if struct["meta"] is not None:
        struct["meta"] = _convert(struct["meta"], "text")
    return struct


def plain_rows(run: RunRecord, rows: Rows) -> Iterator[Row]:
    """Yield the rows without texts and columns of the data."""
    if rows == "scores":
        for score in run.iter_scores():
            yield dict(vars(score))
    elif rows == "verdicts":
        yield from _verdict_values(run)
    else:
        yield from _sample_rows(run)


def _verdict_values(run: RunRecord) -> Iterator[Row]:
    for verdict in with_labels(run, run.iter_verdicts_with_evidence()):
        values = verdict.values
        if run.has_evidence:
            values |= evidence_values(verdict.row)
        yield values


def _sample_rows(run: RunRecord) -> Iterator[Row]:
    for sample, scores in run.iter_scored_samples():
        row: Row = {"sample_id": sample.id}
        for metric in run.summary.metrics:
            score = scores.get(metric)
            row[metric] = score and score.score
            row[f"{metric}_status"] = score and score.status
        yield row


def _kinds(run: RunRecord, rows: Rows) -> dict[str, _Kind]:
    kinds: dict[str, _Kind] = {"sample_id": "text"}
    if rows == "samples":
        for metric in run.summary.metrics:
            kinds[metric] = "number"
            kinds[f"{metric}_status"] = "text"
        return kinds
    if rows == "scores":
        names = [field.name for field in fields(ScoreRow)]
    else:
        names = [field.name for field in fields(VerdictRow)]
        names += ["human", "annotators"]
    for name in names:
        kinds[name] = _KINDS.get(name, "text")
    kinds.pop("evidence", None)  # it has columns for its parts
    if rows == "verdicts" and run.has_evidence:
        kinds |= evidence_kinds()
    return kinds


def _kinds_of_user_columns(run: RunRecord) -> dict[str, _Kind]:
    types: dict[str, set[type]] = {}
    for _, extras in run.iter_extras():
        for name, value in extras.items():
            kind = type(value)
            if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
                kind = str
            types.setdefault(name, set()).add(kind)
    kinds: dict[str, _Kind] = {}
    for name, column_types in types.items():
        kinds[name] = _KINDS_OF_TYPES.get(frozenset(column_types - {type(None)}), "text")
    return kinds


def _convert(value: Any, kind: _Kind) -> Any:
    if kind == "number" and value is not None:
        return float(value)
    if kind == "contexts" and value is not None:
        return [_context_struct(context) for context in value]
    if kind == "text" and not isinstance(value, str | None):
        return json.dumps(value, ensure_ascii=False)
    return value


def pandas_frame(
    run: RunRecord, rows: Rows, types: Mapping[str, Any] = MappingProxyType({})
) -> "pandas.DataFrame":
    """Return the rows with the user's columns in these types.

    Raises InputError if pandas is not installed.
    """
    _require("pandas")
    import pandas

    kinds = {
        "text": object,
        "texts": object,
        "contexts": object,
        "number": "float64",
        "whole": "Int64",
    }
    table = _frame_table(run, rows)
    entries = list(table.rows())
    values = table.columns(entries)
    for name, kind in table.kinds.items():
        if kind == "contexts":
            values[name] = [row[name] for row in entries]
    columns = {
        name: pandas.Series(values[name], dtype=kinds.get(kind))
        for name, kind in table.kinds.items()
    }
    for column, name in table.user_columns.items():
        columns[name] = _in_type(pandas.Series([row[name] for row in entries]), types.get(column))
    frame = pandas.DataFrame(columns)
    if rows != "samples" or not run.index:
        return frame
    ids = run.manifest.environment.mapping.get("id")
    levels = []
    for level in run.index:
        values = frame["sample_id" if level.column == ids else table.user_columns[level.column]]
        with suppress(
            TypeError, ValueError
        ):  # JSON may lose the type; the values then stay as stored
            values = values.astype(level.dtype)
        levels.append(pandas.Index(values.array, name=level.name))
    index = levels[0] if len(levels) == 1 else pandas.MultiIndex.from_arrays(levels)
    names = [table.user_columns[level.column] for level in run.index if level.column != ids]
    return frame.drop(columns=names).set_index(index)


def _in_type(values: "pandas.Series", dtype: Any) -> "pandas.Series":
    """Return the values in this type, or unchanged if it does not fit all of them."""
    if dtype is None:
        return values
    names = getattr(dtype, "categories", None)
    categories = (
        {}
        if names is None
        else {json.loads(extras_text({"": plain(name)}))[""]: name for name in names}
    )
    with suppress(TypeError, ValueError):
        typed = (values.map(categories) if categories else values).astype(dtype)
        if typed.isna().equals(values.isna()):
            return typed
    return values


def polars_frame(
    run: RunRecord, rows: Rows, types: Mapping[str, Any] = MappingProxyType({})
) -> "polars.DataFrame":
    """Like `pandas_frame`, for polars. Raises InputError if it is not installed."""
    _require("polars")
    import polars

    context = polars.Struct(
        {name: polars.String for name in _CONTEXT_COLUMNS} | {"score": polars.Float64}
    )
    texts = polars.List(polars.String)
    kinds = (
        polars.String,
        texts,
        polars.List(context),
        polars.Float64,
        polars.Int64,
        polars.Boolean,
    )
    of_kind: dict[str, Any] = dict(zip(get_args(_Kind), kinds, strict=True))
    table = _frame_table(run, rows)
    schema = {name: of_kind[kind] for name, kind in table.kinds.items()}
    frame = polars.DataFrame(table.columns(table.rows()), schema=schema)
    for column, name in table.user_columns.items():
        dtype, values = types.get(column), frame[name]
        if not isinstance(dtype, polars.DataType) or dtype.is_nested():
            continue
        with suppress(polars.exceptions.PolarsError, ValueError):
            if isinstance(dtype, polars.datatypes.TemporalType) and values.dtype == polars.String:
                frame = frame.with_columns(values.str.strptime(dtype))
            else:
                frame = frame.with_columns(values.cast(dtype))
    return frame


def _frame_table(run: RunRecord, rows: Rows) -> FlatTable:
    if rows != "samples":
        return flat_table(run, rows)
    table = flat_table(run, rows, texts=True, columns=True)
    leading = ["sample_id", *_TEXTS, *table.user_columns.values()]
    return table.select([*leading, *(name for name in table.kinds if name not in leading)])


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise InputError(
            f"the package {package} is not installed",
            hint=f"install it with: pip install {package}",
        )


def exported_parts(
    run: RunRecord,
    as_format: Format,
    rows: Rows,
    *,
    texts: bool = False,
    columns: bool = False,
) -> Iterator[bytes]:
    """Yield the exported file in parts. Raises InputError for missing data or a missing package."""
    table = flat_table(run, rows, texts=texts, columns=columns)
    if as_format == "csv":
        return _csv(table)
    if as_format == "parquet":
        return _parquet(table)
    return _jsonl(table)


def _jsonl(table: FlatTable) -> Iterator[bytes]:
    for row in table.rows():
        yield json_line(row).encode()


def _csv(table: FlatTable) -> Iterator[bytes]:
    yield _csv_line(table.kinds)
    for row in table.rows():
        yield _csv_line(row.values())


def _csv_line(cells: Iterable[Any]) -> bytes:
    """Return a line in which lists and objects are JSON, and formulas have an apostrophe."""
    escaped: list[Any] = []
    for cell in cells:
        value = cell
        if isinstance(cell, list | dict):
            value = _convert(cell, "text")
        escaped.append(escape_formula(value))
    text = io.StringIO(newline="")
    csv.writer(text).writerow(escaped)
    return text.getvalue().encode()


def _parquet(table: FlatTable) -> Iterator[bytes]:
    _require("pyarrow")
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    text = pyarrow.string()
    number = pyarrow.float64()
    context = pyarrow.struct(
        [(name, number if name == "score" else text) for name in _CONTEXT_COLUMNS]
    )
    types = {
        "text": text,
        "texts": pyarrow.list_(text),
        "contexts": pyarrow.list_(context),
        "number": number,
        "whole": pyarrow.int64(),
        "flag": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in table.kinds.items()])
    rows = table.rows()
    with tempfile.TemporaryFile() as file:  # without a name, so no other process can open it
        with parquet.ParquetWriter(file, schema) as writer:
            while block := list(islice(rows, GROUP_ROWS)):
                writer.write_table(pyarrow.table(table.columns(block), schema=schema))
        file.seek(0)
        yield from iter(lambda: file.read(_BLOCK), b"")
