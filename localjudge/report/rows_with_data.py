"""Rows of an export with the data that they are about: the texts of their sample, and its other columns.

    {"sample_id": "a", "metric": "context_recall", ..., "user_input": "Why?", ..., "department": "cardiology"}

All rows have the same keys. A column that is called like something that is there already gets `data.` in front. JSON
lines hold values as they are. In CSV a list or an object is JSON text, and so it is in Parquet, where a column is of
one kind: one that holds numbers and texts is text.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple

from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.results import Run
from localjudge.record.untrusted import shown
from localjudge.report.parquet import Row
from localjudge.types import Sample, known_texts

MOST_COLUMNS = 1_000
TEXTS = ("user_input", "retrieved_contexts", "reference_contexts", "response", "reference")

Encoding = Literal["jsonl", "csv", "parquet"]
_LARGEST = 2**63
_Cell = Callable[[Any], Any]


class Added(NamedTuple):
    """What is added to the rows."""

    texts: bool = False
    columns: bool = False


def rows_with_data(run: Run, rows: Iterator[Row], added: Added, encoding: Encoding) -> Iterator[Row]:
    """The rows, which have a `sample_id` and are in the order of the data, each with what is added.

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
    texts = {name: _as_json if encoding == "csv" else _as_it_is for name in TEXTS} if added.texts else {}
    columns = _cells(run, encoding) if added.columns else {}
    keys = _keys(columns, {*first, *texts})
    data = _data(run, added)
    sample_id, sample, extras = next(data)
    for row in chain([first], rows):
        while sample_id != row["sample_id"]:
            sample_id, sample, extras = next(data)
        found = {name: cell(_text(sample, name)) for name, cell in texts.items() if sample}
        yield row | found | {keys[name]: cell(extras.get(name)) for name, cell in columns.items()}


def _data(run: Run, added: Added) -> Iterator[tuple[str, Sample | None, Mapping[str, Any]]]:
    samples: Iterable[Sample | None] = run.iter_samples() if added.texts else repeat(None)
    return (
        (sample_id, sample, extras) for (sample_id, extras), sample in zip(run.iter_extras(), samples, strict=False)
    )


def _text(sample: Sample, name: str) -> Any:
    value = getattr(sample, name)
    return known_texts(value) if name.endswith("contexts") else value


def _keys(columns: Iterable[str], taken: set[str]) -> dict[str, str]:
    keys = {}
    for name in columns:
        key = name
        while key in taken:
            key = f"data.{key}"
        taken.add(key)
        keys[name] = key
    return keys


def _cells(run: Run, encoding: Encoding) -> dict[str, _Cell]:
    """The columns of the data in the order in which they appear, and how a value of each is written."""
    kinds: dict[str, set[str]] = {}
    for _, extras in run.iter_extras():
        for name, value in extras.items():
            kinds.setdefault(name, set()).add(_kind(value))
        if len(kinds) > MOST_COLUMNS:
            raise UsageError(
                f"the data has more than {MOST_COLUMNS:,} columns, such as {shown(next(iter(kinds)))}",
                hint="leave out --with-columns",
            )
    return {name: _cell(found - {"NoneType"}, encoding) for name, found in kinds.items()}


def _cell(kinds: set[str], encoding: Encoding) -> _Cell:
    if encoding == "jsonl":
        return _as_it_is
    if encoding == "csv":
        return _as_json
    if kinds == {"int", "float"}:
        return _as_float
    return _as_it_is if len(kinds) <= 1 and not kinds & {"list", "dict", "large int"} else _as_text


def _kind(value: Any) -> str:
    large = isinstance(value, int) and not -_LARGEST <= value < _LARGEST
    return "large int" if large else type(value).__name__


def _as_it_is(value: Any) -> Any:
    return value


def _as_float(value: Any) -> Any:
    return None if value is None else float(value)


def _as_json(value: Any) -> Any:
    """A list or an object as JSON; what is a cell by itself as it is."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _as_text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
