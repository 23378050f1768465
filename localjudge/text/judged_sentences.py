"""The sentences of a text that are judged: without fences, headers of tables and unpaired tags, and
with a word.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from localjudge.text.lines import Range
from localjudge.text.marks import find_marks, removal_ranges
from localjudge.text.markup import has_words, left_out_ranges, trimmed
from localjudge.types import Span

_CUTS_KEPT = 4096
_SEGMENTERS_KEPT = 2
_MARK_SIGNS = re.compile(r"[\[【［]|<sup|[¹²³⁰⁴-⁹]", re.IGNORECASE)

Cut = Callable[[str], Sequence[Span]]


class JudgedSentences:
    """Cut texts into the sentences that are judged.

    Several metrics cut the same text, so cuts are cached.

    `keep_thinking`: whether metrics judge the thinking in responses.
    """

    def __init__(self, sentences: Cut) -> None:
        self.keep_thinking = keeps_thinking(sentences)
        self._sentences = sentences
        self._cut = lru_cache(maxsize=_CUTS_KEPT)(self._judged)

    def __call__(self, text: str) -> tuple[Span, ...]:
        return self._cut(text)

    def _judged(self, text: str) -> tuple[Span, ...]:
        return tuple(judged_spans(text, self._sentences(text), left_out_ranges(text)))


@lru_cache(maxsize=_SEGMENTERS_KEPT)
def judged_sentences(sentences: Cut) -> JudgedSentences:
    """Return the judged sentences by a segmenter, with the cuts that were made before."""
    return JudgedSentences(sentences)


def keeps_thinking(sentences: object) -> bool:
    return bool(getattr(sentences, "keep_thinking", False))


def judged_spans(text: str, spans: Iterable[Span], left_out: Sequence[Range]) -> list[Span]:
    """Return the spans without what is left out at their edges.

    A span without a word, or of marks only, is dropped.
    """
    marks: list[Range] = []
    if _MARK_SIGNS.search(text):
        marks = removal_ranges(text, find_marks(text))
    judged = []
    for span in spans:
        start, end = trimmed(text, span.start, span.end, left_out)
        bare = trimmed(text, start, end, marks)
        if has_words(text[slice(*bare)]):
            judged.append(Span(start=start, end=end, text=text[start:end]))
    return judged
