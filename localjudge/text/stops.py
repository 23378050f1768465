"""Where a sentence stops inside a piece of text.

    She met Dr. No (twice.) Then she left.
              ^ "Dr" is a title: no cut
                         ^ mark "."   closed ")"   next "Then"   cut before "Then"

Every stop is found by one regular expression, then read by a table of rules in their order: the first that has an
opinion decides, and a stop that no rule objects to ends the sentence. A cut never falls inside a word.
"""

import re
from collections.abc import Iterator

from localjudge.text.conventions import Conventions
from localjudge.text.own_abbreviations import MOST_CHARACTERS
from localjudge.text.piece import TextPiece
from localjudge.text.stop import LATIN_STOPS, Stop, without_article
from localjudge.text.surroundings import SURROUNDINGS
from localjudge.text.words import WORDS

_MORE_STOPS = "។៕།༎\u037e"
"""Full stops of Khmer and Tibetan, and the Greek question mark, which spaCy's table lacks."""

_CLOSING = r"[\"'”’»›)\]}」』）】》〉］｝*_`]|[“‘«](?![^\s\"')\]])"
SMILE = r"(?:[:;=][-'^]?[)(\]\[DPpOo|/\\*]+|<3|\^_?\^|[xX]D+|[☹☺❤✨\U0001f000-\U0001faff\u200d\ufe0f]+)(?!\w)"
_CITATION = r"\[(?:\d+|[a-z]{1,2}|[a-z]+ (?:\d+|needed))(?:\s?[,–-]\s?\d+)*\]|[¹²³⁰⁴-⁹]+"
_PAGES = r":\d+(?:[,–-]\s?\d+)*"
"""Pages of a footnote that lost its number: "in 1905.:75–76 Then"."""

_WINDOW = 40
"""Characters before a stop in which its word is looked for: longer ones are not abbreviations."""

_WORD_EDGE = re.compile(r"[\s(\[{\"“«„/—–-]")
_SPACE = re.compile(r"\s")
_NEXT = re.compile(r"[\W_]{0,12}?(?P<word>[^\W\d_]\.(?!\w)|[^\W_]+(?:['’][^\W_]+)?)")
_LOOSE_QUOTE = re.compile(r"(?P<quote>[\"'])\s+")

_RULES = (*SURROUNDINGS, *WORDS)
"""In this order: what a stop's surroundings say, then its mark, then its word."""


def stop_pattern(stops: str) -> re.Pattern[str]:
    """Pattern of a stop, what closes with it, what is added to it ("[17]", ":-)"), and the gap after it."""
    some = f"[{re.escape(''.join(sorted({*stops, *LATIN_STOPS, *_MORE_STOPS})))}]"
    return re.compile(
        rf"(?P<mark>{some}+(?:[ \u00a0][.!?](?!\w))*)"
        rf"(?P<closed>(?:{_CLOSING})*(?:{some}+(?:{_CLOSING})*)*(?:\s(?:»|[)\]](?!\S)))?)"
        rf"(?:\s?(?:{_CITATION}))*(?:{_PAGES})?(?:\s?{SMILE})*"
        r"(?P<gap>\s*)"
    )


def stops(text: str, piece: TextPiece, pattern: re.Pattern[str], conventions: Conventions) -> Iterator[int]:
    """Where the sentences of a piece begin, after each stop that ends one."""
    begin, own = piece.start, conventions.own
    for match in pattern.finditer(text, piece.start, piece.end):
        if match.end() == piece.end:
            return
        if own and match["mark"] == "." and own.covers(*_around(text, piece, match)):
            continue
        stop = _stop(text, piece, begin, match, conventions)
        if _ends_sentence(stop, conventions, text):
            begin = _begin(text, piece, match)
            yield begin


def _around(text: str, piece: TextPiece, match: re.Match[str]) -> tuple[str, str]:
    """What stands before a stop and after its gap, as far as an abbreviation may go."""
    before = text[max(piece.start, match.start() - 2 * MOST_CHARACTERS) : match.start()]
    return before, text[match.end() : min(piece.end, match.end() + MOST_CHARACTERS)]


def _stop(text: str, piece: TextPiece, begin: int, match: re.Match[str], conventions: Conventions) -> Stop:
    start, end = match.start(), match.end()
    left = text[max(begin, start - _WINDOW) : start]
    word = _WORD_EDGE.split(left[left.rfind(" ") + 1 :])[-1]
    following = _NEXT.match(text, end, piece.end)
    return Stop(
        mark=match["mark"],
        closed=match["closed"],
        gap=match["gap"],
        before=left[: len(left) - len(word)],
        word=without_article(word.lstrip("'‘’*_`"), conventions),
        next=following["word"] if following else "",
        follower=text[end],
        sentence=(begin, start),
        ahead=text[following.start("word") : min(end + _WINDOW, piece.end)] if following else "",
        unbroken=("", "") if match["gap"] else (_SPACE.split(left)[-1], _SPACE.split(text[end : end + _WINDOW])[0]),
    )


def _ends_sentence(stop: Stop, conventions: Conventions, text: str) -> bool:
    for rule in _RULES:
        verdict = rule(stop, conventions, text)
        if verdict is not None:
            return verdict
    return True


def _begin(text: str, piece: TextPiece, match: re.Match[str]) -> int:
    """Where the next sentence begins, once it is known to which of the two a straight quote belongs.

    'said."We' opens a quotation, '. " He' closes one, and the other way round after an odd number of quotes.
    """
    if match["closed"] == '"' and not match["gap"]:
        inside = text.count('"', piece.start, match.start("closed")) % 2
        return match.end() if inside else match.start("closed")
    loose = _LOOSE_QUOTE.match(text, match.end(), piece.end)
    if loose and text.count(loose["quote"], piece.start, match.end()) % 2:
        return loose.end()
    return match.end()
