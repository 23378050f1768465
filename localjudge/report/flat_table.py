"""The results of a run as a table: scores, verdicts, or samples with a column for each metric.

Texts and the user's columns can be added. A user column with a reserved name gets the prefix
`data.`. A context is a text, or an object with its id, score and meta if it has any:

    ["It is in Ulm.", {"id": "d2", "text": "It rains.", "score": 0.5, "meta": {"page": 3}}]

The evidence of a verdict has columns such as `evidence_text` for the closest sentence, and
`evidence_2_text` for the second one. Contexts count from 0.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeVar

from localjudge.errors import RunDirectoryError
from localjudge.labels.run_labels import values_with_labels, with_labels
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import has_one_order, iter_scored_samples
from localjudge.types import CONTEXT_FIELDS, Context

Row = dict[str, Any]
Rows = Literal["scores", "verdicts", "samples"]
Kind = Literal["text", "texts", "contexts", "number", "whole", "flag"]
CONTEXT_COLUMNS = ("id", "text", "score", "meta")
TEXTS: dict[str, Kind] = {
    "user_input": "text",
    "retrieved_contexts": "texts",
    "reference_contexts": "texts",
    "response": "text",
    "reference": "text",
}
_KINDS: dict[str, Kind] = {
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
    "expected": "number",
    "numerator": "number",
    "denominator": "number",
}
"""Types of columns. All others are text, including `against`, a number or `reference`."""
_KINDS_OF_TYPES: dict[frozenset[type], Kind] = {
    frozenset({float}): "number",
    frozenset({int, float}): "number",
    frozenset({int}): "whole",
    frozenset({bool}): "flag",
}
_EVIDENCE_KINDS: dict[str, Kind] = {
    "context": "whole",
    "start": "whole",
    "end": "whole",
    "text": "text",
    "score": "number",
    "supports": "flag",
}
_EVIDENCE_PREFIXES = ("evidence_", "evidence_2_")
_LARGEST = 2**63
_Value = TypeVar("_Value")


class FlatTable(NamedTuple):
    """Columns with their types, and rows that can be read repeatedly."""

    kinds: dict[str, Kind]
    rows: Callable[[], Iterator[Row]]
    user_columns: Mapping[str, str] = {}
    """The user's columns with their names in this table."""

    def select(self, names: Sequence[str]) -> "FlatTable":
        """Return the table with these columns, in this order."""

        def rows() -> Iterator[Row]:
            for row in self.rows():
                yield _select(row, names)

        return FlatTable(_select(self.kinds, names), rows, self.user_columns)

    def columns(self, rows: Iterable[Row]) -> dict[str, list[Any]]:
        """Return the values of each column, in its type."""
        block = list(rows)
        columns: dict[str, list[Any]] = {}
        for name, kind in self.kinds.items():
            columns[name] = [convert(row[name], kind) for row in block]
        return columns


def _select(values: Mapping[str, _Value], names: Sequence[str]) -> dict[str, _Value]:
    return {name: values[name] for name in names}


def flat_table(
    run: RunRecord, rows: Rows, *, texts: bool = False, columns: bool = False
) -> FlatTable:
    """Return the rows, optionally with the texts and the user's columns of each sample.

    Raises RunDirectoryError if scores and samples differ in order.
    """
    kinds = _kinds(run, rows)
    if not texts and not columns:
        return FlatTable(kinds, lambda: plain_rows(run, rows))
    if rows != "samples" and not has_one_order(run):
        raise RunDirectoryError(
            f"the samples in {run.directory} are in another order than their scores",
            hint="repeat the command that made the run, or export without texts and columns",
        )
    if texts:
        kinds |= TEXTS | dict.fromkeys(_fields_with_objects(run), "contexts")
    names: dict[str, str] = {}
    if columns:
        names = _add_user_columns(run, kinds)

    def rows_with_data() -> Iterator[Row]:
        added_columns = _iter_columns(run, names, texts=texts)
        for sample_id, group in groupby(plain_rows(run, rows), key=lambda row: row["sample_id"]):
            added: Row = {}
            while added.pop("sample_id", None) != sample_id:
                added = next(added_columns)
            for row in group:
                yield row | added

    return FlatTable(kinds, rows_with_data, names)


def _iter_columns(run: RunRecord, names: Mapping[str, str], *, texts: bool) -> Iterator[Row]:
    """Yield the id of each sample, its texts if they are wanted, and its user columns."""
    fields = tuple(TEXTS) if texts else ()
    for sample, (_, extras) in zip(run.iter_samples(), run.iter_extras(), strict=True):
        row: Row = {}
        for field in fields:
            row[field] = getattr(sample, field)
            if field in CONTEXT_FIELDS:
                row[field] = _context_values(row[field])
        for column, name in names.items():
            row[name] = extras.get(column)
        yield row | {"sample_id": sample.id}


def _add_user_columns(run: RunRecord, kinds: dict[str, Kind]) -> dict[str, str]:
    """Add the user's columns to the types, and return their names in the table."""
    types: dict[str, set[type]] = {}
    for _, extras in run.iter_extras():
        for column, value in extras.items():
            kind = type(value)
            if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
                kind = str
            types.setdefault(column, set()).add(kind)
    names: dict[str, str] = {}
    for column, column_types in types.items():
        name = column
        while name in kinds:
            name = f"data.{name}"
        names[column] = name
        kinds[name] = _KINDS_OF_TYPES.get(frozenset(column_types - {type(None)}), "text")
    return names


def _fields_with_objects(run: RunRecord) -> set[str]:
    """Return the fields with a context that is more than a text."""
    fields: set[str] = set()
    for sample in run.iter_samples():
        for name in CONTEXT_FIELDS:
            contexts = getattr(sample, name) or ()
            if not all(map(_is_plain, contexts)):
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
            parts = {
                "id": context.id,
                "text": context.text,
                "score": context.score,
                "meta": context.meta or None,
            }
            values.append({name: value for name, value in parts.items() if value is not None})
    return values


def _context_struct(context: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a context with all of its fields, as columns of one type need them."""
    struct: dict[str, Any] = dict.fromkeys(CONTEXT_COLUMNS)
    if isinstance(context, str):
        struct["text"] = context
    else:
        struct |= context
    if struct["meta"] is not None:
        struct["meta"] = convert(struct["meta"], "text")
    return struct


def plain_rows(run: RunRecord, rows: Rows) -> Iterator[Row]:
    """Yield the rows without texts and columns of the data."""
    if rows == "scores":
        for score in run.iter_scores():
            yield dict(vars(score))
    elif rows == "verdicts":
        yield from _verdict_values(run)
    else:
        for sample, scores in iter_scored_samples(run):
            row: Row = {"sample_id": sample.id}
            for metric in run.summary.metrics:
                outcome = scores.get(metric)
                row[metric] = outcome and outcome.score
                row[f"{metric}_status"] = outcome and outcome.status
                row[f"{metric}_expected"] = outcome and outcome.expected
            yield row


def _verdict_values(run: RunRecord) -> Iterator[Row]:
    for row, statement in with_labels(run, run.iter_verdicts_with_evidence()):
        values = values_with_labels(row, statement)
        if run.has_evidence:
            values |= _evidence_values(row)
        yield values


def _evidence_values(verdict: VerdictRow) -> Row:
    """Return the values of the columns of evidence, None without such a sentence."""
    sentences = dict(zip(_EVIDENCE_PREFIXES, verdict.evidence, strict=False))
    values: Row = {}
    for prefix in _EVIDENCE_PREFIXES:
        for name in _EVIDENCE_KINDS:
            values[f"{prefix}{name}"] = getattr(sentences.get(prefix), name, None)
    return values


def _kinds(run: RunRecord, rows: Rows) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {"sample_id": "text"}
    if rows == "samples":
        for metric in run.summary.metrics:
            kinds[metric] = "number"
            kinds[f"{metric}_status"] = "text"
            kinds[f"{metric}_expected"] = "number"
        return kinds
    row_type: type[ScoreRow | VerdictRow] = VerdictRow
    if rows == "scores":
        row_type = ScoreRow
    names = [field.name for field in fields(row_type)]
    if rows == "verdicts":
        names += ["human", "annotators"]
    for name in names:
        kinds[name] = _KINDS.get(name, "text")
    kinds.pop("evidence", None)  # it has columns for its parts
    if rows == "verdicts" and run.has_evidence:
        for prefix in _EVIDENCE_PREFIXES:
            kinds |= {f"{prefix}{name}": kind for name, kind in _EVIDENCE_KINDS.items()}
    return kinds


def convert(value: Any, kind: Kind) -> Any:
    """Return a value as its column holds it. Lists and objects in a text column are JSON."""
    if kind == "number" and value is not None:
        return float(value)
    if kind == "contexts" and value is not None:
        return [_context_struct(context) for context in value]
    if kind == "text" and not isinstance(value, str | None):
        return json.dumps(value, ensure_ascii=False)
    return value
