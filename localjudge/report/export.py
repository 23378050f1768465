"""A run's results in shapes that other programs read.

    ragas, ragas-csv, ragas-parquet   one row per sample, as in ragas's result: its texts, and a column for each metric
    ragas-classifications             {"id", "classifications": [{"statement", "reason", "attributed"}]}
    inspect                           scores for inspect's own log, as `inspect_scores` says
    jsonl, csv, parquet               for programs, for spreadsheets, for data frames

Rows of the last three are the scores, the verdicts, or one row per sample with a column for each metric; the texts of
the sample and its other columns can stand beside them. In a CSV a text that a spreadsheet would take for a formula gets
an apostrophe in front.

ragas's columns are `user_input, retrieved_contexts, reference_contexts, response, reference`, then the metrics by name
(its `EvaluationResult.to_pandas`); reference contexts are there if any sample has some. Contexts are lists of texts; in
CSV a list stands as Python prints it, which is how ragas's own `to_csv` writes it and `ast.literal_eval` reads it. A
metric without a score, undefined or failed, is null in JSON and Parquet and empty in CSV: never a number. So are
contexts of which only the ids are known, in every format.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from typing import Any, Literal

from localjudge.dataset.spreadsheet import inert
from localjudge.errors import UsageError
from localjudge.option_spelling import option_name
from localjudge.record.result_rows import VerdictRow, flat_values, json_line
from localjudge.record.results import Run
from localjudge.report.inspect_scores import inspect_lines
from localjudge.report.parquet import Row, parquet_parts
from localjudge.report.rows_with_data import Added, rows_with_data
from localjudge.types import known_texts

Format = Literal["ragas", "ragas-csv", "ragas-parquet", "ragas-classifications", "inspect", "jsonl", "csv", "parquet"]
Rows = Literal["scores", "verdicts", "samples"]
CLASSIFIED_METRIC = "context_recall"

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
                return _encoded(lambda: rows_with_data(run, plain_rows(run, rows), added, as_format), as_format)
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
    with_truth = any(sample.reference_contexts is not None for sample in run.iter_samples())
    for sample, scores in run.iter_scored_samples():
        yield {
            "user_input": sample.user_input,
            "retrieved_contexts": known_texts(sample.retrieved_contexts),
            **({"reference_contexts": known_texts(sample.reference_contexts)} if with_truth else {}),
            "response": sample.response,
            "reference": sample.reference,
            **{metric: scores[metric].score if metric in scores else None for metric in run.summary.metrics},
        }


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
            yield from map(vars, run.iter_scores())
        case "verdicts":
            yield from map(flat_values, run.iter_verdicts())
        case "samples":
            yield from _sample_rows(run)


def _sample_rows(run: Run) -> Iterator[Row]:
    columns = [column for name in run.summary.metrics for column in (name, f"{name}_status")]
    for sample_id, scores in groupby(run.iter_scores(), key=lambda score: score.sample_id):
        row = {"sample_id": sample_id, **dict.fromkeys(columns)}
        for score in scores:
            row |= {score.metric: score.score, f"{score.metric}_status": score.status}
        yield row


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
