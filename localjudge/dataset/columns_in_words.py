"""The columns of the data, said in the data's own words: what each is taken for, and which are not used."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from localjudge.dataset import Dataset
from localjudge.dataset.guesses import map_option
from localjudge.dataset.problems import shown

_MOST_NAMES = 10
_MOST_FILES = 2


def another_name() -> str:
    """How to say that a column is a field whose name it does not have."""
    return f"if a column has another name, say so: {map_option({'FIELD': ['COLUMN']})}"


def understood(dataset: Dataset) -> str:
    """Our fields, each with the column that is taken for it where its name is another."""
    return ", ".join(
        field if field == column else f"{field} (column {column})" for field, column in dataset.mapping.items()
    )


def unused(dataset: Dataset, cluster_by: str | None = None) -> str:
    """Columns that hold something and are neither a field nor the column of the groups; "" for none.

    Where the files differ, each group of files with the columns that it alone does not use.
    """
    files: dict[tuple[str, ...], list[str]] = {}
    for source, columns in zip(dataset.sources, dataset.unused, strict=True):
        kept = tuple(sorted(shown(column) for column in columns if column != (cluster_by or "").partition(".")[0]))
        files.setdefault(kept, []).append(source)
    if len(files) == 1:
        return some(next(iter(files)), _MOST_NAMES)
    return "; ".join(
        f"{some(columns, _MOST_NAMES)} ({some(sources, _MOST_FILES)})" for columns, sources in files.items() if columns
    )


def nothing_lines(dataset: Dataset) -> Iterator[str]:
    """For each column how many of its values say that there is nothing, and how."""
    for column, words in dataset.nothing.items():
        count, whole = words.total(), column.removesuffix("[]")
        what = "cell" if whole == column else "element"
        cells = f"1 {what} of {shown(whole)} says" if count == 1 else f"{count:,} {what}s of {shown(whole)} say"
        yield f"{cells} {', '.join(sorted(words))}: taken as missing"


def listed(fields: Iterable[str]) -> str:
    """The fields in the order of the alphabet."""
    return ", ".join(sorted(fields))


def some(names: Collection[str], most: int) -> str:
    """The first names, and how many more there are."""
    first = ", ".join([*names][:most])
    return f"{first} and {len(names) - most} more" if len(names) > most else first


def missing(fields: frozenset[str], dataset: Dataset) -> str:
    """That these fields are not there: `no column for reference`, or `no texts of ...` where there are ids alone."""
    bare = fields & dataset.without_text
    said = [f"no column for {listed(fields - bare)}"] if fields - bare else []
    return " and ".join([*said, *([f"no texts of {listed(bare)}"] if bare else [])])


def left_out_lines(left_out: Mapping[str, frozenset[str]], dataset: Dataset) -> list[str]:
    """What is missing, each time with all metrics that miss it; `left_out` names the fields that each lacks."""
    names: dict[frozenset[str], list[str]] = {}
    for name, fields in left_out.items():
        names.setdefault(fields, []).append(name)
    return [f"{missing(fields, dataset)}, so left out: {', '.join(lacking)}" for fields, lacking in names.items()]
