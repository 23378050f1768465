"""The evidence of a verdict in words.

    evidence [2] 0.81  The Danube rises in the Black Forest.
    closest, not supporting [1] 0.31  The Rhine ends in the Netherlands.
    cited [2], closest in [1]

Contexts are counted from 1; citations have the names that the response uses.
"""

from collections.abc import Iterable

from localjudge.report.terminal import number
from localjudge.run_directory.result_rows import EvidenceRow, VerdictRow
from localjudge.types import Label

SUPPORTING = "evidence"
CLOSEST = "closest, not supporting"
UNCITED = "closest, not cited"


def evidence_to_show(verdict: VerdictRow) -> tuple[EvidenceRow, ...]:
    """Return the sentences that support a statement, or the closest one if none does."""
    supporting = tuple(row for row in verdict.evidence if row.supports)
    return supporting or verdict.evidence[:1]


def described_evidence(verdict: VerdictRow) -> list[tuple[EvidenceRow, str]]:
    """Return the sentences to show on a page, each with its description.

    A misplaced citation is described once, in place of its first sentence.
    """
    sentences = []
    for row in evidence_to_show(verdict):
        sentences.append((row, describe_evidence(row, verdict.label)))
    misplaced = misplaced_citation(verdict)
    if misplaced is not None:
        first, _ = sentences[0]
        sentences[0] = (first, misplaced)
    return sentences


def describe_evidence(row: EvidenceRow, label: Label | None, place: str = "") -> str:
    """Return what a sentence is for its statement, where it is, and its score.

    Nothing is evidence of a statement with the label 0: a sentence that the judge has not read, as
    it is not cited, may contradict it. `place` names a text that is no context.
    """
    kind = CLOSEST
    if row.supports and label == 0:
        kind = UNCITED
    elif row.supports:
        kind = SUPPORTING
    if row.context is not None:
        place = f"[{row.context + 1}]"
    return " ".join(filter(None, (kind, place, number(row.score))))


def misplaced_citation(verdict: VerdictRow) -> str | None:
    """Return `cited [2], closest in [1]` for a statement to which only uncited contexts are close.

    Returns None for other statements.
    """
    uncited = [row for row in verdict.evidence if row.supports and row.cited is False]
    if verdict.label != 0 or not uncited:
        return None
    cited = "cites nothing"
    if uncited[0].cites:
        cited = f"cited {_list_names(uncited[0].cites)}"
    uncited.sort(key=lambda row: row.context or 0)
    places = dict.fromkeys(row.name or "" for row in uncited)
    return f"{cited}, closest in {_list_names(places)}"


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)
