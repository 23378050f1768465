"""A run's results in shapes that other programs read.

    ragas     one object per sample: {"id", "classifications": [{"statement", "reason", "attributed"}]}
    jsonl     one object per row          csv     for spreadsheets          parquet     for data frames

Rows are the scores, the verdicts, or one row per sample with a column for each metric. A text that a spreadsheet would
take for a formula gets an apostrophe in front, in CSV alone.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from localjudge.errors import UsageError
from localjudge.record.result_rows import json_line
from localjudge.record.results import Run

Format = Literal["ragas", "jsonl", "csv", "parquet"]
Rows = Literal["scores", "verdicts", "samples"]
RAGAS_METRIC = "context_recall"

_FORMULA = re.compile(r"[\s\x00-\x1f\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def exported(run: Run, as_format: Format, rows: Rows = "scores") -> bytes:
    """The whole file. Raises UsageError for what the run does not hold, or a package that is not installed."""
    match as_format:
        case "ragas":
            return "".join(map(json_line, ragas_rows(run))).encode()
        case "jsonl":
            return "".join(map(json_line, plain_rows(run, rows))).encode()
        case "csv":
            return _csv(list(plain_rows(run, rows))).encode()
        case "parquet":
            return _parquet(list(plain_rows(run, rows)))


def ragas_rows(run: Run) -> Iterator[dict[str, Any]]:
    """One object for each sample with its statements as given. `attributed` is null where there is no verdict."""
    if RAGAS_METRIC not in run.summary.metrics:
        raise UsageError(
            f"the run in {run.directory} has no {RAGAS_METRIC}, which this format is for",
            hint=f"run it with --metrics {RAGAS_METRIC}, or export it as jsonl",
        )
    classifications: dict[str, list[dict[str, Any]]] = {
        score.sample_id: [] for score in run.scores if score.metric == RAGAS_METRIC
    }
    for verdict in run.verdicts:
        if verdict.metric == RAGAS_METRIC:
            row = {"statement": verdict.text, "reason": verdict.reason or "", "attributed": verdict.label}
            classifications[verdict.sample_id].append(row)
    for sample_id, rows in classifications.items():
        yield {"id": sample_id, "classifications": rows}


def plain_rows(run: Run, rows: Rows) -> Iterator[dict[str, Any]]:
    """The rows as flat objects, all with the same keys."""
    match rows:
        case "scores":
            yield from map(vars, run.scores)
        case "verdicts":
            yield from map(vars, run.verdicts)
        case "samples":
            yield from _sample_rows(run)


def inert(cell: Any) -> Any:
    """The cell, with an apostrophe in front of text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _sample_rows(run: Run) -> Iterator[dict[str, Any]]:
    columns = [column for name in run.summary.metrics for column in (name, f"{name}_status")]
    by_sample: dict[str, dict[str, Any]] = {}
    for score in run.scores:
        empty = {"sample_id": score.sample_id, **dict.fromkeys(columns)}
        row = by_sample.setdefault(score.sample_id, empty)
        row |= {score.metric: score.score, f"{score.metric}_status": score.status}
    yield from by_sample.values()


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_columns(rows))
    writer.writerows(map(inert, row.values()) for row in rows)
    return text.getvalue()


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            "Parquet needs the package pyarrow", hint="install it with: pip install 'localjudge[parquet]'"
        ) from error
    table = pyarrow.table({column: [row[column] for row in rows] for column in _columns(rows)})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _columns(rows: Iterable[dict[str, Any]]) -> list[str]:
    return list(next(iter(rows), {}))
