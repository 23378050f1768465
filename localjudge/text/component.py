"""The sentence rules of a language, also as a spaCy component.

Sentences start at lines, after stops, and after smileys and addresses without a stop.

    She met Dr. No (twice.) Then she left.
              ^ "Dr" is a title: no cut
                         ^ mark "."   closed ")"   next "Then"   cut before "Then"

At each stop, the rules are tried in order, and the first that applies decides. If none applies, the
stop ends the sentence. In a document of spaCy, a start inside a token is ignored.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.language import BaseDefaults, Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from localjudge.text.abbreviation_rules import ABBREVIATION_RULES
from localjudge.text.character_references import read_characters
from localjudge.text.formulas import join_formulas
from localjudge.text.languages import Conventions, load_conventions
from localjudge.text.lines import Range, find_items, is_number_of_next, split_pieces
from localjudge.text.mark_names import YEARS
from localjudge.text.marks import after_stop_ranges
from localjudge.text.markup import before_opening_tags, blanked, blocks, without_markup
from localjudge.text.punctuation_rules import PUNCTUATION_RULES
from localjudge.text.stop import SMILE, Stop, describe_stop, find_end_of_stop, stop_pattern
from localjudge.text.user_abbreviations import MAX_CHARACTERS, belongs_to_word

COMPONENT = "localjudge_sentences"
_STOPS = "".join(Sentencizer.default_punct_chars)
_LOOSE_QUOTE = re.compile(r"(?P<quote>[\"'])\s+")
_RULE = re.compile(r"(?<!\S)(?:-{4,}|(?P<sign>[_=*~#])(?P=sign){2,})\s+")
_UNSTOPPED = re.compile(
    rf"(?<!\S)(?:(?P<smile>{SMILE})|(?:https?://|www\.|[^\s@]+@)\S*[^\s.,;:!?\"'(])"
    r"\s+(?=(?P<next>[A-Z]\w*))"
)
# Of the sentence before: "It rained. [2004] They left.", but not "[2004] EWCA Civ 12 holds".
_YEARS_AFTER_STOP = re.compile(
    rf"\[{YEARS.pattern}\](?:\s*\Z|\s+(?=[\"“„«‘(*_]*(?P<next>[^\W\d_]+)))"
)
_RULES = (*PUNCTUATION_RULES, *ABBREVIATION_RULES)

FindStarts = Callable[[str], list[int]]
"""Returns the starts of the sentences of a text."""


def load_rules(
    language: str, defaults: type[BaseDefaults], abbreviations: Sequence[str] = ()
) -> FindStarts:
    """Return the rules of a language, with spaCy's words for it and the user's abbreviations."""
    conventions = load_conventions(
        language,
        defaults.stop_words,
        defaults.tokenizer_exceptions,
        abbreviations,
    )
    pattern = stop_pattern(_STOPS + conventions.stops)
    return partial(sentence_starts, pattern=pattern, conventions=conventions)


def set_sentence_starts(doc: Doc, find_starts: FindStarts) -> Doc:
    text = doc.text
    is_start = np.zeros(len(text) + 1, dtype=bool)
    is_start[[0, *find_starts(text)]] = True
    offsets = doc.to_array(["IDX"])
    sentence_start: Any = np.where(is_start[offsets], 1, -1).astype(np.uint64)
    doc.from_array(["SENT_START"], sentence_start.reshape(-1, 1))
    return doc


@Language.factory(
    COMPONENT,
    assigns=["token.is_sent_start", "doc.sents"],
    default_config={"abbreviations": []},
)
def create_component(nlp: Language, name: str, abbreviations: list[str]) -> Callable[[Doc], Doc]:
    find_starts = load_rules(str(nlp.meta["lang"]), nlp.Defaults, abbreviations)
    return partial(set_sentence_starts, find_starts=find_starts)


def sentence_starts(text: str, pattern: re.Pattern[str], conventions: Conventions) -> list[int]:
    """Return the starts of sentences. Blocks of code and rows of tables are cut as a whole."""
    read = read_characters(text, keep_markup=True)
    joined = join_formulas(read.text, conventions.after_formula)
    plain = without_markup(blanked(joined, list(after_stop_ranges(read.text))))
    starts: set[int] = set()
    position = 0
    for block in blocks(joined):
        starts |= _starts_between(plain, position, block.start, pattern, conventions)
        starts.add(block.start)
        position = block.end
    starts |= _starts_between(plain, position, len(read.text), pattern, conventions)
    before_tags = {before_opening_tags(read.text, start) for start in starts}
    return [read.stored(start) for start in sorted(before_tags)]


def _starts_between(
    plain: str,
    begin: int,
    end: int,
    pattern: re.Pattern[str],
    conventions: Conventions,
) -> set[int]:
    text = plain[begin:end]
    starts: set[int] = set()
    for piece in split_pieces(text):
        without_stop = {piece.start}
        without_stop.update(find_items(text, piece))
        without_stop.update(_starts_without_stop(text, piece, conventions))
        for first, last in pairwise((*sorted(without_stop), piece.end)):
            starts.add(first)
            part = Range(first, last)
            starts.update(_starts_after_stops(text, part, pattern, conventions))
    kept: set[int] = set()
    before = 0
    for start in sorted(starts):
        # The number of a clause is no sentence: "1.1. The buyer pays.".
        if not is_number_of_next(text[before:start], conventions):
            kept.add(begin + start)
        before = start
    return kept


def _starts_without_stop(text: str, piece: Range, conventions: Conventions) -> Iterator[int]:
    """Yield the starts at and after rules ("----"), and after smileys and addresses."""
    for rule in _RULE.finditer(text, piece.start, piece.end):
        yield rule.start()
        yield rule.end()
    for match in _UNSTOPPED.finditer(text, piece.start, piece.end):
        smile = match["smile"]
        if smile and match.start() == piece.start:
            continue
        follows_ascii_smile = bool(smile) and smile.isascii()
        if follows_ascii_smile or match["next"].lower() in conventions.starters:
            yield match.end()


def _starts_after_stops(
    text: str,
    piece: Range,
    pattern: re.Pattern[str],
    conventions: Conventions,
) -> Iterator[int]:
    """Yield the starts of the sentences after the first one in a piece of the text."""
    begin = piece.start
    for match in pattern.finditer(text, piece.start, piece.end):
        if match.end() == piece.end:
            return
        if _is_in_user_abbreviation(text, piece, match, conventions):
            continue
        stop = describe_stop(text, piece, begin, match, conventions)
        if _ends_sentence(stop):
            begin = _start_of_next(text, piece, match)
            years = _YEARS_AFTER_STOP.match(text[: piece.end], begin)
            if years and (years["next"] or "They").istitle():
                begin = years.end()
            if begin < piece.end:
                yield begin


def _is_in_user_abbreviation(
    text: str,
    piece: Range,
    match: re.Match[str],
    conventions: Conventions,
) -> bool:
    abbreviations = conventions.user_abbreviations
    if not abbreviations or match["mark"] != ".":
        return False
    before = text[max(piece.start, match.start() - 2 * MAX_CHARACTERS) : match.start()]
    ahead = text[match.end() : min(piece.end, match.end() + MAX_CHARACTERS)]
    return belongs_to_word(abbreviations, before, ahead)


def _ends_sentence(stop: Stop) -> bool:
    for rule in _RULES:
        ends = rule(stop)
        if ends is not None:
            return ends
    return True


def _start_of_next(text: str, piece: Range, match: re.Match[str]) -> int:
    """Return the start of the next sentence: 'said."We' opens a quotation, '. " He' closes one."""
    if match["closed"] == '"' and not match["gap"]:
        is_closing = text.count('"', piece.start, match.start("closed")) % 2 == 1
        if is_closing:
            return match.end()
        return match.start("closed")
    loose = _LOOSE_QUOTE.match(text, match.end(), piece.end)
    if loose and text.count(loose["quote"], piece.start, match.end()) % 2:
        return loose.end()
    return find_end_of_stop(text, piece, match)
