"""Find sentence starts: first by lines, then by stops, then by signs that end a sentence without a stop.

    She met Dr. No (twice.) Then she left.
              ^ "Dr" is a title: no cut
                         ^ mark "."   closed ")"   next "Then"   cut before "Then"

One regular expression finds every stop. An ordered list of rules then reads its surroundings, its mark and its word.
The first rule with a result decides. Without a result, the stop ends the sentence.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from localjudge.text.languages import MOST_CHARACTERS, Conventions, written
from localjudge.text.lines import MARKER, TextPiece, items, pieces

LATIN_STOPS = ".!?…"

_ELIDED = re.compile(r"[^\W\d_]{1,6}['’](?=\w)")


class Stop(NamedTuple):
    """A full stop, or a run of stops, with its surroundings."""

    mark: str  # the stops, without what closes with them
    closed: str  # closing quotes and brackets after (and between) the stops
    gap: str  # white space up to the next sentence
    before: str  # the 40 characters or fewer before the word in this sentence
    word: str  # what the stop is written at, back to white space or an opening bracket
    next: str  # the next word; with its full stop, if it is an initial
    follower: str  # the character right after the gap
    sentence: tuple[int, int]  # where the sentence so far begins and the stop stands
    ahead: str  # the 40 characters or fewer from the next word on
    unbroken: tuple[str, str]  # with no gap, what stands up to the white space left of the stop and right of the gap


Rule = Callable[[Stop, Conventions, str], bool | None]
"""Returns whether a stop ends its sentence, or None if the rule does not apply."""


def without_article(word: str, conventions: Conventions) -> str:
    """Remove an article joined by an apostrophe: "l'art" and "dell'art" become "art"."""
    return _ELIDED.sub("", word, count=1) if conventions.elides else word


def after_next(stop: Stop) -> str:
    """Return the text directly after the next word."""
    return stop.ahead[len(stop.next) :]


def is_capital(word: str) -> bool:
    """Return whether a word may be a name or start a sentence: "The", "iPhone", and any caseless script."""
    return not word.islower() or "ა" <= word[0] <= "ჿ"  # Georgian: small letters in Unicode, no capitals in use


def is_starter(stop: Stop, conventions: Conventions) -> bool:
    """Return whether the next word is a capitalised function word."""
    word = stop.next
    return is_capital(word) and re.split(r"['’]", word, maxsplit=1)[0].lower() in conventions.starters


_PLAIN = re.compile(r"[^\W\d_]{2,}$")
_LABEL = re.compile(r"(?P<word>[^\W\d_]+) \d{1,3}(?:\.\d+)*")
_RUN_ON = re.compile(r"(?:[A-Z][a-z’']+|[IA])(?=[\s,;:.!?'’]|$)")
_NOT_RUN_ON = re.compile(r"com|net|org|edu|gov|info|io|co|uk|de|fr|eu|js|py|ts|md|txt|doc", re.IGNORECASE)
"""Endings of host and file names."""
_ADDRESS = re.compile(r"[/\\@=&_<>|{}#%+~`]")
_QUOTING = "とっとでなのをにがはもへ、"
"""Particles that continue a Japanese sentence after a quotation: "「はい。」と言った"."""
_OPENING = " \t\"'“‘«„([{*_-–—"

_WINDOW = 40
"""Maximum length of a sentence start that may be only a list marker or an opening."""


def goes_on(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Continue the sentence at a comma after a stop ("et al., 2015") and at stops in its opening ("...", "1.")."""
    begin, end = stop.sentence
    if stop.follower in ",;:)]}、，；：،؛" or not text[begin : min(end, begin + _WINDOW)].strip(_OPENING):
        return False
    if end - begin > _WINDOW:
        return None
    so_far = text[begin:end]
    label = _LABEL.fullmatch(so_far)
    is_label = label and label["word"][0].isupper() and label["word"].lower() in conventions.lettered
    return False if is_label or MARKER.fullmatch(so_far + ".") else None


def own_stop(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence at a stop of another script, unless a Japanese quotation continues: "「はい。」と言った"."""
    if stop.mark[-1] in LATIN_STOPS:
        return None
    if stop.mark == "．" and stop.follower.isdigit() and not stop.gap:
        return False
    return not (stop.closed and not stop.gap and stop.follower in _QUOTING)


def run_on(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Without a space, require a whole word on both sides: "the end.Then", not "node.Js" or "a.b/C"."""
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
    return is_starter(stop, conventions) or stop.next in conventions.never_ends


def ellipsis(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence at dots before a capital, except at three dots before "I".

    A stop after the closing bracket of an abbreviation always ends the sentence: "(pears, etc.). Then".
    """
    if "." in stop.closed:
        return True
    dots = stop.mark.count(".") + len("...") * stop.mark.count("…")
    if "!" in stop.mark or "?" in stop.mark or dots == 1:
        return None
    if dots == len(".."):
        return is_capital(stop.next)
    return is_capital(stop.next) and re.split(r"['’]", stop.next, maxsplit=1)[0] != "I"


_EXCLAIMING = written(["Yahoo", "Jeopardy", "Joomla", "Wham", "Oklahoma", "Kahoot"], capitals=True)


def exclamation(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence at "!" or "?", except in "Yahoo!" or in a quotation inside a continuing sentence.

    A lower-case letter after a closing quote or bracket continues the sentence.
    """
    if "!" not in stop.mark and "?" not in stop.mark:
        return False if stop.closed and not is_capital(stop.next) else None
    if stop.word in _EXCLAIMING and len(stop.mark) == 1:
        return is_starter(stop, conventions)
    return is_capital(stop.next) or not stop.closed


_DOTTED = re.compile(r"[^\W\d_]{1,3}\.(?:[^\W_]{1,3}\.)*[^\W\d_]{1,3}")
_CLOCK = re.compile(r"\d*[ap]\.?m", re.IGNORECASE)
_AFTER_CLOCK = re.compile(
    r"[A-Z]{1,2}[SD]?T|GMT|UTC|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|Eastern|Central|Mountain|Pacific|"
    r"January|February|March|April|May|June|July|August|September|October|November|December"
)
_MIN_WORDS_BEFORE_CLOCK = 3
_CONSONANTS = re.compile(r"(?![HhMmSs]+\b)[B-DF-HJ-NP-TV-Z]?[b-df-hj-np-tv-xz]{1,4}")
_ROMAN = re.compile(r"[IVXLCDM]+")
_PARTICLE = re.compile(r"(?P<particle>[^\W\d_]+)\s(?:(?:de[nr]?|la|las|los|het)\s)?(?P<name>[^\W\d_])")
_SPACED = re.compile(r"(?:[^\W\d_]{1,4}\.\s)+$")
"""First parts of an abbreviation: "z. B.", "Dr. med."."""
_POWER = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_AMOUNT = re.compile(r"[\d.,]*\d(?P<unit>[^\W\d_]+)")
_NEXT_AMOUNT = re.compile(r"\d[\d.,]*\s?(?P<unit>[^\W\d_]+)")
_ENDS_IN_NUMBER = re.compile(r"[\d½¼¾⅓⅔]$")
_YEAR = re.compile(r"[12]\d{3}")
_ORDINAL = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_NUMERAL = re.compile(rf"{_ORDINAL.pattern}|{_ROMAN.pattern}")
_NO_ORDINAL = re.compile(r"(?:/|\d[-–]\d[-–])$")
"""Text before the last number of "120/80" and "1-0-1"."""
_FIRST_OF_TWO = frozenset(["ft", "lb", "lbs", "st", "hr", "hrs", "yr", "yrs", "h", "min"])
"""Units that a smaller unit may follow: "5 ft. 10 in."."""
_PRONOUN = re.compile(r"I\s+[a-z]")
"""The pronoun, not a Roman number: "He said no. I left."."""
_BRACKETED = 80
"""Number of characters before a stop that are searched for an open bracket."""
_VALUE = re.compile(r"\s\d")
_STOP_AND_NUMBER = re.compile(r"\.\s?[\d§]")
_ANOTHER_LETTER = re.compile(r"[^\W\d_],?|and|or|und|oder|et|ou|en|of")


def clock(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence after "a.m." before a capital, except before a time zone or a day, or at its start."""
    if "." not in stop.word or not _CLOCK.fullmatch(stop.word):
        return None
    begun = text[stop.sentence[0] : stop.sentence[1]].split(maxsplit=_MIN_WORDS_BEFORE_CLOCK)
    if len(begun) <= _MIN_WORDS_BEFORE_CLOCK:
        return is_starter(stop, conventions) and stop.next != "I"
    return is_capital(stop.next) and not _AFTER_CLOCK.fullmatch(stop.next)


def quantity(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence after a number and a unit before a capital: "4 g. Take it", "1.25 pct. pts. See", "88/min.
    Temp".
    """
    if not _is_quantity(stop, conventions.units):
        return None
    more = _NEXT_AMOUNT.match(stop.ahead)
    if more and more["unit"] in conventions.units and stop.word in _FIRST_OF_TWO:
        return False
    return is_capital(stop.next) and stop.next not in conventions.after_unit


def _is_quantity(stop: Stop, units: frozenset[str]) -> bool:
    word = stop.word.rstrip(_POWER)
    if word[:1].isdigit():
        attached = _AMOUNT.fullmatch(word)
        return attached is not None and attached["unit"] in units
    if word not in units:
        return False
    if stop.before.endswith("/"):
        return True
    tokens = stop.before.split()
    while tokens and tokens[-1].rstrip(".") in units:
        tokens.pop()
    if not tokens or not _ENDS_IN_NUMBER.search(tokens[-1]):
        return False
    if len(word) > 1 or not word.isupper():
        return True
    # A capital after a number need not be a unit: "in 1990 J. Smith", "45 F. Supp.", "Abs. 2 S. 1".
    followed = stop.next[:1].isdigit() or "." in (after_next(stop)[:1], stop.next[-1:])
    return not (followed or _YEAR.fullmatch(tokens[-1]))


def lettered(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Do not read the letter or number of a preceding word as an initial or ordinal: "Vitamin K. Vitamin C."."""
    letter = len(stop.word) == 1 and stop.word.isalpha()
    if not letter and not (conventions.ordinals and _NUMERAL.fullmatch(stop.word)):
        return None
    tokens = stop.before.split()
    while tokens and _ANOTHER_LETTER.fullmatch(tokens[-1]):  # "vitamins A, D and K"
        tokens.pop()
    named = without_article(tokens[-1], conventions).strip(".:(").lower() if tokens else ""
    if named not in conventions.lettered and (letter or named not in conventions.valued):
        return None
    if stop.next.endswith(".") or (letter and stop.next[:1].isdigit()):
        return None
    return is_capital(stop.next)


def _is_listed(stop: Stop, table: frozenset[str]) -> bool:
    """Return whether the word, or the abbreviation that it completes, is in a table.

    Also looks up the lower-case form at the start of a sentence, and the capitalised form of a word in capitals.
    """
    parts = _SPACED.search(stop.before) if stop.before[-2:-1] == "." else None  # "z. B" is "z.B"
    if stop.word in table or (parts and "".join(parts[0].split()) + stop.word in table):
        return True
    if stop.sentence[1] - stop.sentence[0] == len(stop.word) and stop.word[:1].lower() + stop.word[1:] in table:
        return True
    return stop.word.isupper() and stop.next.isupper() and stop.word.capitalize() in table


def numbered(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Continue the sentence at an abbreviation before a number or a letter: "p. 55", "lit. b".

    Also continues after titles and "e.g.", and after a capitalised abbreviation before a lower-case word.
    """
    if _is_listed(stop, conventions.never_ends):
        return False
    small = len(stop.word) == 1 and stop.word.islower()
    if not small and stop.word not in conventions.before_number and not stop.word.endswith(conventions.endings):
        return None
    pronoun = (stop.word.islower() or stop.word == "No") and _PRONOUN.match(stop.ahead)
    roman = _ROMAN.fullmatch(stop.next) and not pronoun
    letter = stop.next.rstrip(".")  # a label, not a word: "lit. b", "App. C", "art. L. 121-1"
    label = len(letter) == 1 and letter.isalpha() and not is_starter(stop, conventions)
    if stop.next[:1].isdigit() or stop.follower in "#§" or roman or label or _is_numbered_next(stop, conventions):
        return False
    return False if stop.word[0].isupper() and not is_capital(stop.next) else None


def _is_numbered_next(stop: Stop, conventions: Conventions) -> bool:
    """Return whether an abbreviation and a number follow: "Suppl. Fig. 4", "Pub. L. No. 94"."""
    return stop.next in conventions.before_number and bool(_STOP_AND_NUMBER.match(after_next(stop)))


def ordinal(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Read a short number with a stop as an ordinal or a date in some languages: "am 3. Oktober", "am 3.4. um"."""
    if not conventions.ordinals:
        return None
    if len(stop.word) == 1 and stop.word.isalpha():
        return None
    number = _NUMERAL.fullmatch(stop.word) and not _NO_ORDINAL.search(stop.before)
    return is_starter(stop, conventions) if number else None


def closing(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence after "etc." before a capital; in some languages also after "p.a."."""
    if stop.word in conventions.often_ends:
        return is_capital(stop.next) and not stop.follower.isdigit() and stop.follower != "("
    dotted = "." in stop.word and conventions.dotted_ends and stop.word.islower() and _DOTTED.fullmatch(stop.word)
    if dotted and stop.word not in conventions.may_end:
        return stop.next[:1].isupper() and not stop.next.endswith(".")
    return None


def abbreviation(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """End the sentence at an abbreviation or initial only before a function word."""
    word = stop.word
    initial = len(word) == 1 and word.isalpha()
    like_one = _DOTTED.fullmatch(word) or _CONSONANTS.fullmatch(word) or word.endswith(conventions.endings)
    if not (initial or like_one or _is_listed(stop, conventions.may_end)):
        return None
    surname = _PARTICLE.match(stop.ahead) if initial else None  # of several words: "J. Van der Berg", "C. De Luca"
    if surname and surname["particle"] in conventions.particles and surname["name"].isupper():
        return False
    if initial and _is_numbered_next(stop, conventions):
        return False
    if stop.sentence[1] - stop.sentence[0] == len(word) or stop.follower == "(":
        return False
    reading = stop.next.lower() in conventions.valued and _VALUE.match(after_next(stop))  # "in the E.R. BP 120/80"
    return is_starter(stop, conventions) or bool(reading)


def unknown(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Continue the sentence at a short unlisted word before a lower-case letter, unless the text has no capitals.

    The same applies in brackets and after the number of a figure or an article: "See Fig. 3. for details.".
    """
    begin, end = stop.sentence
    if is_capital(stop.next) or stop.closed or not text[begin].isupper() or end - begin == len(stop.word):
        return None
    near, named = max(begin, end - _BRACKETED), stop.before.split()[-1:]
    reference = stop.word.isdecimal() and named and named[0].rstrip(".") in conventions.before_number
    if text.rfind("(", near, end) > text.rfind(")", near, end) or reference:
        return False
    short = stop.word.isalpha() and len(stop.word) <= conventions.unknown_letters and stop.follower.isalpha()
    return False if short and stop.word.lower() not in conventions.starters and stop.next != "i" else None


_MORE_STOPS = "។៕།༎\u037e"
"""Full stops of Khmer and Tibetan and the Greek question mark, which are missing in spaCy's table."""

_CLOSING = r"[\"'”’»›)\]}」』）】》〉］｝*_`]|[“‘«](?![^\s\"')\]])"
SMILE = r"(?:[:;=][-'^]?[)(\]\[DPpOo|/\\*]+|<3|\^_?\^|[xX]D+|[☹☺❤✨\U0001f000-\U0001faff\u200d\ufe0f]+)(?!\w)"
_CITATION = r"\[(?:\d+|[a-z]{1,2}|[a-z]+ (?:\d+|needed))(?:\s?[,–-]\s?\d+)*\]|[¹²³⁰⁴-⁹]+"
_PAGES = r":\d+(?:[,–-]\s?\d+)*"
"""Page numbers of a footnote without its number: "in 1905.:75–76 Then"."""
_WORD_EDGE = re.compile(r"[\s(\[{\"“«„/—–-]")
_NEXT = re.compile(r"[\W_]{0,12}?(?P<word>[^\W\d_]\.(?!\w)|[^\W_]+(?:['’][^\W_]+)?)")
_LOOSE_QUOTE = re.compile(r"(?P<quote>[\"'])\s+")

_OF_WORDS: tuple[Rule, ...] = (clock, quantity, lettered, numbered, ordinal, closing, abbreviation, unknown)
_RULES: tuple[Rule, ...] = (goes_on, own_stop, run_on, ellipsis, exclamation, *_OF_WORDS)


def stop_pattern(stops: str) -> re.Pattern[str]:
    """Return the pattern of a stop with closing signs, additions ("[17]", ":-)") and the gap after it."""
    some = f"[{re.escape(''.join(sorted({*stops, *LATIN_STOPS, *_MORE_STOPS})))}]"
    return re.compile(
        rf"(?P<mark>{some}+(?:[ \u00a0][.!?](?!\w))*)"
        rf"(?P<closed>(?:{_CLOSING})*(?:{some}+(?:{_CLOSING})*)*(?:\s(?:»|[)\]](?!\S)))?)"
        rf"(?:\s?(?:{_CITATION}))*(?:{_PAGES})?(?:\s?{SMILE})*"
        r"(?P<gap>\s*)"
    )


def stops(text: str, piece: TextPiece, pattern: re.Pattern[str], conventions: Conventions) -> Iterator[int]:
    """Yield the sentence starts after each stop in a piece."""
    begin, own = piece.start, conventions.own
    for match in pattern.finditer(text, piece.start, piece.end):
        if match.end() == piece.end:
            return
        if own and match["mark"] == ".":
            before = text[max(piece.start, match.start() - 2 * MOST_CHARACTERS) : match.start()]
            if own.covers(before, text[match.end() : min(piece.end, match.end() + MOST_CHARACTERS)]):
                continue
        stop = _stop(text, piece, begin, match, conventions)
        verdicts = (rule(stop, conventions, text) for rule in _RULES)
        if next((verdict for verdict in verdicts if verdict is not None), True):
            begin = _begin(text, piece, match)
            yield begin


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
        unbroken=("", "")
        if match["gap"]
        else (re.split(r"\s", left)[-1], re.split(r"\s", text[end : end + _WINDOW])[0]),
    )


def _begin(text: str, piece: TextPiece, match: re.Match[str]) -> int:
    """Return the start of the next sentence: 'said."We' opens a quotation, '. " He' closes one."""
    if match["closed"] == '"' and not match["gap"]:
        inside = text.count('"', piece.start, match.start("closed")) % 2
        return match.end() if inside else match.start("closed")
    loose = _LOOSE_QUOTE.match(text, match.end(), piece.end)
    if loose and text.count(loose["quote"], piece.start, match.end()) % 2:
        return loose.end()
    return match.end()


_RULE = re.compile(r"(?<!\S)(?:-{4,}|(?P<sign>[_=*~#])(?P=sign){2,})\s+")
_UNSTOPPED = re.compile(
    rf"(?<!\S)(?:(?P<smile>{SMILE})|(?:https?://|www\.|[^\s@]+@)\S*[^\s.,;:!?\"'(])\s+(?=(?P<next>[A-Z]\w*))"
)


def sentence_starts(text: str, pattern: re.Pattern[str], conventions: Conventions) -> list[int]:
    """Return the sorted offsets of sentence starts. `pattern` comes from `stop_pattern`."""
    starts: set[int] = set()
    for piece in pieces(text):
        unstopped = {piece.start, *items(text, piece), *_unstopped(text, piece, conventions)}
        for start, end in pairwise((*sorted(unstopped), piece.end)):
            starts |= {start, *stops(text, TextPiece(start, end), pattern, conventions)}
    return sorted(starts)


def _unstopped(text: str, piece: TextPiece, conventions: Conventions) -> Iterator[int]:
    for rule in _RULE.finditer(text, piece.start, piece.end):
        yield from (rule.start(), rule.end())
    for match in _UNSTOPPED.finditer(text, piece.start, piece.end):
        smile = match["smile"]
        if smile and match.start() == piece.start:
            continue
        if (smile and smile.isascii()) or match["next"].lower() in conventions.starters:
            yield match.end()
