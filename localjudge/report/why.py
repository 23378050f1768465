"""One line why a score is what it is.

context_recall      2 of 3 attributed; not attributed: "It is located in Paris, France."
context_precision   2 of 5 useful, at ranks 1 and 4
no score            the reason why there is none
"""

from collections.abc import Sequence

from localjudge.metrics import naming
from localjudge.record.result_rows import ScoreRow, VerdictRow

_SAID_OF_A_UNIT = {
    "context_recall": "attributed",
    "faithfulness": "attributed",
    "context_relevancy": "needed",
    "context_relevancy_chunk": "needed",
    "answer_relevancy": "needed",
    "citation_support": "supported by what they cite",
}
"""What label 1 says of a unit, of metrics that are the share of it."""
_COUNTED = {
    "document_recall_multi_hit": "ground-truth documents retrieved",
    "citation_validity": "citations name a retrieved context",
    "matrix_precision": "contexts support a sentence of the reference",
    "matrix_recall": "sentences of the reference supported by a context",
    "noise_sensitivity": "sentences of the response wrong, and supported by a context",
    "precision": "places held by a ground-truth document",
    "recall": "ground-truth documents retrieved",
}
"""What other metrics count."""
_QUOTED = 120


def in_counts(score: ScoreRow) -> str:
    """`2 of 3`; what is known instead where nothing was counted or there is no score."""
    if score.score is None or score.numerator is None or score.denominator is None:
        return score.detail or ""
    return f"{score.numerator:g} of {score.denominator:g}"


def why(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> str:
    """The counts in the metric's words, with the first unit that lowers the score; what the metric itself says."""
    counted = in_counts(score)
    if score.status != "scored":
        return counted
    name = naming.parse(score.metric)
    base = name.base if name else score.metric
    if base == "context_precision":
        return _ranks([verdict.label for verdict in verdicts])
    if score.numerator is None:
        return counted
    detail = f" ({score.detail})" if score.detail else ""
    if base not in _SAID_OF_A_UNIT:
        return f"{counted} {_COUNTED[base]}{detail}" if base in _COUNTED else f"{counted}{detail}"
    return f"{counted} {_SAID_OF_A_UNIT[base]}{_first_lacking(_SAID_OF_A_UNIT[base], verdicts)}{detail}"


def _first_lacking(word: str, verdicts: Sequence[VerdictRow]) -> str:
    lacking = [verdict.text for verdict in verdicts if verdict.label == 0]
    more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
    return f'; not {word}: "{_cut(lacking[0])}"{more}' if lacking else ""


def _ranks(labels: Sequence[int | None]) -> str:
    ranks = [str(rank) for rank, label in enumerate(labels, 1) if label == 1]
    if not ranks:
        return f"0 of {len(labels)} useful"
    listed = " and ".join(part for part in (", ".join(ranks[:-1]), ranks[-1]) if part)
    return f"{len(ranks)} of {len(labels)} useful, at rank{'s' if len(ranks) > 1 else ''} {listed}"


def _cut(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED].rstrip()} ..."
