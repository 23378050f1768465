"""Export a run's results to files and to data frames of pandas and polars.

    jsonl, csv, parquet, frames   scores, verdicts, or one row per sample with a column for each metric

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
from itertools import chain, groupby, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from localjudge.dataset.python_values import plain
from localjudge.dataset.samples import extras_text
from localjudge.errors import InputError, RunDirectoryError
from localjudge.labels.labelled_statements import with_labels
from localjudge.report.evidence_columns import evidence_kinds, evidence_values
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import CONTEXT_FIELDS, Context
from localjudge.words import escape_formula

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]
Format = Literal["jsonl", "csv", "parquet"]
Rows = Literal["scores", "verdicts", "samples"]
ROWS_OF_GROUP = 65_536
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
    **dict.fromkeys(
        ("index", "source_index", "start", "end", "label", "human", "window", "position"),
        "whole",
    ),
    **dict.fromkeys(("p_yes", "valid_mass", "score", "numerator", "denominator"), "number"),
}
"""Types of columns. All others are text, including `against`, a number or `reference`."""
_KINDS_OF_TYPES: dict[frozenset[type], _Kind] = {
    **dict.fromkeys((frozenset({float}), frozenset({int, float})), "number"),
    frozenset({int}): "whole",
    frozenset({bool}): "flag",
}


class FlatTable(NamedTuple):
    """Columns with their types, and rows that can be read repeatedly."""

    kinds: dict[str, _Kind]
    rows: Callable[[], Iterator[Row]]
    user_columns: Mapping[str, str] = {}
    """The user's columns with their names in this table."""

    def of(self, names: Sequence[str]) -> "FlatTable":
        kinds = {name: self.kinds[name] for name in names}
        return FlatTable(
            kinds,
            lambda: ({name: row[name] for name in names} for row in self.rows()),
            self.user_columns,
        )

    def columns(self, rows: Iterable[Row]) -> dict[str, list[Any]]:
        block = list(rows)
        return {
            name: [_of_kind(row[name], kind) for row in block] for name, kind in self.kinds.items()
        }


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
    for column, kind in (_kinds_of_user_columns(run) if columns else {}).items():
        name = column
        while name in kinds:
            name = f"data.{name}"
        names[column], kinds[name] = name, kind

    def with_data() -> Iterator[Row]:
        data = zip(run.iter_samples(), run.iter_extras(), strict=True)
        for sample_id, of_sample in groupby(
            plain_rows(run, rows), key=lambda row: row["sample_id"]
        ):
            sample, (_, extras) = next(entry for entry in data if entry[0].id == sample_id)
            values = vars(sample) | {
                name: _context_values(getattr(sample, name)) for name in CONTEXT_FIELDS
            }
            more = {name: values[name] for name in _TEXTS if texts}
            more |= {name: extras.get(column) for column, name in names.items()}
            yield from (row | more for row in of_sample)

    return FlatTable(kinds, with_data, names)


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
    return [
        context.text if _is_plain(context) else _context_object(context) for context in contexts
    ]


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
        struct["meta"] = _of_kind(struct["meta"], "text")
    return struct


def plain_rows(run: RunRecord, rows: Rows) -> Iterator[Row]:
    if rows != "samples":
        of_scores = (dict(vars(row)) for row in run.iter_scores())
        yield from (of_scores if rows == "scores" else _verdict_values(run))
        return
    for sample, scores in run.iter_scored_samples():
        row: Row = {"sample_id": sample.id}
        for metric in run.summary.metrics:
            score = scores.get(metric)
            row |= {metric: score and score.score, f"{metric}_status": score and score.status}
        yield row


def _verdict_values(run: RunRecord) -> Iterator[Row]:
    for verdict in with_labels(run, run.iter_verdicts_with_evidence()):
        values = verdict.values
        if run.has_evidence:
            values |= evidence_values(verdict.row)
        yield values


def _kinds(run: RunRecord, rows: Rows) -> dict[str, _Kind]:
    kinds: dict[str, _Kind] = {"sample_id": "text"}
    if rows != "samples":
        names = [field.name for field in fields(ScoreRow if rows == "scores" else VerdictRow)]
        names += ["human", "annotators"] if rows == "verdicts" else []
        kinds |= {name: _KINDS.get(name, "text") for name in names}
        kinds.pop("evidence", None)  # in columns of its own
        if rows == "verdicts" and run.has_evidence:
            kinds |= evidence_kinds()
        return kinds
    for metric in run.summary.metrics:
        kinds |= {metric: "number", f"{metric}_status": "text"}
    return kinds


def _kinds_of_user_columns(run: RunRecord) -> dict[str, _Kind]:
    types: dict[str, set[type]] = {}
    for _, extras in run.iter_extras():
        for name, value in extras.items():
            too_large = isinstance(value, int) and not -_LARGEST <= value < _LARGEST
            types.setdefault(name, set()).add(str if too_large else type(value))
    return {
        name: _KINDS_OF_TYPES.get(frozenset(of_column - {type(None)}), "text")
        for name, of_column in types.items()
    }


def _of_kind(value: Any, kind: _Kind) -> Any:
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
    """Return the rows with the user's columns in these types. Raises InputError if pandas is not installed."""
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
    return table.of([*leading, *(name for name in table.kinds if name not in leading)])


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
    return (
        _parquet(table)
        if as_format == "parquet"
        else (json_line(row).encode() for row in table.rows())
    )


def _csv(table: FlatTable) -> Iterator[bytes]:
    for cells in chain([table.kinds], (row.values() for row in table.rows())):
        text = io.StringIO(newline="")
        as_json = (
            _of_kind(cell, "text") if isinstance(cell, list | dict) else cell for cell in cells
        )
        csv.writer(text).writerow(map(escape_formula, as_json))
        yield text.getvalue().encode()


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
            while block := list(islice(rows, ROWS_OF_GROUP)):
                writer.write_table(pyarrow.table(table.columns(block), schema=schema))
        file.seek(0)
        yield from iter(lambda: file.read(_BLOCK), b"")
