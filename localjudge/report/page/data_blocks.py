"""The samples of a run as blocks of a page: written as they are read, and unpacked by the page when they are needed.

    list       [id, question, group, outcomes, outcomes before] of some thousand samples: to sort, filter and search
    details    texts and verdicts of some hundred samples: unpacked when one of them is opened

An outcome is a score, or the first letter of "undefined" and "failed"; null for a sample that has no such score.
A block is gzipped JSON in base64: no character of a user's text stands in the page as it is, and pages are small.
"""

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from localjudge.analysis.sample_columns import SampleColumn, sample_columns
from localjudge.record.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.record.results import Run
from localjudge.report.page.baseline_side import BaselineSide
from localjudge.report.page.sample_values import SCORE_DIGITS, Values, rounded, sample_values
from localjudge.types import Sample

_SAMPLES_READ_AT_ONCE = 64
_SAMPLES_OF_A_LIST = 2_000
_LETTERS_OF_DETAILS = 256 << 10
_LETTERS_OF_A_QUESTION = 200

Outcome = float | str | None
_Scored = tuple[Sample, dict[str, ScoreRow]]


class DataBlock(NamedTuple):
    """One block: what it holds, the number of its first sample, and its bytes as base64."""

    kind: str
    first: int
    content: str


def data_blocks(run: Run, baseline: Run | None = None) -> Iterator[DataBlock]:
    """All samples of the run in the order of the data, with what they were in the baseline."""
    listed, details = _Block("list"), _Block("details")
    for row, values in _samples(run, baseline):
        listed.add(row)
        details.add(values)
        if len(listed) >= _SAMPLES_OF_A_LIST:
            yield listed.taken()
        if details.letters >= _LETTERS_OF_DETAILS:
            yield details.taken()
    yield from (block.taken() for block in (listed, details) if len(block))


class _Block:
    """Values that are gathered until they are taken as one block."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._first = 0
        self._lines: list[str] = []
        self.letters = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, values: Any) -> None:
        line = json_line(values)
        self._lines.append(line)
        self.letters += len(line)

    def taken(self) -> DataBlock:
        packed = gzip.compress(f"[{','.join(self._lines)}]".encode(), mtime=0)
        block = DataBlock(self._kind, self._first, base64.b64encode(packed).decode("ascii"))
        self._first += len(self._lines)
        self._lines, self.letters = [], 0
        return block


def _samples(run: Run, baseline: Run | None) -> Iterator[tuple[list[Any], Values]]:
    """Row of the list and details of each sample."""
    hashed, columns = sample_columns(run, list(run.summary.metrics), {})
    side = BaselineSide(baseline, run.summary.metrics, hashed) if baseline is not None else None
    scored = enumerate(run.iter_scored_samples())
    groups = run.cluster_of
    while some := list(islice(scored, _SAMPLES_READ_AT_ONCE)):
        if side:
            side.read(position for position, _ in some)
        for position, (sample, scores) in some:
            verdicts = {metric: _verdicts(run, columns.places[metric], position) for metric in scores}
            group = None if groups is None else groups[sample.id]
            row: list[Any] = [sample.id, _question(sample), group, _outcomes(run, scores)]
            values = sample_values(sample, scores, verdicts.__getitem__)
            if side:
                row.append([side.score(position, metric) for metric in run.summary.metrics])
                values["before"] = side.values(position, sample, verdicts.__getitem__)
            yield row, values


def _verdicts(run: Run, places: SampleColumn[np.int64], position: int) -> list[VerdictRow]:
    place = places.at(position)
    return [] if place is None else list(run.verdicts_at(place))


def _outcomes(run: Run, scores: Mapping[str, ScoreRow]) -> Sequence[Outcome]:
    return [_outcome(scores[metric]) if metric in scores else None for metric in run.summary.metrics]


def _outcome(score: ScoreRow) -> Outcome:
    return score.status[0] if score.score is None else rounded(score.score, SCORE_DIGITS)


def _question(sample: Sample) -> str:
    """What the sample asks, or else what it answers, as far as a list shows it."""
    text = sample.user_input or sample.response or sample.reference or ""
    return text[:_LETTERS_OF_A_QUESTION]
