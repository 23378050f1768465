"""One sample as the values that its part of the page is drawn from.

Places of verdicts count UTF-16 code units, as scripts in a browser count; the record counts Unicode code points.

    text        "a😀b."      the verdict is on "b."
    the record  2 to 4
    the page    3 to 5
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.report.verdicts import outcome_of, remark_on
from localjudge.report.why import why
from localjudge.types import CONTEXT_FIELDS, Context, Sample, context_texts

Values = dict[str, Any]
VerdictsOf = Callable[[str], list[VerdictRow]]
"""The verdicts of a metric on the sample at hand."""

_TEXT_FIELDS = ("user_input", "reference", "response")
_LAST_OF_ONE_UNIT = "\uffff"
SCORE_DIGITS = 6
_PROBABILITY_DIGITS = 4
"""Enough for what is shown with three: of scores also the differences."""


def sample_values(sample: Sample, scores: Mapping[str, ScoreRow], verdicts_of: VerdictsOf) -> Values:
    """Texts, and of each metric the outcome, one line why unless the outcome says it, and the verdicts."""
    places = PlacesInBrowser(sample)
    return {
        "id": sample.id,
        "texts": text_values(sample),
        "metrics": {name: _metric_values(score, verdicts_of(name), places) for name, score in scores.items()},
    }


def text_values(sample: Sample) -> Values:
    """The fields that the sample has; contexts as objects."""
    texts = {field: getattr(sample, field) for field in _TEXT_FIELDS}
    contexts = {field: _contexts(getattr(sample, field)) for field in CONTEXT_FIELDS}
    return {field: value for field, value in (texts | contexts).items() if value is not None}


def _contexts(contexts: Iterable[Context] | None) -> list[Values] | None:
    if contexts is None:
        return None
    return [context.model_dump(include={"text", "id", "score"}, exclude_none=True) for context in contexts]


def _metric_values(score: ScoreRow, verdicts: Sequence[VerdictRow], places: "PlacesInBrowser") -> Values:
    return {
        "outcome": outcome_of(score),
        "why": why(score, verdicts) if score.status == "scored" else "",
        "verdicts": [verdict_values(verdict, places) for verdict in verdicts],
    }


def verdict_values(verdict: VerdictRow, places: "PlacesInBrowser") -> list[Any]:
    """Field, which of its contexts, start, end, label, probability, remark."""
    return [
        verdict.source,
        verdict.source_index,
        places.place(verdict, verdict.start),
        places.place(verdict, verdict.end),
        verdict.label,
        rounded(verdict.p_yes),
        remark_on(verdict),
    ]


def rounded(share: float | None, digits: int = _PROBABILITY_DIGITS) -> float | None:
    """A probability in as many digits as the page needs, or a score in `SCORE_DIGITS`."""
    return None if share is None else round(share, digits)


class PlacesInBrowser:
    """Where places in the texts of a sample are for a script in a browser."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._long: dict[tuple[str, int | None], list[int]] = {}

    def place(self, verdict: VerdictRow, place: int) -> int:
        """The place in the verdict's text: one further for each character before it that takes two code units."""
        where = verdict.source, verdict.source_index
        if where not in self._long:
            text = self._text(*where)
            self._long[where] = [] if text.isascii() else [at for at, one in enumerate(text) if one > _LAST_OF_ONE_UNIT]
        return place + bisect_left(self._long[where], place)

    def _text(self, field: str, index: int | None) -> str:
        found = getattr(self._sample, field)
        if index is not None:
            found = context_texts(found)[index : index + 1]
        return "".join(found or ())
