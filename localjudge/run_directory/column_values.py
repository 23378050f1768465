"""Values of a column of a run's data, for slices of its samples."""

from collections.abc import Iterable
from typing import Any

from localjudge.dataset.missing import is_blank
from localjudge.dataset.paths import MISSING, lookup
from localjudge.dataset.problems import UNKNOWN, group_name
from localjudge.errors import InputError
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.text.folding import common_spellings, fold
from localjudge.words import suggestion

MAX_SLICES = 1_000
NO_VALUE = "(none)"


def column_values(run: RunRecord, column: str) -> dict[str, str | None]:
    """Return the value of each sample, or None if it is empty.

    Values that look the same get one spelling.
    """
    values: dict[str, str | None] = {}
    distinct: set[str] = set()
    columns: dict[str, None] = {}
    exists = False
    for sample_id, extras in run.iter_extras():
        columns.update(dict.fromkeys(extras))
        cell = lookup(extras, column, MISSING)
        exists = exists or cell is not MISSING
        value = _read_value(cell, column, sample_id)
        values[sample_id] = value
        if value is not None:
            distinct.add(value)
        if len(distinct) > MAX_SLICES:
            name = excerpt(column)
            raise InputError(
                f"the column {name} has more than {MAX_SLICES:,} different values",
                hint="name a column with fewer values, such as a topic",
            )
    if not exists:
        raise _no_column(column, columns)
    spellings = common_spellings(filter(None, values.values()))
    respelled = {value: spellings[fold(value)] or None for value in distinct}
    for sample_id, value in values.items():
        if value is not None:
            values[sample_id] = respelled[value]
    return values


def _read_value(cell: Any, column: str, sample_id: str) -> str | None:
    """Return a cell as text, or None without a value."""
    if cell is MISSING or is_blank(cell):
        return None
    if isinstance(cell, int | float):
        cell = group_name(cell)
    if isinstance(cell, str) and not cell.startswith(UNKNOWN):
        return cell
    name = excerpt(column)
    raise InputError(
        f"the column {name} of the sample {excerpt(sample_id)} is neither text nor a number",
        hint=f"name a value inside an object with a dot: {name}.NAME",
    )


def _no_column(column: str, columns: Iterable[str]) -> InputError:
    names = list(columns)
    hint = "its data has no extra columns"
    if names:
        hint = suggestion(column, names, "its columns", show=excerpt)
    return InputError(f"the run has no column {excerpt(column)}", hint=hint)


def slice_order(samples: int, value: str | None) -> tuple[int, bool, str]:
    return -samples, value is None, value or ""
