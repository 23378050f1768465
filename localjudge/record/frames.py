"""Results as data frames, for whoever analyses them further: pandas or polars, imported when one is asked for.

    samples     sample_id  user_input  retrieved_contexts  ...  context_recall  context_recall_status  ...
    verdicts    sample_id  metric  unit  index  text  p_yes  label  ...  p_yes of A  p_yes of B     combined

A sample without a score has none here: NaN in pandas, null in polars, with `undefined` or `failed` as its status.
Contexts of which only the ids are known are None, as in an export. Types
of columns do not depend on what is in them. All rows are in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from localjudge.errors import UsageError
from localjudge.record.result_rows import ScoreRow, VerdictRow, flat_values
from localjudge.types import CONTEXT_FIELDS, Sample, known_texts

if TYPE_CHECKING:
    import pandas
    import polars

TEXTS = ("user_input", "retrieved_contexts", "reference_contexts", "response", "reference")
"""The fields of `sample_texts`, in the order of ragas."""
FrameRows = Literal["samples", "verdicts"]
_Kind = Literal["text", "texts", "share", "whole"]
_KIND_OF_VERDICT_COLUMN: dict[str, _Kind] = {
    "index": "whole",
    "source_index": "whole",
    "start": "whole",
    "end": "whole",
    "p_yes": "share",
    "label": "whole",
    "window": "whole",
    "legal_mass": "share",
    "position": "whole",
}
"""All others are texts; `against`, which is a number or `reference`, is one, too."""


class FrameColumns(NamedTuple):
    """Values of each column, and what kind of values they are."""

    values: dict[str, list[Any]]
    kinds: dict[str, _Kind]


def sample_texts(sample: Sample) -> dict[str, Any]:
    """The texts of a sample by field; None for contexts of which only the ids are known."""
    return {
        "user_input": sample.user_input,
        "retrieved_contexts": known_texts(sample.retrieved_contexts),
        "reference_contexts": known_texts(sample.reference_contexts),
        "response": sample.response,
        "reference": sample.reference,
    }


def sample_row(sample: Sample, scores: Mapping[str, ScoreRow], metrics: Iterable[str]) -> dict[str, Any]:
    """The one row of a sample, for frames and exports: its id, its texts, and of each metric score and status."""
    row = {"sample_id": sample.id, **sample_texts(sample)}
    for metric in metrics:
        score = scores.get(metric)
        row |= {metric: score and score.score, f"{metric}_status": score and score.status}
    return row


def columns_of_samples(scored: Iterable[tuple[Sample, Mapping[str, ScoreRow]]], metrics: Sequence[str]) -> FrameColumns:
    """The `sample_row` of each sample, as columns."""
    kinds: dict[str, _Kind] = {"sample_id": "text"}
    kinds |= {name: "texts" if name in CONTEXT_FIELDS else "text" for name in TEXTS}
    for metric in metrics:
        kinds |= {metric: "share", f"{metric}_status": "text"}
    rows = [sample_row(sample, scores, metrics) for sample, scores in scored]
    return FrameColumns({name: [row[name] for row in rows] for name in kinds}, kinds)


def columns_of_verdicts(verdicts: Iterable[VerdictRow]) -> FrameColumns:
    """One row for each judged unit, as in `verdicts.jsonl`."""
    kinds: dict[str, _Kind] = {
        field.name: _KIND_OF_VERDICT_COLUMN.get(field.name, "text") for field in fields(VerdictRow)
    }
    del kinds["judges"]
    values: dict[str, list[Any]] = {name: [] for name in kinds}
    for verdict in verdicts:
        for name, value in flat_values(verdict).items():
            kind = kinds.setdefault(name, "share")
            values.setdefault(name, []).append(value if value is None or kind != "text" else str(value))
    return FrameColumns(values, kinds)


def pandas_frame(columns: FrameColumns) -> "pandas.DataFrame":
    """The columns as pandas has them. Raises UsageError if it is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise _not_installed("pandas") from error
    types: dict[_Kind, Any] = {"text": object, "texts": object, "share": "float64", "whole": "Int64"}
    return pandas.DataFrame(
        {name: pandas.Series(values, dtype=types[columns.kinds[name]]) for name, values in columns.values.items()}
    )


def polars_frame(columns: FrameColumns) -> "polars.DataFrame":
    """The columns as polars has them. Raises UsageError if it is not installed."""
    try:
        import polars
    except ImportError as error:
        raise _not_installed("polars") from error
    types: dict[_Kind, Any] = {
        "text": polars.String,
        "texts": polars.List(polars.String),
        "share": polars.Float64,
        "whole": polars.Int64,
    }
    return polars.DataFrame(columns.values, schema={name: types[kind] for name, kind in columns.kinds.items()})


def _not_installed(package: str) -> UsageError:
    return UsageError(f"the package {package} is not installed", hint=f"install it with: pip install {package}")
