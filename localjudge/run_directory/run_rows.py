"""Rows of a run beside its samples, and of one sample.

columns     values of a column of the data, for slices of the samples
texts read  what a reader has read for a unit, in place of all its texts:
            question    <s>{share} The Danube passes Ulm. </s> Ulm lies on ... </s>
            read                                               Ulm lies on ...
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

from localjudge.dataset.paths import MISSING, lookup
from localjudge.dataset.rows import UNKNOWN, group_name, is_blank
from localjudge.errors import InputError, RunDirectoryError
from localjudge.judge.nearest import MARK
from localjudge.judge.profile import reads_nearest
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.identity import NearestIdentity
from localjudge.run_directory.result_rows import (
    SCORES,
    ScoreRow,
    VerdictId,
    VerdictRow,
    with_evidence,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import stored_ids, stored_user_texts
from localjudge.text.markup import read_characters
from localjudge.text.names import common_spellings, fold
from localjudge.types import Sample, context_texts
from localjudge.words import suggestion

MAX_SLICES = 1_000
_NO_VALUE = "(none)"


def iter_scored_samples(run: RunRecord) -> Iterator[tuple[Sample, dict[str, ScoreRow]]]:
    """Yield each sample with its scores by metric."""
    if not has_one_order(run):
        raise RunDirectoryError(
            f"scores and samples in {run.directory} do not match",
            hint="repeat the command that made it",
        )
    groups = groupby(run.iter_scores(), key=lambda row: row.sample_id)
    for sample, (_, rows) in zip(run.iter_samples(), groups, strict=True):
        yield sample, {row.metric: row for row in rows}


def has_one_order(run: RunRecord) -> bool:
    """Return whether scores and stored samples have the same order."""
    groups = groupby(run.iter_scores(), key=lambda row: row.sample_id)
    scored = (sample_id for sample_id, _ in groups)
    stored = stored_ids(run.directory / STORE)
    return all(name == other for name, other in zip_longest(scored, stored))


def unknown_sample(run: RunRecord, sample_id: str) -> RunDirectoryError:
    """Return the error for a sample that has rows and no data."""
    problem = f"{run.directory / STORE} lacks the sample {excerpt(sample_id)} of {SCORES}"
    return RunDirectoryError(problem, hint="are both files of the same run?")


def read_sample_rows(run: RunRecord, sample_id: str) -> tuple[list[ScoreRow], list[VerdictRow]]:
    """Return the scores of a sample, and its verdicts with their evidence."""
    scores = [row for row in run.iter_scores() if row.sample_id == sample_id]
    verdicts = (row for row in run.iter_verdicts() if row.sample_id == sample_id)
    evidence = (row for row in run.iter_evidence() if row.sample_id == sample_id)
    return scores, list(with_evidence(verdicts, evidence))


def texts_read(
    run: RunRecord, sample: Sample, verdicts: Iterable[VerdictRow]
) -> dict[VerdictId, str]:
    """Return what the judges of a run have read for these verdicts of a sample.

    Empty if one of them reads everything.
    """
    readers: dict[int, NearestIdentity] = {}
    for number, judge in enumerate(run.manifest.judge.judges):
        if judge.judge.nearest is None:
            return {}
        readers[number] = judge.judge.nearest
    asked: dict[VerdictId, list[tuple[int, str]]] = {}
    prompts = stored_user_texts(run.directory / STORE, sample.id, readers)
    for metric, position, number, text in prompts:
        asked.setdefault(VerdictId(sample.id, metric, position), []).append((number, text))
    read: dict[VerdictId, str] = {}
    for verdict in verdicts:
        shown = [read_characters(text).text for text in _texts_for(sample, verdict)]
        texts: list[str] = []
        again: list[str] = []
        for number, text in asked.get(verdict.verdict_id, ()):
            if not reads_nearest(readers[number].units, verdict.unit):
                continue
            parts = text.split(MARK)
            if all(any(part in each for each in shown) for part in parts):
                texts.append(text)
                if readers[number].closer is not None and text != verdict.text:
                    again.append(text)
        if texts:  # a verbatim statement is in the texts, too, and shorter than what was read
            longest = max(texts, key=len)
            read[verdict.verdict_id] = _join_readings(longest, again, shown)
    return read


def _join_readings(longest: str, again: Sequence[str], shown: Sequence[str]) -> str:
    """Add what was only in another reading, in the order of the texts.

    Fewer letters may have room for a sentence that a longer one has taken in the longest reading.
    """
    parts = longest.split(MARK)
    for text in again:
        for part in text.split(MARK):
            if part not in longest and part not in parts:
                parts.append(part)
    if MARK.join(parts) == longest:
        return longest
    everything = "\n".join(shown)
    kept: list[str] = []
    for part in sorted(parts, key=everything.find):
        if not any(part != other and part in other for other in parts):
            kept.append(part)
    return MARK.join(kept)


def _texts_for(sample: Sample, verdict: VerdictRow) -> tuple[str, ...]:
    if verdict.against == "reference":
        return (sample.reference or "",)
    if verdict.against == "response":
        return (sample.response or "",)
    return context_texts(sample.retrieved_contexts)


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


def name_slice(value: str | None) -> str:
    """Return the value of a column by which a slice is named, `(none)` if it is empty.

    The text "(none)" itself gets quotes around it.
    """
    if value is None:
        return _NO_VALUE
    if value.strip('"') == _NO_VALUE:
        return f'"{value}"'
    return value


def slice_order(samples: int, value: str | None) -> tuple[int, bool, str]:
    return -samples, value is None, value or ""
