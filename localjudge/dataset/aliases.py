"""Which of their columns is which of our fields: the one table of foreign names.

People bring data that was made for another evaluator. A column is known by its name alone, with these exceptions,
where the *shape* of the source decides, because one name means different things to different tools:

    context      ground truth beside DeepEval's retrieval_context or expected_output, otherwise what was retrieved
    query_id     the id where there is no column `id`, otherwise not ours

A name with dots reaches into objects (`vars.query`), unless there is a column of exactly that name; where it reaches
something, the object itself (`response` of `response.output`) is no column.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localjudge.errors import DataError, UsageError

ALIASES: dict[str, tuple[str, ...]] = {
    "id": ("id", "query_id"),
    "user_input": ("user_input", "question", "questions", "query", "input", "vars.query", "vars.question"),
    "retrieved_contexts": (
        "retrieved_contexts",
        "contexts",
        "retrieved_documents",
        "retrieval_context",
        "retrieved_context",
        "context",
        "vars.context",
    ),
    "reference": (
        "reference",
        "ground_truth",
        "ground_truths",
        "ground_truth_answers",
        "expected_output",
        "gt_answer",
        "expected",
        "vars.expected",
    ),
    "response": (
        "response",
        "answer",
        "actual_output",
        "predicted_answers",
        "output",
        "response.output",
        "output.completion",
    ),
    "reference_contexts": ("reference_contexts", "ground_truth_documents", "ground_truth_context", "context"),
    "retrieved_context_ids": ("retrieved_context_ids",),
    "reference_context_ids": ("reference_context_ids",),
}
"""Our name of a field: the names under which other tools write it (ragas, Haystack, DeepEval, RAGChecker, ...)."""

ID_COLUMNS = {"retrieved_context_ids": "retrieved_contexts", "reference_context_ids": "reference_contexts"}
"""Columns that hold nothing but the ids of another field's contexts: beside their texts, or in place of them."""

_DEEPEVAL = frozenset({"retrieval_context", "expected_output"})

_MISSING = object()

Resolved = dict[str, str]
"""Our field -> their column."""


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise UsageError if a mapping names a field that is not ours."""
    for field in mapping:
        if field not in ALIASES:
            raise UsageError(
                f"the mapping {field}={mapping[field]} names no field of ours",
                hint=f"map one of {', '.join(ALIASES)} (ours=theirs)",
            )


def resolve(has: Callable[[str], bool], mapping: Mapping[str, str], source: str) -> Resolved:
    """Decide which column of a source is which field.

    `has` tells whether the source has a column, `mapping` is what the user decided (ours -> theirs) and goes first.
    Raises DataError where two columns would fill one field.
    """
    chosen = {field: column for field, column in mapping.items() if has(column)}
    present = frozenset(name for names in ALIASES.values() for name in names if has(name))
    free = present - set(chosen.values())
    resolved: Resolved = {}
    for field, aliases in ALIASES.items():
        if field in chosen:
            resolved[field] = chosen[field]
            continue
        columns = [name for name in aliases if name in free and _means(name, field, present)]
        if len(columns) > 1:
            raise DataError(
                f"{source}: the columns {' and '.join(columns)} both give {field}",
                hint=f"say which one counts: --map {field}={columns[0]}",
            )
        resolved.update((field, column) for column in columns)
    return resolved


def _means(column: str, field: str, present: frozenset[str]) -> bool:
    """Whether a column stands for the field, where its name alone does not decide."""
    match column:
        case "context":
            return (field == "reference_contexts") == bool(present & _DEEPEVAL)
        case "query_id":
            return "id" not in present
        case _:
            return not any(name.startswith(f"{column}.") for name in present)


def column_finder(rows: Sequence[Mapping[str, Any]]) -> Callable[[str], bool]:
    """Tells whether any of the rows has a column, or a value under a dotted name."""
    columns = {column for row in rows for column in row}

    def has(name: str) -> bool:
        return name in columns or ("." in name and any(lookup(row, name, _MISSING) is not _MISSING for row in rows))

    return has


def lookup(row: Mapping[str, Any], column: str, default: object = None) -> Any:
    """Value of a column, or under a dotted name; `default` where the row has none."""
    if column in row or "." not in column:
        return row.get(column, default)
    value: Any = row
    for key in column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value
