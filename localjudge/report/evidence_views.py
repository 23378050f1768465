"""The evidence of a verdict in words.

    evidence [2] 0.81  The Danube rises in the Black Forest.
    closest, not supporting [1] 0.31  The Rhine ends in the Netherlands.
    cited [2], evidence in [1]

Contexts are counted from 1; citations have the names that the response uses.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from localjudge.report.terminal import number
from localjudge.run_directory.evidence_rows import select_context
from localjudge.run_directory.result_rows import EvidenceRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord, with_evidence
from localjudge.types import Sample, context_texts

_LAST_OF_ONE_UNIT = "\uffff"

SUPPORTING = "evidence"
CLOSEST = "closest, not supporting"


def evidence_to_show(verdict: VerdictRow) -> tuple[EvidenceRow, ...]:
    """Return the sentences that support a statement, or the closest one if none does."""
    supporting = tuple(row for row in verdict.evidence if row.supports)
    return supporting or verdict.evidence[:1]


def describe_evidence(row: EvidenceRow, place: str = "") -> str:
    """Return what a sentence is for its statement, where it is, and its score.

    `place` names a text that is no context.
    """
    kind = SUPPORTING if row.supports else CLOSEST
    if row.context is not None:
        place = f"[{row.context + 1}]"
    return " ".join(filter(None, (kind, place, number(row.score))))


def misplaced_citation(verdict: VerdictRow) -> str | None:
    """Return `cited [2], evidence in [1]` if not the cited context has the evidence, or None."""
    supporting = [row for row in verdict.evidence if row.supports and row.cited is False]
    if verdict.label != 0 or not supporting:
        return None
    supporting.sort(key=lambda row: row.context or 0)
    names = dict.fromkeys(row.name or "" for row in supporting)
    cites = supporting[0].cites
    cited = f"cited {_list_names(cites)}" if cites else "cites nothing"
    return f"{cited}, evidence in {_list_names(names)}"


class EvidenceBySample:
    """The evidence of a run for its page, sample by sample, in the order of the data."""

    def __init__(self, run: RunRecord) -> None:
        self._groups = groupby(run.iter_evidence(), key=lambda row: row.sample_id)
        self._next = next(self._groups, None)

    def values_of(
        self, sample: Sample, verdicts: Mapping[str, Sequence[VerdictRow]]
    ) -> dict[str, list[list[list[Any]]]]:
        """Return for each metric with evidence the sentences to show of each verdict.

        A sentence is its context (or None), start and end in UTF-16 code units, whether it
        supports the statement, a description, and its text.
        """
        if self._next is None or self._next[0] != sample.id:
            return {}
        rows = list(self._next[1])
        self._next = next(self._groups, None)
        values: dict[str, list[list[list[Any]]]] = {}
        for metric, of_metric in verdicts.items():
            own = [row for row in rows if row.metric == metric]
            if own:
                texts = context_texts(sample.retrieved_contexts)
                values[metric] = [
                    _page_values(verdict, texts) for verdict in with_evidence(of_metric, own)
                ]
        return values


def _page_values(verdict: VerdictRow, texts: Sequence[str]) -> list[list[Any]]:
    values: list[list[Any]] = []
    for row in evidence_to_show(verdict):
        text = ""
        if row.context is not None:
            text = select_context(texts, row.context)
        place = [row.context, browser_offset(text, row.start), browser_offset(text, row.end)]
        values.append([*place, row.supports, describe_evidence(row), row.text])
    misplaced = misplaced_citation(verdict)
    if misplaced is not None:
        values[0][4] = misplaced
    return values


def browser_offset(text: str, place: int) -> int:
    """Convert a code point offset to UTF-16 code units."""
    if text.isascii():
        return place
    return place + sum(sign > _LAST_OF_ONE_UNIT for sign in text[:place])


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)
