"""One line why a score is what it is.

context_recall      2 of 3 attributed; not attributed: "It is located in Paris, France."
context_precision   2 of 5 useful, at ranks 1 and 4
no score            the reason why there is none
"""

from collections.abc import Sequence

from localjudge.metrics import catalog
from localjudge.record.result_rows import ScoreRow, VerdictRow

_QUOTED = 120


def in_counts(score: ScoreRow) -> str:
    """`2 of 3`; what is known instead where nothing was counted or there is no score."""
    if score.score is None or score.numerator is None or score.denominator is None:
        return score.detail or ""
    return f"{score.numerator:g} of {score.denominator:g}"


def why(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> str:
    """The counts in the metric's words, with the first unit that lowers the score; what the metric itself says.

    A metric says `said_of_a_unit` with label 1 if it is the share of such units, what else it `counts`, or `explain`s.
    """
    counted = in_counts(score)
    if score.status != "scored":
        return counted
    metric = catalog.ours(score.metric)
    if explain := getattr(metric, "explain", None):
        return str(explain([verdict.label for verdict in verdicts]))
    if score.numerator is None:
        return counted
    detail = f" ({score.detail})" if score.detail else ""
    if word := getattr(metric, "said_of_a_unit", ""):
        return f"{counted} {word}{_first_lacking(word, verdicts)}{detail}"
    return f"{counted} {getattr(metric, 'counts', '')}".rstrip() + detail


def _first_lacking(word: str, verdicts: Sequence[VerdictRow]) -> str:
    lacking = [verdict.text for verdict in verdicts if verdict.label == 0]
    more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
    return f'; not {word}: "{_cut(lacking[0])}"{more}' if lacking else ""


def _cut(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED].rstrip()} ..."
