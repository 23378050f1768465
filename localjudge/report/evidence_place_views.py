"""The table "where the evidence was" of a run, for a terminal and for its page.

    context   statements   share   up to here   contexts   without evidence
    1                 60    60 %         60 %         80          15 (19 %)
    2                 25    25 %         85 %         80          41 (51 %)
    nowhere           15    15 %

It helps to decide whether to retrieve fewer contexts.
"""

from collections.abc import Iterator, Sequence

from localjudge.analysis.evidence_places import EvidencePlaces, PlaceCounts, evidence_places
from localjudge.report.terminal import Table
from localjudge.run_directory.run_record import RunRecord
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


def places_tables(run: RunRecord, metric: str | None = None) -> list[Table]:
    """Return a table for each metric, or for one; none if no statement counts.

    Below the last one is what a share is a share of, and how accurate the finder is.
    """
    tables: list[Table] = []
    for name, places in evidence_places(run).items():
        if metric in (None, name):
            title = f"{name}: {describe_places(places)}"
            tables.append(Table(HEADINGS, list(place_rows(places)), titles=[title]))
    if tables:
        tables.append(Table(notes=(*MEANING, ACCURACY)))
    return tables


def describe_places(places: EvidencePlaces) -> str:
    """Return `where the evidence of 100 statements was, in 160 contexts`."""
    statements = numbered(places.statements, "statement")
    contexts = numbered(places.contexts, "context")
    return f"where the evidence of {statements} was, in {contexts}"


def place_rows(places: EvidencePlaces) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each rank, of all higher ranks together, of no context, and of all."""
    so_far = 0
    for name, ranks in _group_ranks(places.ranks):
        statements = sum(place.statements for place in ranks)
        contexts = sum(place.contexts for place in ranks)
        empty = sum(place.without_evidence for place in ranks)
        so_far += statements
        yield (
            name,
            f"{statements:,}",
            _percent(statements, places.statements),
            _percent(so_far, places.statements),
            f"{contexts:,}",
            _counted(empty, contexts),
        )
    nowhere = _percent(places.nowhere, places.statements)
    yield "nowhere", f"{places.nowhere:,}", nowhere, "", "", ""
    without = _counted(places.contexts_without, places.contexts)
    yield "all", f"{places.statements:,}", "", "", f"{places.contexts:,}", without


def _group_ranks(ranks: Sequence[PlaceCounts]) -> Iterator[tuple[str, Sequence[PlaceCounts]]]:
    """Yield single ranks, then the others as one group, such as `11 to 200`."""
    for place in ranks[:_MAX_RANKS]:
        yield str(place.rank), [place]
    others = ranks[_MAX_RANKS:]
    if len(others) == 1:
        yield str(others[0].rank), others
    elif others:
        yield f"{others[0].rank} to {others[-1].rank}", others


def _counted(count: int, total: int) -> str:
    """Return `15 (19 %)`, or the count of nothing without a share."""
    if not total:
        return f"{count:,}"
    return f"{count:,} ({_percent(count, total)})"


def _percent(count: int, total: int) -> str:
    return f"{percent(count / total)} %"
