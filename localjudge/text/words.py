"""What the word before a full stop says about the end of a sentence: rules in their order.

They read the tables of `conventions.py`, what stands before the word ("4 g.", "Vitamin K.", "lit. b."), and whether the
next word is capitalised, a function word or a number.
"""

import re

from localjudge.text.conventions import Conventions
from localjudge.text.stop import Rule, Stop, after_next, is_capital, is_starter, without_article

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
"""The parts of an abbreviation before its last: "z. B.", "Dr. med."."""
_POWER = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_AMOUNT = re.compile(r"[\d.,]*\d(?P<unit>[^\W\d_]+)")
_NEXT_AMOUNT = re.compile(r"\d[\d.,]*\s?(?P<unit>[^\W\d_]+)")
_ENDS_IN_NUMBER = re.compile(r"[\d½¼¾⅓⅔]$")
_YEAR = re.compile(r"[12]\d{3}")
_ORDINAL = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_NUMERAL = re.compile(rf"{_ORDINAL.pattern}|{_ROMAN.pattern}")
_NO_ORDINAL = re.compile(r"(?:/|\d[-–]\d[-–])$")
"""What stands before the last number of "120/80" and of "1-0-1"."""
_FIRST_OF_TWO = frozenset(["ft", "lb", "lbs", "st", "hr", "hrs", "yr", "yrs", "h", "min"])
"""Units after which a smaller one may come: "5 ft. 10 in."."""
_PRONOUN = re.compile(r"I\s+[a-z]")
"""No Roman number: "He said no. I left."."""
_BRACKETED = 80
"""Characters before a stop in which an open bracket is looked for."""
_VALUE = re.compile(r"\s\d")
_STOP_AND_NUMBER = re.compile(r"\.\s?[\d§]")
_ANOTHER_LETTER = re.compile(r"[^\W\d_],?|and|or|und|oder|et|ou|en|of")


def clock(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """After "a.m." any capital but a time zone or a day begins a sentence, unless the last has only begun."""
    if "." not in stop.word or not _CLOCK.fullmatch(stop.word):
        return None
    begun = text[stop.sentence[0] : stop.sentence[1]].split(maxsplit=_MIN_WORDS_BEFORE_CLOCK)
    if len(begun) <= _MIN_WORDS_BEFORE_CLOCK:
        return is_starter(stop, conventions) and stop.next != "I"
    return is_capital(stop.next) and not _AFTER_CLOCK.fullmatch(stop.next)


def quantity(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """After a number and a unit any capital begins a sentence: "4 g. Take it", "1.25 pct. pts. See", "88/min. Temp"."""
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
    return not (len(word) == 1 and word.isupper() and _is_initial(stop, tokens[-1]))


def _is_initial(stop: Stop, number: str) -> bool:
    """Whether a capital after a number is not a unit: "in 1990 J. Smith", "45 F. Supp.", "Abs. 2 S. 1"."""
    return bool(_YEAR.fullmatch(number)) or stop.next[:1].isdigit() or "." in (after_next(stop)[:1], stop.next[-1:])


def lettered(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A letter or number of the word before it is neither an initial nor an ordinal: "Vitamin K. Vitamin C."."""
    letter = len(stop.word) == 1 and stop.word.isalpha()
    if not letter and not (conventions.ordinals and _NUMERAL.fullmatch(stop.word)):
        return None
    named = _named_before(stop, conventions).lower()
    if named not in conventions.lettered and (letter or named not in conventions.valued):
        return None
    if stop.next.endswith(".") or (letter and stop.next[:1].isdigit()):
        return None
    return is_capital(stop.next)


def _named_before(stop: Stop, conventions: Conventions) -> str:
    """The word that a letter or number may belong to, before others of its kind: "vitamins A, D and" -> "vitamins"."""
    tokens = stop.before.split()
    while tokens and _ANOTHER_LETTER.fullmatch(tokens[-1]):
        tokens.pop()
    return without_article(tokens[-1], conventions).strip(".:(") if tokens else ""


def title(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """More always follows a title or "e.g."."""
    return False if _is_listed(stop, conventions.never_ends) else None


def _is_listed(stop: Stop, table: frozenset[str]) -> bool:
    """Whether the word, or the abbreviation that it ends, is in a table.

    In small letters it is also looked up at the beginning of a sentence, and in capitals before other capitals.
    """
    if stop.word in table or _spaced(stop) in table:
        return True
    if stop.sentence[1] - stop.sentence[0] == len(stop.word) and stop.word[:1].lower() + stop.word[1:] in table:
        return True
    return stop.word.isupper() and stop.next.isupper() and stop.word.capitalize() in table


def _spaced(stop: Stop) -> str:
    """An abbreviation of several parts without the white space inside: "z. B" is "z.B"; "" for any other word."""
    if stop.before[-2:-1] != ".":
        return ""
    parts = _SPACED.search(stop.before)
    return "".join(parts[0].split()) + stop.word if parts else ""


def numbered(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Abbreviations before a number or a letter: "p. 55", "lit. b"; a capitalised one also before a small word."""
    small = len(stop.word) == 1 and stop.word.islower()
    if not small and stop.word not in conventions.before_number and not stop.word.endswith(conventions.endings):
        return None
    pronoun = (stop.word.islower() or stop.word == "No") and _PRONOUN.match(stop.ahead)
    roman = _ROMAN.fullmatch(stop.next) and not pronoun
    if stop.next[:1].isdigit() or stop.follower in "#§" or roman or _is_letter(stop, conventions):
        return False
    if _is_numbered_next(stop, conventions):
        return False
    return False if stop.word[0].isupper() and not is_capital(stop.next) else None


def _is_letter(stop: Stop, conventions: Conventions) -> bool:
    """Whether a single letter follows that is a label, not a word: "lit. b", "App. C", "art. L. 121-1"."""
    letter = stop.next.rstrip(".")
    return len(letter) == 1 and letter.isalpha() and not is_starter(stop, conventions)


def _is_numbered_next(stop: Stop, conventions: Conventions) -> bool:
    """Whether an abbreviation and a number follow: "Suppl. Fig. 4", "Pub. L. No. 94"."""
    return stop.next in conventions.before_number and bool(_STOP_AND_NUMBER.match(after_next(stop)))


def ordinal(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """In some languages a short number and a full stop are an ordinal or a date: "am 3. Oktober", "am 3.4. um"."""
    if not conventions.ordinals:
        return None
    if len(stop.word) == 1 and stop.word.isalpha():
        return None
    number = _NUMERAL.fullmatch(stop.word) and not _NO_ORDINAL.search(stop.before)
    return is_starter(stop, conventions) if number else None


def closing(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """After "etc." any capital begins a sentence; in some languages also after small letters with stops: "p.a."."""
    if stop.word in conventions.often_ends:
        return is_capital(stop.next) and not stop.follower.isdigit() and stop.follower != "("
    dotted = "." in stop.word and conventions.dotted_ends and stop.word.islower() and _DOTTED.fullmatch(stop.word)
    if dotted and stop.word not in conventions.may_end:
        return stop.next[:1].isupper() and not stop.next.endswith(".")
    return None


def abbreviation(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """An abbreviation or an initial ends a sentence only before a function word."""
    word = stop.word
    initial = len(word) == 1 and word.isalpha()
    like_one = _DOTTED.fullmatch(word) or _CONSONANTS.fullmatch(word) or word.endswith(conventions.endings)
    if not (initial or like_one or _is_listed(stop, conventions.may_end)):
        return None
    if initial and (_is_surname_next(stop, conventions) or _is_numbered_next(stop, conventions)):
        return False
    if stop.sentence[1] - stop.sentence[0] == len(word) or stop.follower == "(":
        return False
    return is_starter(stop, conventions) or _is_reading(stop, conventions)


def _is_surname_next(stop: Stop, conventions: Conventions) -> bool:
    """Whether a surname of several words follows an initial: "J. Van der Berg", "C. De Luca"."""
    found = _PARTICLE.match(stop.ahead)
    return found is not None and found["particle"] in conventions.particles and found["name"].isupper()


def _is_reading(stop: Stop, conventions: Conventions) -> bool:
    """Whether a vital sign and its value follow: "in the E.R. BP 120/80"."""
    return stop.next.lower() in conventions.valued and bool(_VALUE.match(after_next(stop)))


def unknown(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A small letter shows that a short word is an abbreviation, unless the writer uses no capitals.

    So it does in brackets, and after the number of a figure.
    """
    begin, end = stop.sentence
    if is_capital(stop.next) or stop.closed or not text[begin].isupper() or end - begin == len(stop.word):
        return None
    near = max(begin, end - _BRACKETED)
    if text.rfind("(", near, end) > text.rfind(")", near, end) or _is_reference(stop, conventions):
        return False
    short = stop.word.isalpha() and len(stop.word) <= conventions.unknown_letters and stop.follower.isalpha()
    return False if short and stop.word.lower() not in conventions.starters and stop.next != "i" else None


def _is_reference(stop: Stop, conventions: Conventions) -> bool:
    """Whether the stop follows the number of a figure or an article: "See Fig. 3. for details."."""
    named = stop.before.split()[-1:]
    return stop.word.isdecimal() and bool(named) and named[0].rstrip(".") in conventions.before_number


WORDS: tuple[Rule, ...] = (clock, quantity, lettered, title, numbered, ordinal, closing, abbreviation, unknown)
