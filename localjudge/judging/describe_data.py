"""Describe the columns of a dataset in words: used, unused and missing ones."""

from collections.abc import Iterable, Iterator, Mapping

from localjudge.dataset import Dataset
from localjudge.dataset.problems import shown
from localjudge.words import numbered

_MAX_NAMES = 10


def list_names(fields: Iterable[str]) -> str:
    return ", ".join(sorted(fields))


def list_used(dataset: Dataset) -> str:
    """Return the fields, with their columns where these have other names."""
    fields: list[str] = []
    for field, column in dataset.mapping.items():
        if column == field:
            fields.append(field)
        else:
            fields.append(f"{field} (column {column})")
    return ", ".join(fields)


def list_unused(dataset: Dataset, cluster_by: str | None = None) -> str:
    """Return the columns that are neither used nor group the samples."""
    columns: set[str] = set()
    for columns_of_source in dataset.unused:
        columns |= set(columns_of_source)
    columns.discard((cluster_by or "").partition(".")[0])
    names = sorted(map(shown, columns))
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        return f"{listed} and {len(names) - _MAX_NAMES} more"
    return listed


def describe_skipped(missing: Mapping[str, frozenset[str]], dataset: Dataset) -> list[str]:
    """Return a line for each set of missing fields, with the metrics that need it."""
    metrics_by_fields: dict[frozenset[str], list[str]] = {}
    for name, fields in missing.items():
        metrics_by_fields.setdefault(fields, []).append(name)
    lines: list[str] = []
    for fields, names in metrics_by_fields.items():
        lines.append(f"{describe_missing(fields, dataset)}, so skipped: {', '.join(names)}")
    return lines


def describe_missing(fields: frozenset[str], dataset: Dataset) -> str:
    parts: list[str] = []
    without_column = fields - dataset.table.without_text
    without_texts = fields & dataset.table.without_text
    if without_column:
        parts.append(f"no column for {list_names(without_column)}")
    if without_texts:
        parts.append(f"no texts of {list_names(without_texts)}")
    return " and ".join(parts)


def describe_nothing_words(dataset: Dataset) -> Iterator[str]:
    """Yield for each column how many cells say that they have no value, such as "N/A"."""
    for column, words in dataset.placeholders.items():
        verb = "says" if words.total() == 1 else "say"
        cells = f"{numbered(words.total(), 'cell')} of {shown(column)}"
        yield f"{cells} {verb} {', '.join(sorted(words))}: treated as missing"
