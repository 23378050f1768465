"""A run's results in shapes that other programs read.

    ragas, ragas-csv, ragas-parquet   one row per sample, as in ragas's result: its texts, and a column for each metric
    ragas-classifications             {"id", "classifications": [{"statement", "reason", "attributed"}]}
    inspect                           scores for inspect's own log, as `inspect_scores` says
    jsonl, csv, parquet               for programs, for spreadsheets, for data frames

Rows of the last three are the scores, the verdicts, or one row per sample with a column for each metric; the texts of
the sample and its other columns can be added. A column that has the name of another one gets `data.` in front. In CSV
and Parquet a list or an object is JSON text, and so is a Parquet column that holds numbers and texts. In a CSV a text
that a spreadsheet would take for a formula gets an apostrophe in front.

ragas's columns are `user_input, retrieved_contexts, reference_contexts, response, reference`, then the metrics by name
(its `EvaluationResult.to_pandas`); reference contexts are there if any sample has some. Contexts are lists of texts; in
CSV a list stands as Python prints it, which is how ragas's own `to_csv` writes it and `ast.literal_eval` reads it. A
metric without a score, undefined or failed, is null in JSON and Parquet and empty in CSV: never a number. So are
contexts of which only the ids are known, in every format.

A run's scores as inspect takes scores that were computed elsewhere: `inspect_ai.scorer.precomputed_scores`.

    {"id": "s1", "value": {"context_recall": 0.5, "faithfulness": NaN}, "explanation": "context_recall: 1/2 = ..."}

(inspect_ai 0.3.) One record for each sample. A metric without a score is NaN, which inspect leaves out of its means and
counts as unscored; a null it would count as 0, and a metric that is not there is an error. A sample that was read from
the log of a later epoch gets its id there, and the epoch.

Rows as a Parquet file, some at a time: the types of its columns are those of all rows, so the rows are read twice.

rows ──types of each block──> the types of all     rows ──a row group of each block──> the file, part by part
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Any, Literal, NamedTuple

from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.directory import excerpt
from localjudge.record.result_rows import TEXTS, ScoreRow, VerdictRow, flat_values, json_line, sample_row, sample_texts
from localjudge.record.run import Run
from localjudge.report.sample import outcome_of
from localjudge.words import inert, option_name

Row = dict[str, Any]
ROWS_OF_GROUP = 65_536


def parquet_parts(rows: Callable[[], Iterator[Row]]) -> Iterator[bytes]:
    """The file in parts; `rows` gives the same rows each time, all with the same keys.

    Raises UsageError if the package that writes it is not installed.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("Parquet needs the package pyarrow", hint="install it with: pip install pyarrow") from error
    schemas = [pyarrow.table(columns).schema for columns in _blocks(rows())]
    schema = pyarrow.unify_schemas(schemas, promote_options="permissive")
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        for columns in _blocks(rows()):
            writer.write_table(pyarrow.table(columns, schema=schema))
            yield sink.taken()
    yield sink.taken()


def _blocks(rows: Iterator[Row]) -> Iterator[dict[str, list[Any]]]:
    """The columns of some rows at a time; once without any if there are no rows."""
    block = list(islice(rows, ROWS_OF_GROUP))
    yield _columns(block)
    while block := list(islice(rows, ROWS_OF_GROUP)):
        yield _columns(block)


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {column: [row[column] for row in rows] for column in (rows[0] if rows else ())}


class _Sink(io.BytesIO):
    """What was written, until it is taken."""

    _taken = 0

    def tell(self) -> int:
        """How much was written so far, taken or not."""
        return self._taken + super().tell()

    def taken(self) -> bytes:
        """What was written since this was asked last."""
        part = self.getvalue()
        self._taken += len(part)
        self.seek(0)
        self.truncate()
        return part


def inspect_lines(run: Run) -> Iterator[bytes]:
    """The records as JSON lines. Raises RunDirectoryError for a score of a sample that the run does not hold."""
    for (sample, scores), (_, extras) in zip(run.iter_scored_samples(), run.iter_extras(), strict=True):
        given = {metric: scores.get(metric) for metric in run.summary.metrics}
        record: Row = {
            **_sample_of_log(sample.id, extras),
            "value": {metric: inspect_value(row) for metric, row in given.items()},
            "explanation": "\n".join(f"{metric}: {explained(row)}" for metric, row in given.items()),
        }
        yield f"{json.dumps(record, ensure_ascii=False)}\n".encode()


def _sample_of_log(sample_id: str, extras: Mapping[str, Any]) -> Row:
    epoch = extras.get("epoch")
    if isinstance(epoch, int) and epoch > 1 and sample_id.endswith(ending := f"_epoch_{epoch}"):
        return {"id": sample_id.removesuffix(ending), "epoch": epoch}
    return {"id": sample_id}


def inspect_value(row: ScoreRow | None) -> float:
    """The score, NaN where there is none."""
    return math.nan if row is None or row.score is None else row.score


def explained(row: ScoreRow | None) -> str:
    """What the score was divided from, or why there is none."""
    return "not computed" if row is None else outcome_of(row)


Format = Literal["ragas", "ragas-csv", "ragas-parquet", "ragas-classifications", "inspect", "jsonl", "csv", "parquet"]
Rows = Literal["scores", "verdicts", "samples"]
CLASSIFIED_METRIC = "context_recall"

MOST_COLUMNS = 1_000
_LARGEST = 2**63
_Cell = Callable[[Any], Any]


class Added(NamedTuple):
    """What is added to the rows of their sample."""

    texts: bool = False
    columns: bool = False


_NOTHING_ADDED = Added()
_NO_GROUP: tuple[str | None, Iterable[VerdictRow]] = (None, ())


def exported(run: Run, as_format: Format, rows: Rows = "scores", added: Added = _NOTHING_ADDED) -> bytes:
    """The whole file. Raises UsageError for what the run does not hold, or a package that is not installed."""
    return b"".join(exported_parts(run, as_format, rows, added))


def exported_parts(
    run: Run, as_format: Format, rows: Rows = "scores", added: Added = _NOTHING_ADDED
) -> Iterator[bytes]:
    """The file in parts, as the rows are read; raises what `exported` raises, most of it before the first part."""
    if any(added) and as_format.startswith(("ragas", "inspect")):
        tool = as_format.partition("-")[0]
        raise UsageError(
            f"{as_format} has the columns that {tool} has", hint="texts and columns go with jsonl, csv, parquet"
        )
    match as_format:
        case "ragas" | "ragas-csv" | "ragas-parquet":
            return _encoded(lambda: ragas_rows(run), as_format.removeprefix("ragas-"))
        case "ragas-classifications":
            return _encoded(lambda: classification_rows(run), "jsonl")
        case "inspect":
            return inspect_lines(run)
        case _:
            if any(added):
                return _encoded(lambda: _rows_with_data(run, plain_rows(run, rows), added, as_format), as_format)
            return _encoded(lambda: plain_rows(run, rows), as_format)


def _encoded(rows: Callable[[], Iterator[Row]], as_format: str) -> Iterator[bytes]:
    match as_format:
        case "csv":
            return _csv(rows())
        case "parquet":
            return parquet_parts(lambda: map(_with_one_type_a_column, rows()))
        case _:
            return (json_line(row).encode() for row in rows())


def ragas_rows(run: Run) -> Iterator[Row]:
    """One object for each sample: its texts under ragas's names, and its score of each metric, None without one.

    Raises RunDirectoryError for a score of a sample that the run does not hold.
    """
    columns = [*TEXTS, *run.summary.metrics]
    if all(sample.reference_contexts is None for sample in run.iter_samples()):
        columns.remove("reference_contexts")
    return ({name: row[name] for name in columns} for row in _sample_rows(run))


def classification_rows(run: Run) -> Iterator[Row]:
    """One object for each sample with its statements as given. `attributed` is null where there is no verdict."""
    if CLASSIFIED_METRIC not in run.summary.metrics:
        raise UsageError(
            f"the run in {run.directory} has no {CLASSIFIED_METRIC}, which this format is for",
            hint=f"run it with {option_name('metrics')} {CLASSIFIED_METRIC}, or export it as jsonl",
        )
    verdicts = (verdict for verdict in run.iter_verdicts() if verdict.metric == CLASSIFIED_METRIC)
    groups = groupby(verdicts, key=lambda verdict: verdict.sample_id)
    of, found = next(groups, _NO_GROUP)
    for score in run.iter_scores():
        if score.metric == CLASSIFIED_METRIC:
            rows: list[Row] = []
            if of == score.sample_id:
                rows = [
                    {"statement": verdict.text, "reason": verdict.reason or "", "attributed": verdict.label}
                    for verdict in found
                ]
                of, found = next(groups, _NO_GROUP)
            yield {"id": score.sample_id, "classifications": rows}


def plain_rows(run: Run, rows: Rows) -> Iterator[Row]:
    """The rows as flat objects, all with the same keys."""
    match rows:
        case "scores":
            return map(vars, run.iter_scores())
        case "verdicts":
            return map(flat_values, run.iter_verdicts())
        case "samples":
            return ({name: row[name] for name in row if name not in TEXTS} for row in _sample_rows(run))


def _sample_rows(run: Run) -> Iterator[Row]:
    return (sample_row(sample, scores, run.summary.metrics) for sample, scores in run.iter_scored_samples())


def _rows_with_data(run: Run, rows: Iterator[Row], added: Added, as_format: Format) -> Iterator[Row]:
    """The rows, which are in the order of the data, each with texts and columns of its sample.

    Raises UsageError for too many columns, RunDirectoryError where scores and stored samples are not of the same order.
    """
    first = next(rows, None)
    if first is None:
        return
    if not run.in_one_order():
        raise RunDirectoryError(
            f"the samples in {run.directory} are in another order than their scores",
            hint="run the same command again to go on, or export without texts and columns",
        )
    texts: dict[str, _Cell] = dict.fromkeys(TEXTS if added.texts else (), _as_json if as_format == "csv" else _as_is)
    columns = _cells(run, as_format) if added.columns else {}
    keys = _free_keys(columns, {*first, *texts})
    data = zip(run.iter_samples(), run.iter_extras(), strict=True)
    for sample_id, rows_of_sample in groupby(chain([first], rows), key=lambda row: row["sample_id"]):
        sample, (_, extras) = next(entry for entry in data if entry[0].id == sample_id)
        values = sample_texts(sample)
        more = {name: cell(values[name]) for name, cell in texts.items()}
        more |= {keys[name]: cell(extras.get(name)) for name, cell in columns.items()}
        yield from (row | more for row in rows_of_sample)


def _free_keys(columns: Iterable[str], taken: set[str]) -> dict[str, str]:
    keys = {}
    for name in columns:
        key = name
        while key in taken:
            key = f"data.{key}"
        taken.add(key)
        keys[name] = key
    return keys


def _cells(run: Run, as_format: Format) -> dict[str, _Cell]:
    """The columns of the data in the order in which they appear, and how a value of each is written."""
    kinds: dict[str, set[str]] = {}
    for _, extras in run.iter_extras():
        for name, value in extras.items():
            kinds.setdefault(name, set()).add(_kind(value))
        if len(kinds) > MOST_COLUMNS:
            raise UsageError(
                f"the data has more than {MOST_COLUMNS:,} columns, such as {excerpt(next(iter(kinds)))}",
                hint="leave out --with-columns",
            )
    return {name: _cell(of_column - {"NoneType"}, as_format) for name, of_column in kinds.items()}


def _cell(kinds: set[str], as_format: Format) -> _Cell:
    if as_format != "parquet":
        return _as_json if as_format == "csv" else _as_is
    if kinds == {"int", "float"}:
        return lambda value: None if value is None else float(value)
    return _as_is if len(kinds) <= 1 and not kinds & {"list", "dict", "large int"} else _as_text


def _kind(value: Any) -> str:
    large = isinstance(value, int) and not -_LARGEST <= value < _LARGEST
    return "large int" if large else type(value).__name__


def _as_is(value: Any) -> Any:
    return value


def _as_json(value: Any) -> Any:
    """A list or an object as JSON; what is a cell by itself as it is."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _as_text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_one_type_a_column(row: Row) -> Row:
    """What a verdict was held against is the number of a context or `reference`: in a column of one type, texts."""
    against = row.get("against")
    return row if against is None else {**row, "against": str(against)}


def _csv(rows: Iterator[Row]) -> Iterator[bytes]:
    first = next(rows, {})
    yield _csv_line(first)
    if first:
        for row in chain([first], rows):
            yield _csv_line(row.values())


def _csv_line(cells: Iterable[Any]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(map(inert, cells))
    return text.getvalue().encode()
