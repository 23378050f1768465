"""Rows of a run beside its samples, of one sample, and from the middle of a file."""

from collections.abc import Iterator
from itertools import groupby, zip_longest

from localjudge.errors import RunDirectoryError
from localjudge.run_directory.archive import stored_ids
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.evaluations import with_evidence
from localjudge.run_directory.result_rows import (
    SCORES,
    VERDICT_ROWS,
    VERDICTS,
    ScoreRow,
    VerdictRow,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Sample


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


def iter_verdict_places(run: RunRecord) -> Iterator[tuple[int, VerdictRow]]:
    """Yield the verdicts of a run, each after its byte offset, for `read_verdicts_at`."""
    return run.iter_rows(VERDICTS, VERDICT_ROWS)


def read_verdicts_at(run: RunRecord, place: int) -> list[VerdictRow]:
    """Return the verdicts of the sample and metric whose first row is at this byte offset."""
    verdicts: list[VerdictRow] = []
    for _, row in run.iter_rows(VERDICTS, VERDICT_ROWS, place):
        if verdicts and (row.sample_id, row.metric) != (verdicts[0].sample_id, verdicts[0].metric):
            break
        verdicts.append(row)
    return verdicts
