r"""Split a text into verbatim sentence spans, by the built-in rules or an installed pipeline.

    " One. Two.\n"  ->  Span(1, 5, "One."), Span(6, 10, "Two.")

Invariant: `span.text == text[span.start:span.end]`. Spans are ordered, do not overlap, and together
cover every character except white space (`str.isspace`). A span has 1 to 100,000 characters and no
white space at its edges.

`judged_sentences` are the spans with a word, without fences, headers of tables and unpaired tags.
"""

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import entry_points
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from localjudge.errors import InputError
from localjudge.resources import package_version
from localjudge.text.languages import checked_abbreviations, load_conventions
from localjudge.text.lines import Range
from localjudge.text.marks import find_marks, removal_ranges
from localjudge.text.markup import has_words, left_out_ranges, read_characters, trimmed
from localjudge.types import Span

if TYPE_CHECKING:
    from spacy.language import Language

RULES_VERSION = "7"  # raised when the rules cut any text differently
MAX_PART = 100_000  # characters read at once: spaCy refuses more than a million
_LANGUAGE = re.compile("[a-z]{2,3}")
# Where a long text is split: at the last match of the first pattern that matches.
_PART_ENDS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?。！？][\"'”’)\]」』]*\s"),
    re.compile(r"[。！？]"),
    re.compile(r"\s"),
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CUTS_KEPT = 4096
_SEGMENTERS_KEPT = 2
_MARK_SIGNS = re.compile(r"[\[【［]|<sup|[¹²³⁰⁴-⁹]", re.IGNORECASE)

Cut = Callable[[str], Sequence[Span]]


@dataclass(frozen=True)
class Segmenter:
    """Split texts into sentences by the rules for `language`, or with a spaCy `pipeline`.

    The stop of a word in `abbreviations` never ends a sentence. Raises InputError for an invalid
    abbreviation, or if `abbreviations` and `pipeline` are combined. Metrics leave the thinking in
    responses out, unless `keep_thinking`.
    """

    language: str = "en"
    pipeline: str | None = None
    abbreviations: tuple[str, ...] = ()
    keep_thinking: bool = False

    def __post_init__(self) -> None:
        if self.pipeline and self.abbreviations:
            raise InputError(
                f"abbreviations cannot be given to the spaCy pipeline {self.pipeline!r}",
                hint="omit the pipeline to use the built-in rules, or omit the abbreviations",
            )
        object.__setattr__(self, "abbreviations", checked_abbreviations(self.abbreviations))

    def __call__(self, text: str) -> list[Span]:
        spans: list[Span] = []
        for begin, end in _parts(text):
            # spaCy stores strings as UTF-8, which has no lone surrogates.
            storable = _SURROGATE.sub("\ufffd", text[begin:end])
            if self.pipeline:
                read = read_characters(storable)
                starts_read = _pipeline_starts(named_pipeline(self.pipeline), read.text)
                starts = [read.stored(start) for start in starts_read]
            else:
                starts = rules_for(self.language, self.abbreviations)(storable)
            for first, last in pairwise(sorted({0, *starts, len(storable)})):
                piece = text[begin + first : begin + last]
                bare = piece.strip()
                if bare:
                    start = begin + first + len(piece) - len(piece.lstrip())
                    spans.append(Span(start=start, end=start + len(bare), text=bare))
        return spans

    @property
    def identity(self) -> dict[str, str]:
        """Everything that affects the sentences. `version` is spaCy's."""
        identity = {"name": self.pipeline or "localjudge", "version": package_version("spacy")}
        if self.keep_thinking:
            identity["thinking"] = "kept"
        if self.pipeline:
            meta = named_pipeline(self.pipeline).meta
            identity["rules"] = str(meta["version"])
            identity["language"] = str(meta["lang"])
            return identity
        rules_for(self.language)  # raises InputError for an unknown language
        identity["rules"] = RULES_VERSION
        identity["language"] = self.language
        if self.abbreviations:
            words = "\n".join(self.abbreviations)
            identity["abbreviations_sha256"] = sha256(words.encode()).hexdigest()
        return identity


class JudgedSentences:
    """Cut texts into the sentences that are judged. A span of marks only is dropped.

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
        left_out = left_out_ranges(text)
        marks: list[Range] = []
        if _MARK_SIGNS.search(text):
            marks = removal_ranges(text, find_marks(text))
        judged = []
        for span in self._sentences(text):
            start, end = trimmed(text, span.start, span.end, left_out)
            bare = trimmed(text, start, end, marks)
            if has_words(text[slice(*bare)]):
                judged.append(Span(start=start, end=end, text=text[start:end]))
        return tuple(judged)


@lru_cache(maxsize=_SEGMENTERS_KEPT)
def judged_sentences(sentences: Cut) -> JudgedSentences:
    """Return the judged sentences by a segmenter, with the cuts that were made before."""
    return JudgedSentences(sentences)


def keeps_thinking(sentences: object) -> bool:
    return bool(getattr(sentences, "keep_thinking", False))


@cache
def named_pipeline(name: str) -> "Language":
    """Load an installed pipeline by name. Raises InputError if it is missing.

    Loading runs code, and the name may come from an untrusted file, so only an installed package is
    accepted.
    """
    import_spacy()
    pipelines = entry_points(group="spacy_models")
    if name not in pipelines.names:
        installed = ", ".join(sorted(pipelines.names)) or "none"
        advice = "install its package, or omit the pipeline to use the built-in rules"
        raise InputError(
            f"no spaCy pipeline called {name!r:.80} is installed",
            hint=f"{advice}; installed: {installed}",
        )
    try:
        return cast("Language", pipelines[name].load().load())
    except (ImportError, OSError, ValueError) as error:
        hint = "install the pipeline's package again"
        raise InputError(f"cannot load the spaCy pipeline {name!r}: {error}", hint=hint) from error


@cache
def rules_for(language: str, abbreviations: tuple[str, ...] = ()) -> Callable[[str], list[int]]:
    """Return the built-in rules, which find the starts of the sentences of a text.

    They need spaCy's words of the language, but no other package.

    Raises InputError for a language that spaCy does not know.
    """
    import_spacy()
    from spacy.util import get_lang_class

    from localjudge.text.sentence_rules import sentence_starts

    code = language if _LANGUAGE.fullmatch(language) else ""
    try:
        defaults = get_lang_class(code).Defaults
    except ImportError as error:
        hint = "use a code such as 'en' or 'de', or 'xx' for any language"
        raise InputError(f"spaCy does not support the language {language!r}", hint=hint) from error
    conventions = load_conventions(
        language, defaults.stop_words, defaults.tokenizer_exceptions, abbreviations
    )
    return partial(sentence_starts, conventions=conventions)


@cache
def import_spacy() -> None:
    """Import spaCy, and keep its HTTP client from opening a socket to test for IPv6."""
    has_ipv6 = socket.has_ipv6
    socket.has_ipv6 = False
    try:
        import_module("spacy")
    finally:
        socket.has_ipv6 = has_ipv6


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that are read at once: start and end."""
    start = 0
    while len(text) - start > MAX_PART:
        limit = start + MAX_PART
        ends = [limit]
        for pattern in _PART_ENDS:
            matches = [match.end() for match in pattern.finditer(text, start, limit)]
            if matches:
                ends = matches
                break
        yield start, ends[-1]
        start = ends[-1]
    yield start, len(text)


def _pipeline_starts(nlp: "Language", text: str) -> list[int]:
    """Return the sentence starts that a pipeline sets. Raises InputError if it sets none."""
    doc = nlp(text)
    if len(doc) and not doc.has_annotation("SENT_START"):
        raise InputError(
            f"the spaCy pipeline {nlp.meta['name']!r} sets no sentence boundaries",
            hint="use one with a parser or a 'senter', or omit it to use the built-in rules",
        )
    return [sentence.start_char for sentence in doc.sents]
