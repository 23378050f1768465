"""Values of a column of a run's data, for slices of its samples."""

from localjudge.dataset.missing import is_blank
from localjudge.dataset.problems import MISSING, UNKNOWN, group_name, lookup
from localjudge.errors import InputError
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.text.folding import common_spellings, fold
from localjudge.words import suggestion

MOST_SLICES = 1_000
NO_VALUE = "(none)"


def column_values(run: RunRecord, column: str) -> dict[str, str | None]:
    """Return the value of each sample, in one spelling for values that look the same; None if it is empty."""
    values: dict[str, str | None] = {}
    distinct: set[str | None] = set()
    columns: dict[str, None] = {}
    exists, name = False, excerpt(column)
    for sample_id, extras in run.iter_extras():
        value = lookup(extras, column, MISSING)
        exists = exists or value is not MISSING
        columns.update(dict.fromkeys(extras))
        if value is MISSING or is_blank(value):
            value = None
        elif isinstance(value, int | float):
            value = group_name(value)
        if not isinstance(value, str | None) or str(value).startswith(UNKNOWN):
            raise InputError(
                f"the column {name} of the sample {excerpt(sample_id)} is neither text nor a number",
                hint=f"name a value inside an object with a dot: {name}.NAME",
            )
        values[sample_id] = value
        distinct.add(value)
        if len(distinct) > MOST_SLICES:
            problem = f"the column {name} has more than {MOST_SLICES:,} different values"
            raise InputError(problem, hint="name a column with fewer values, such as a topic")
    if not exists:
        hint = (
            suggestion(column, columns, "its columns", show=excerpt)
            if columns
            else "its data has no extra columns"
        )
        raise InputError(f"the run has no column {name}", hint=hint)
    spellings = common_spellings(value for value in values.values() if value is not None)
    respelled = {value: spellings[fold(value)] for value in distinct if value is not None}
    return {
        sample_id: None if value is None else respelled[value] or None
        for sample_id, value in values.items()
    }


def slice_order(samples: int, value: str | None) -> tuple[int, bool, str]:
    return -samples, value is None, value or ""
