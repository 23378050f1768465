"""Where a sentence stops inside a piece of text.

    She met Dr. No (twice.) Then she left.
              ^ "Dr" is a title: no cut
                         ^ mark "."   closed ")"   next "Then"   cut before "Then"

Every stop is found by one regular expression, then read by a table of rules in their order: the first that has an
opinion decides, and a stop that no rule objects to ends the sentence. A cut never falls inside a word.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from localjudge.text.conventions import Conventions
from localjudge.text.lists import MARKER
from localjudge.text.piece import Piece

LATIN_STOPS = ".!?…"
_MORE_STOPS = "។៕།༎\u037e"
"""Full stops of Khmer and Tibetan, and the Greek question mark, which spaCy's table lacks."""

_CLOSING = r"[\"'”’»›)\]}」』）】》〉］｝*_`]|[“‘«](?![^\s\"')\]])"
SMILE = r"(?:[:;=][-'^]?[)(\]\[DPpOo|/\\*]+|<3|\^_?\^|[xX]D+|[☹☺❤✨\U0001f000-\U0001faff\u200d\ufe0f]+)(?!\w)"
_CITATION = r"\[(?:\d+|[a-z]{1,2}|[a-z]+ (?:\d+|needed))(?:\s?[,–-]\s?\d+)*\]|[¹²³⁰⁴-⁹]+"
_PAGES = r":\d+(?:[,–-]\s?\d+)*"
"""Pages of a footnote that lost its number: "in 1905.:75–76 Then"."""

_WINDOW = 40
"""Characters before a stop in which its word is looked for: longer ones are no abbreviations."""

_WORD_EDGE = re.compile(r"[\s(\[{\"“«„/—–-]")
_SPACE = re.compile(r"\s")
_NEXT = re.compile(r"[\W_]{0,12}?(?P<word>[^\W\d_]\.(?!\w)|[^\W_]+(?:['’][^\W_]+)?)")
_LOOSE_QUOTE = re.compile(r"(?P<quote>[\"'])\s+")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}")
_CLOCK = re.compile(r"\d*[ap]\.?m", re.IGNORECASE)
_AFTER_CLOCK = re.compile(
    r"[A-Z]{1,2}[SD]?T|GMT|UTC|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|Eastern|Central|Mountain|Pacific|"
    r"January|February|March|April|May|June|July|August|September|October|November|December"
)
_CONSONANTS = re.compile(r"(?![HhMmSs]+\b)[B-DF-HJ-NP-TV-Z]?[b-df-hj-np-tv-xz]{1,4}")
_ROMAN = re.compile(r"[IVXLCDM]+")
_LABEL = re.compile(r"[A-Z][a-z]+ \d{1,3}(?:\.\d+)*")
_PLAIN = re.compile(r"[^\W\d_]{2,}$")
_RUN_ON = re.compile(r"(?:[A-Z][a-z’']+|[IA])(?=[\s,;:.!?'’]|$)")
_NOT_RUN_ON = re.compile(r"com|net|org|edu|gov|info|io|co|uk|de|fr|eu|js|py|ts|md|txt|doc", re.IGNORECASE)
"""What is written with a stop before it, in names of hosts and files."""
_ADDRESS = re.compile(r"[/\\@=&_<>|{}#%+~`]")
_QUOTING = "とっとでなのをにがはもへ、"
"""What goes on with a Japanese sentence after a quotation: "「はい。」と言った"."""

_OPENING = " \t\"'“‘«„([{*_-–—"

_MIN_WORDS_BEFORE_CLOCK = 3
_MAX_ORDINAL_DIGITS = 2


class Stop(NamedTuple):
    """A full stop, or a run of stops, and its surroundings."""

    mark: str
    """The stops, without what closes with them."""
    closed: str
    """Closing quotes and brackets after (and between) the stops."""
    gap: str
    """White space up to the next sentence."""
    word: str
    """What the stop is written at, back to white space or an opening bracket."""
    next: str
    """The next word; with its full stop, if it is an initial."""
    follower: str
    """The character right after the gap."""
    sentence: tuple[int, int]
    """Where the sentence so far begins and the stop stands."""
    unbroken: tuple[str, str]
    """With no gap, the characters up to the white space on both sides: left of the stop, right of what closes it."""


Rule = Callable[[Stop, Conventions, str], bool | None]


def stop_pattern(stops: str) -> re.Pattern[str]:
    """Pattern of a stop, what closes with it, what is added to it ("[17]", ":-)"), and the gap after it."""
    some = f"[{re.escape(''.join(sorted({*stops, *LATIN_STOPS, *_MORE_STOPS})))}]"
    return re.compile(
        rf"(?P<mark>{some}+(?:[ \u00a0][.!?](?!\w))*)"
        rf"(?P<closed>(?:{_CLOSING})*(?:{some}+(?:{_CLOSING})*)*(?:\s(?:»|[)\]](?!\S)))?)"
        rf"(?:\s?(?:{_CITATION}))*(?:{_PAGES})?(?:\s?{SMILE})*"
        r"(?P<gap>\s*)"
    )


def stops(text: str, piece: Piece, pattern: re.Pattern[str], conventions: Conventions) -> Iterator[int]:
    """Where the sentences of a piece begin, after each stop that ends one."""
    begin = piece.start
    for match in pattern.finditer(text, piece.start, piece.end):
        if match.end() == piece.end:
            return
        stop = _stop(text, piece, begin, match)
        if _ends_sentence(stop, conventions, text):
            begin = _begin(text, piece, match)
            yield begin


def _stop(text: str, piece: Piece, begin: int, match: re.Match[str]) -> Stop:
    start, end = match.start(), match.end()
    left = text[max(begin, start - _WINDOW) : start]
    following = _NEXT.match(text, end, piece.end)
    return Stop(
        mark=match["mark"],
        closed=match["closed"],
        gap=match["gap"],
        word=_WORD_EDGE.split(left)[-1].lstrip("'‘’*_`"),
        next=following["word"] if following else "",
        follower=text[end],
        sentence=(begin, start),
        unbroken=("", "") if match["gap"] else (_SPACE.split(left)[-1], _SPACE.split(text[end : end + _WINDOW])[0]),
    )


def _ends_sentence(stop: Stop, conventions: Conventions, text: str) -> bool:
    for rule in RULES:
        verdict = rule(stop, conventions, text)
        if verdict is not None:
            return verdict
    return True


def _begin(text: str, piece: Piece, match: re.Match[str]) -> int:
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


def _is_capital(word: str) -> bool:
    """Whether a word is written as a name or as the first of a sentence: "The", "iPhone", and any caseless script.

    Georgian letters count as small ones in Unicode, but the script has no capitals in use.
    """
    return not word.islower() or "ა" <= word[0] <= "ჿ"


def _is_starter(stop: Stop, conventions: Conventions) -> bool:
    word = stop.next
    return _is_capital(word) and re.split(r"['’]", word, maxsplit=1)[0].lower() in conventions.starters


def goes_on(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A comma, a colon or a closing bracket after the stop goes on with the sentence: "et al., 2015"."""
    return False if stop.follower in ",;:)]}、，；：،؛" else None


def first(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Stops that a sentence begins with do not end it: "... and then"."""
    begin, end = stop.sentence
    return None if text[begin : min(end, begin + _WINDOW)].strip(_OPENING) else False


def list_marker(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """What stands before the stop is only the number or letter of a list item, or a label: "1. First", "Step 2. Go"."""
    begin, end = stop.sentence
    if end - begin > _WINDOW:
        return None
    so_far = text[begin:end]
    return False if MARKER.fullmatch(so_far + ".") or _LABEL.fullmatch(so_far) else None


def own_stop(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A stop of another script has no second meaning; but a Japanese quotation may go on: "「はい。」と言った"."""
    if stop.mark[-1] in LATIN_STOPS:
        return None
    if stop.mark == "．" and stop.follower.isdigit() and not stop.gap:
        return False
    return not (stop.closed and not stop.gap and stop.follower in _QUOTING)


def run_on(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """With no space, only a whole word on both sides makes a stop: "the end.Then", not "node.Js" or "a.b/C"."""
    if stop.gap:
        return None
    if _ADDRESS.search("".join(stop.unbroken)) or not stop.follower.isalpha():
        return False
    if stop.closed:
        return stop.closed[-1] not in "'’*_`" and stop.follower.isupper()
    if "?" in stop.mark or "!" in stop.mark:
        return bool(_PLAIN.search(stop.word))
    if len(stop.mark) > 1 or stop.mark == "…":
        return stop.follower.isupper() and stop.next.split("'")[0] != "I"
    return _is_run_on_word(stop, conventions)


def _is_run_on_word(stop: Stop, conventions: Conventions) -> bool:
    if not _RUN_ON.match(stop.next) or _NOT_RUN_ON.fullmatch(stop.next):
        return False
    rest = stop.unbroken[1].removeprefix(stop.next)
    if rest[:1] not in ("", *".,;:!?'’") or "(" in rest:
        return False
    if stop.word.islower() and _PLAIN.fullmatch(stop.word):
        return True
    return _is_starter(stop, conventions) or stop.next in conventions.titles


def second_stop(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A stop after the closing bracket of an abbreviation is one more: "(pears, etc.). Then"."""
    return True if "." in stop.closed else None


def ellipsis(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Dots end a sentence before a capital; three dots not before "I", which is always one."""
    dots = stop.mark.count(".") + len("...") * stop.mark.count("…")
    if "!" in stop.mark or "?" in stop.mark or dots == 1:
        return None
    if dots == len(".."):
        return _is_capital(stop.next)
    return _is_capital(stop.next) and re.split(r"['’]", stop.next, maxsplit=1)[0] != "I"


def exclamation(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A "!" or "?" ends a sentence, but not in a quotation that the sentence goes on with, nor in "Yahoo!"."""
    if "!" not in stop.mark and "?" not in stop.mark:
        return None
    if stop.word in conventions.exclaiming and len(stop.mark) == 1:
        return _is_starter(stop, conventions)
    return _is_capital(stop.next) or not stop.closed


def quoted(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A small letter after a closing quote or bracket goes on with the sentence."""
    return False if stop.closed and not _is_capital(stop.next) else None


def clock(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """After "a.m." any capital but a time zone or a day begins a sentence, unless the last has only begun."""
    if not _CLOCK.fullmatch(stop.word) or "." not in stop.word:
        return None
    begun = text[stop.sentence[0] : stop.sentence[1]].split(maxsplit=_MIN_WORDS_BEFORE_CLOCK)
    if len(begun) <= _MIN_WORDS_BEFORE_CLOCK:
        return _is_starter(stop, conventions) and stop.next != "I"
    return _is_capital(stop.next) and not _AFTER_CLOCK.fullmatch(stop.next)


def title(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """More always follows a title or "e.g."."""
    return False if stop.word in conventions.titles else None


def numbered(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Abbreviations before a number: "No. 5", "p. 55"; a capitalised one also before a small letter: "No. of"."""
    small = len(stop.word) == 1 and stop.word.islower()
    if not small and stop.word not in conventions.numbered:
        return None
    roman = _ROMAN.fullmatch(stop.next) and not (stop.next == "I" and stop.word.lower() == "no")
    if stop.next[:1].isdigit() or stop.follower in "#§" or roman:
        return False
    return False if stop.word[0].isupper() and not _is_capital(stop.next) else None


def ordinal(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """In some languages a short number and a full stop are an ordinal: "am 3. Oktober"."""
    if not conventions.ordinals:
        return None
    short = stop.word.isdecimal() and len(stop.word) <= _MAX_ORDINAL_DIGITS
    return _is_starter(stop, conventions) if short or (_ROMAN.fullmatch(stop.word) and len(stop.word) > 1) else None


def closing(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """After "etc." any capital begins a sentence."""
    return _is_capital(stop.next) and stop.follower != "(" if stop.word in conventions.closing else None


def abbreviation(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """An abbreviation or an initial ends a sentence only before a function word."""
    word = stop.word
    known = word in conventions.abbreviations or _DOTTED.fullmatch(word) or _CONSONANTS.fullmatch(word)
    initial = len(word) == 1 and word.isalpha()
    if not known and not initial:
        return None
    alone = stop.sentence[1] - stop.sentence[0] == len(word)
    return not alone and _is_starter(stop, conventions) and stop.follower != "("


RULES: tuple[Rule, ...] = (
    goes_on,
    first,
    list_marker,
    own_stop,
    run_on,
    second_stop,
    ellipsis,
    exclamation,
    quoted,
    clock,
    title,
    numbered,
    ordinal,
    closing,
    abbreviation,
)
"""In this order: what a stop's surroundings say, then its mark, then its word."""
