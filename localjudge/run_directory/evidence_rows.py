"""Rows of `evidence.jsonl`: the sentences that come closest to each judged statement.

    verdicts.jsonl   sample_id, metric, position  ──1 : 0 to 2──>  evidence.jsonl   ..., rank

The rows have the order of the verdicts, then of the ranks. Offsets count Unicode code points.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pydantic import TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import BY_HAND
from localjudge.run_directory.result_rows import EvidenceRow

EVIDENCE = "evidence.jsonl"
EVIDENCE_ROWS = TypeAdapter(EvidenceRow)

VerdictKey = tuple[str, str, int | None]
"""Sample, metric and position of a verdict."""


def evidence_by_verdict(
    rows: Iterable[EvidenceRow],
) -> Iterator[tuple[VerdictKey, tuple[EvidenceRow, ...]]]:
    """Yield the rows of each verdict together, in the order of the file."""
    for key, of_verdict in groupby(rows, key=_verdict_key):
        yield key, tuple(of_verdict)


def _verdict_key(row: EvidenceRow) -> VerdictKey:
    return row.sample_id, row.metric, row.position


def select_context(texts: Sequence[str], context: int) -> str:
    """Return the context that a row names, from 0. Raises RunDirectoryError if there is none."""
    if context >= len(texts):
        problem = f"a row of {EVIDENCE} names context {context} of {len(texts)}, counted from 0"
        raise RunDirectoryError(problem, hint=BY_HAND)
    return texts[context]
