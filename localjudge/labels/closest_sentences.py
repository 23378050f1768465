"""The sentences that come closest to a statement, for annotators who ask for them.

They come from `evidence.jsonl`, without what the judge's verdict adds to them: whether they
support the statement. The finder works by words only, so they do not tell the verdict.
"""

from collections.abc import Mapping
from typing import NamedTuple

from localjudge.errors import InputError
from localjudge.run_directory.label_rows import VerdictId
from localjudge.run_directory.result_rows import EvidenceRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import option_name


class ClosestSentence(NamedTuple):
    """A sentence in a text that is shown with a statement.

    `field` is contexts, reference or response. `context` counts the shown contexts from 0; it is
    None in another field. `start` and `end` count code points.
    """

    field: str
    context: int | None
    start: int
    end: int
    text: str

    @property
    def in_words(self) -> str:
        """`[2] The Danube rises in the Black Forest.`; without a number outside of contexts."""
        if self.context is None:
            return self.text
        return f"[{self.context + 1}] {self.text}"


def closest_sentences(
    run: RunRecord, keys: Mapping[VerdictId, str]
) -> dict[str, tuple[ClosestSentence, ...]]:
    """Return the closest sentences of the statements with these verdicts, by their keys.

    A statement that shares no word with its texts has none.
    """
    sentences: dict[str, tuple[ClosestSentence, ...]] = {}
    if not run.has_evidence:
        return sentences
    for verdict in run.iter_verdicts_with_evidence():
        key = keys.get(VerdictId(verdict.sample_id, verdict.metric, verdict.position or 0))
        if key is not None and verdict.evidence:
            sentences[key] = tuple(_describe(verdict, row) for row in verdict.evidence)
    return sentences


def _describe(verdict: VerdictRow, row: EvidenceRow) -> ClosestSentence:
    field = "contexts"
    context = row.context
    if context is None:
        field = str(verdict.against)
    elif isinstance(verdict.against, int):  # only this context is shown
        context = 0
    return ClosestSentence(field, context, row.start, row.end, row.text)


def require_evidence(run: RunRecord) -> None:
    """Raise InputError for a run that was made without evidence."""
    if not run.has_evidence:
        without = option_name("no_evidence")
        raise InputError(
            f"the run in {run.directory} has no evidence to show",
            hint=f"run the same command without {without}: it adds the evidence and asks nothing",
        )
