r"""A text as the sentences that it is made of, each a verbatim span.

    " One. Two.\n"  ->  Span(1, 5, "One."), Span(6, 10, "Two.")

The invariant, for every string that Python can hold: `span.text == text[span.start:span.end]`; spans stand in order and
do not overlap; together they cover every character that is not white space; none is empty or has a blank edge.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from localjudge.text.pipeline import load_pipeline, pipeline_identity
from localjudge.types import Span

_LINE = re.compile(r"[^\r\n]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Segmenter:
    """Cuts a text into sentences: with our rules for `language`, or with the installed spaCy `pipeline`."""

    language: str = "en"
    pipeline: str | None = None

    def __call__(self, text: str) -> list[Span]:
        """Sentences of the text, in its order. Raises UsageError for an unknown language or pipeline."""
        return [
            Span(start=start, end=end, text=text[start:end])
            for line in _LINE.finditer(text)
            for start, end in self._cut_line(line.group(), line.start())
        ]

    @property
    def identity(self) -> dict[str, str]:
        """All that can move a cut: for a signature."""
        return pipeline_identity(self.language, self.pipeline)

    def _cut_line(self, line: str, offset: int) -> Iterator[tuple[int, int]]:
        # spaCy stores strings as UTF-8, which has no lone surrogates.
        doc = load_pipeline(self.language, self.pipeline)(_SURROGATE.sub("\ufffd", line))
        for sent in doc.sents:
            piece = line[sent.start_char : sent.end_char]
            start = offset + sent.start_char + len(piece) - len(piece.lstrip())
            if bare := piece.strip():
                yield start, start + len(bare)


def sentences(text: str, language: str = "en", segmenter: Callable[[str], list[Span]] | None = None) -> list[Span]:
    """Sentences of a text as verbatim spans, cut by our rules for `language`, or by `segmenter` if one is given.

    Offsets count Unicode code points. Raises UsageError for a language that spaCy does not know.
    """
    return (segmenter or Segmenter(language))(text)
