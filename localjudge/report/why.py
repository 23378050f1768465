"""One line why a score is what it is.

context_recall      2 of 3 attributed; not attributed: "It is located in Paris, France."
context_precision   2 of 5 useful, at ranks 1 and 4
no score            the reason why there is none
"""

from collections.abc import Sequence

from localjudge.record.result_rows import ScoreRow, VerdictRow

_FOUND = {
    "context_recall": "attributed",
    "faithfulness": "attributed",
    "context_relevancy": "needed",
    "context_relevancy_chunk": "needed",
}
"""What label 1 says of a unit, of metrics that are the share of it."""
_QUOTED = 120


def in_counts(score: ScoreRow) -> str:
    """`2 of 3`; what is known instead where nothing was counted or there is no score."""
    if score.score is None or score.numerator is None or score.denominator is None:
        return score.detail or ""
    return f"{score.numerator:g} of {score.denominator:g}"


def why(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> str:
    """The counts in the metric's words, with the first unit that lowers the score."""
    if score.status == "scored" and score.metric == "context_precision":
        return _ranks([verdict.label for verdict in verdicts])
    counted = in_counts(score)
    word = _FOUND.get(score.metric)
    if score.status != "scored" or word is None or not verdicts:
        return counted
    lacking = [verdict.text for verdict in verdicts if verdict.label == 0]
    more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
    quoted = f'; not {word}: "{_cut(lacking[0])}"{more}' if lacking else ""
    return f"{counted} {word}{quoted}"


def _ranks(labels: Sequence[int | None]) -> str:
    ranks = [str(rank) for rank, label in enumerate(labels, 1) if label == 1]
    if not ranks:
        return f"0 of {len(labels)} useful"
    listed = " and ".join(part for part in (", ".join(ranks[:-1]), ranks[-1]) if part)
    return f"{len(ranks)} of {len(labels)} useful, at rank{'s' if len(ranks) > 1 else ''} {listed}"


def _cut(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED].rstrip()} ..."
