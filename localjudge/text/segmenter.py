r"""A text as the sentences that it is made of, each a verbatim span.

    " One. Two.\n"  ->  Span(1, 5, "One."), Span(6, 10, "Two.")

The invariant, for every string that Python can hold: `span.text == text[span.start:span.end]`; spans stand in order and
do not overlap; together they cover every character that is not white space (`str.isspace`); none is empty or has a
blank edge. A long text is read in parts of at most 100,000 characters, parted at blank lines where there are any, so
a sentence is never longer than that.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localjudge.errors import UsageError
from localjudge.text.own_abbreviations import checked_abbreviations
from localjudge.text.pipeline import named_identity, named_pipeline, rules_identity, rules_pipeline
from localjudge.types import Span

if TYPE_CHECKING:
    from spacy.language import Language

MAX_PART = 100_000
"""Characters of a text that are read at once. spaCy refuses more than a million."""

_PARTINGS = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?。！？][\"'”’)\]」』]*\s", r"[。！？]", r"\s")))
"""Where a long text is parted: at the first of these that it holds, as far on as possible."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Segmenter:
    """Cuts texts into sentences: by our rules for `language`, or with `pipeline` if one is named.

    `pipeline` is the name of an installed spaCy pipeline that sets sentence boundaries. The stop
    of one of the `abbreviations` (written with or without it) never ends a sentence; they belong to our rules alone.
    Raises UsageError for one that is not an abbreviation, and for any given together with a pipeline.
    """

    language: str = "en"
    pipeline: str | None = None
    abbreviations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.pipeline and self.abbreviations:
            raise UsageError(
                f"abbreviations cannot be given to the spaCy pipeline {self.pipeline!r}",
                hint="leave out the pipeline to use our rules, or leave out the abbreviations",
            )
        object.__setattr__(self, "abbreviations", checked_abbreviations(self.abbreviations))

    def __call__(self, text: str) -> list[Span]:
        """Sentences of a text, in its order. Raises UsageError for an unknown language or an unfit pipeline."""
        nlp = named_pipeline(self.pipeline) if self.pipeline else rules_pipeline(self.language, self.abbreviations)
        return [
            Span(start=start, end=end, text=text[start:end])
            for part_start, part_end in _parts(text)
            for start, end in _cut(nlp, text[part_start:part_end], part_start)
        ]

    @property
    def identity(self) -> dict[str, str]:
        """All that can move a cut: `name`, `version` (of spaCy), `rules` (their version), `language`.

        Of a named pipeline, `rules` is the pipeline's own version. Of our rules, `tokenizer` is the language whose
        tokenizer is used, and `abbreviations_sha256`, where there are any, stands for the user's own.
        """
        return named_identity(self.pipeline) if self.pipeline else rules_identity(self.language, self.abbreviations)


def sentences(text: str, language: str = "en", segmenter: Callable[[str], list[Span]] | None = None) -> list[Span]:
    """Sentences of a text as verbatim spans, cut by our rules for `language`, or by `segmenter` if one is given.

    Offsets count Unicode code points. Raises UsageError for a language that spaCy does not know.
    """
    return (segmenter or Segmenter(language))(text)


def _parts(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while len(text) - start > MAX_PART:
        end = _parting(text, start, start + MAX_PART)
        yield start, end
        start = end
    yield start, len(text)


def _parting(text: str, start: int, end: int) -> int:
    for parting in _PARTINGS:
        last = max((match.end() for match in parting.finditer(text, start, end)), default=0)
        if last:
            return last
    return end


def _cut(nlp: "Language", text: str, offset: int) -> Iterator[tuple[int, int]]:
    # spaCy stores strings as UTF-8, which has no lone surrogates.
    doc = nlp(_SURROGATE.sub("\ufffd", text))
    if len(doc) and not doc.has_annotation("SENT_START"):
        raise UsageError(
            f"the spaCy pipeline {nlp.meta['name']!r} sets no sentence boundaries",
            hint="name one with a parser, a 'senter' or a 'sentencizer', or leave it out to use the rules",
        )
    for sent in doc.sents:
        piece = text[sent.start_char : sent.end_char]
        start = offset + sent.start_char + len(piece) - len(piece.lstrip())
        if bare := piece.strip():
            yield start, start + len(bare)
