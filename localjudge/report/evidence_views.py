"""The evidence of a verdict in words.

    evidence [2] 0.81  The Danube rises in the Black Forest.
    closest, not supporting [1] 0.31  The Rhine ends in the Netherlands.
    cited [2], closest in [1]

Contexts are counted from 1; citations have the names that the response uses.

The table "where the evidence was" of a run helps to decide whether to retrieve fewer contexts:

    context   statements   share   up to here   contexts   without evidence
    1                 60    60 %         60 %         80          15 (19 %)
    2                 25    25 %         85 %         80          41 (51 %)
    nowhere           15    15 %
"""

from collections.abc import Iterable, Iterator, Sequence

from localjudge.analysis.breakdowns import EvidenceRanks, RankCounts, evidence_ranks
from localjudge.report.terminal import Table, number
from localjudge.run_directory.result_rows import EvidenceRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Label
from localjudge.words import numbered, percent

HEADINGS = ("context", "statements", "share", "up to here", "contexts", "without evidence")
_MAX_RANKS = 10
"""Ranks with a row of their own. The others share one."""
MEANING = (
    "share: of all judged statements, by the context with the closest sentence that supports them",
    "nowhere: the verdict is 0, or no sentence comes close; with a wrong citation, a context that "
    "is not cited counts if one of its sentences has most words of the statement",
    "without evidence: contexts with none of the sentences found, at most two for a statement",
)
ACCURACY = (
    "the sentences are found by comparing words: on public data with labelled evidence, the first "
    "one is right for 75 % (HotpotQA), 83 % (FEVER), 95 % (WiCE) and 97 % (SQuAD) of the statements"
)
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


def ranks_tables(run: RunRecord, metric: str | None = None) -> list[Table]:
    """Return a table for each metric, or for one; none if no statement counts.

    Below the last one is what a share is a share of, and how accurate the finder is.
    """
    tables: list[Table] = []
    for name, counts in evidence_ranks(run).items():
        if metric in (None, name):
            title = f"{name}: {describe_ranks(counts)}"
            tables.append(Table(HEADINGS, list(rank_rows(counts)), titles=[title]))
    if tables:
        tables.append(Table(notes=(*MEANING, ACCURACY)))
    return tables


def describe_ranks(counts: EvidenceRanks) -> str:
    """Return `where the evidence of 100 statements was, in 160 contexts`."""
    statements = numbered(counts.statements, "statement")
    contexts = numbered(counts.contexts, "context")
    return f"where the evidence of {statements} was, in {contexts}"


def rank_rows(counts: EvidenceRanks) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each rank, of all higher ranks together, of no context, and of all."""
    groups: list[tuple[str, Sequence[RankCounts]]] = []
    for rank in counts.ranks[:_MAX_RANKS]:
        groups.append((str(rank.rank), [rank]))
    others = counts.ranks[_MAX_RANKS:]
    if len(others) == 1:
        groups.append((str(others[0].rank), others))
    elif others:
        groups.append((f"{others[0].rank} to {others[-1].rank}", others))
    so_far = 0
    for name, ranks in groups:
        statements = sum(rank.statements for rank in ranks)
        contexts = sum(rank.contexts for rank in ranks)
        empty = sum(rank.without_evidence for rank in ranks)
        so_far += statements
        yield (
            name,
            f"{statements:,}",
            _percent(statements, counts.statements),
            _percent(so_far, counts.statements),
            f"{contexts:,}",
            _counted(empty, contexts),
        )
    nowhere = _percent(counts.nowhere, counts.statements)
    yield "nowhere", f"{counts.nowhere:,}", nowhere, "", "", ""
    without = _counted(counts.contexts_without, counts.contexts)
    yield "all", f"{counts.statements:,}", "", "", f"{counts.contexts:,}", without


def _counted(count: int, total: int) -> str:
    """Return `15 (19 %)`, or the count of nothing without a share."""
    if not total:
        return f"{count:,}"
    return f"{count:,} ({_percent(count, total)})"


def _percent(count: int, total: int) -> str:
    return f"{percent(count / total)} %"
