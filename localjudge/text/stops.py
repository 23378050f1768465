"""Full stops, and runs of stops, with their surroundings, and the rules by the words around them.

    She met Dr. No (twice.) Then she left.
                         ^ mark "."   word "twice"   closed ")"   next "Then"

Every rule returns whether the stop ends its sentence, or None if it does not apply: rules for
abbreviations, units, initials and ordinals, whose tables are in `languages`.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from localjudge.text.languages import ANY_LANGUAGE, Conventions, any_of, load_words
from localjudge.text.lines import CLAUSE_NUMBER, LETTER

_ELIDED = re.compile(r"[^\W\d_]{1,6}['’](?=\w)")
_STOP_AND_NUMBER = re.compile(r"\.\s?[\d§]")

_DOTTED = re.compile(rf"{LETTER}{{1,3}}\.(?:(?:{LETTER}|\d){{1,3}}\.)*{LETTER}{{1,3}}")
_DANDA = "।"
_INDIC = re.compile(r"[\u0900-\u0dff0-9]")
_LETTER_BEFORE = re.compile(r"(?:^|\s)[^\W\d_]\.\s$")
_NEARBY = 2_000  # characters on each side of a stop that may have a danda
_CLOCK = re.compile(rf"\d*(?:{any_of('clock')})", re.IGNORECASE)
_AFTER_CLOCK = re.compile(rf"[A-Z]{{1,2}}[SD]?T|GMT|UTC|{any_of('after_clock')}")
_MIN_WORDS_BEFORE_CLOCK = 3
_CONSONANTS = re.compile(r"(?![HhMmSs]+\b)[B-DF-HJ-NP-TV-Z]?[b-df-hj-np-tv-xz]{1,4}")
_ROMAN = re.compile(r"[IVXLCDM]+")
_PARTICLE = re.compile(
    rf"(?P<particle>[^\W\d_]+)\s(?:(?:{any_of('second_particles')})\s)?(?P<name>[^\W\d_])",
)
_FIRST_PARTS = re.compile(r"(?:[^\W\d_]{1,4}\.\s)+$")  # of "z. B.", "Dr. med."
_POWER = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_AMOUNT = re.compile(r"[\d.,]*\d(?P<unit>[^\W\d_]+)")
_NEXT_AMOUNT = re.compile(r"\d[\d.,]*\s?(?P<unit>[^\W\d_]+)")
_ENDS_IN_NUMBER = re.compile(r"[\d½¼¾⅓⅔]$")
_CLAUSE = re.compile(CLAUSE_NUMBER)
_LEVEL = re.compile(rf"\d{{1,3}}[a-z]?|{_ROMAN.pattern}")
_YEAR = re.compile(r"[12]\d{3}")
_ORDINAL = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_NUMERAL = re.compile(rf"{_ORDINAL.pattern}|{_ROMAN.pattern}")
_NO_ORDINAL = re.compile(r"(?:/|\d[-–]\d[-–])$")  # before the last number of "120/80" and "1-0-1"
_FIRST_OF_TWO = load_words(ANY_LANGUAGE, "first_of_two")  # "5 ft. 10 in."
_PRONOUNS = load_words(ANY_LANGUAGE, "pronouns")
_ANSWERS = load_words(ANY_LANGUAGE, "answers")
# The word "I", and not a Roman number: "He said no. I left."
_PRONOUN = re.compile(rf"(?:{any_of('pronouns')})\s+[a-z]")
_BRACKETED = 80  # characters before a stop that may contain an open bracket
_VALUE = re.compile(r"\s\d")
_AFTER_NAME = re.compile(
    r"\set al\b"
    r"|,? \(?\d{4}\)"  # Smith, (1990)
    rf"|\s(?:{any_of('after_name')}|(?:{any_of('joins_names')}) [A-Z]\.)"  # Smith and J.
)
_SERIES = re.compile(rf"\b[A-Z],? (?:{any_of('between_letters')}) $")  # "from A to B"
_ANOTHER_LETTER = re.compile(rf"[^\W\d_],?|{any_of('between_letters')}")


class Stop(NamedTuple):
    """A full stop, or a run of stops, with its surroundings."""

    mark: str  # the stops
    closed: str  # closing quotes and brackets after (and between) the stops
    gap: str  # white space up to the next sentence
    before: str  # up to 40 characters before the word in this sentence
    word: str  # text before the stop, back to white space or an opening bracket
    next: str  # the next word; with its full stop, if it is an initial
    follower: str  # the character after the gap
    ahead: str  # up to 40 characters from the next word on
    left: str  # up to 40 characters before the stop in this sentence
    right: str  # up to 40 characters after the gap
    begin: int  # offset of the sentence
    end: int  # offset of the stop
    text: str  # the whole text
    conventions: Conventions

    @property
    def after_next(self) -> str:
        return self.ahead[len(self.next) :]

    @property
    def before_capital(self) -> bool:
        """Whether the next word may be a name or start a sentence: "The", "iPhone", and any
        caseless script.
        """
        if not self.next.islower():
            return True
        return "ა" <= self.next[0] <= "ჿ"  # Georgian: lower case in Unicode, no capitals

    @property
    def before_caseless(self) -> bool:
        """Whether the next word is in a script without capitals: Arabic, Hindi, Chinese."""
        first = self.next[:1]
        return first.isalpha() and first.lower() == first.upper()

    @property
    def before_starter(self) -> bool:
        return self.before_capital and self.next_stem.lower() in self.conventions.starters

    @property
    def next_stem(self) -> str:
        """The next word up to an apostrophe."""
        return re.split(r"['’]", self.next, maxsplit=1)[0]

    @property
    def before_number(self) -> bool:
        """Whether a number follows an abbreviation: "Suppl. Fig. 4", "Pub. L. No. 94"."""
        if self.next not in self.conventions.before_number:
            return False
        return _STOP_AND_NUMBER.match(self.after_next) is not None

    @property
    def after_letter(self) -> bool:
        return len(self.word) == 1 and self.word.isalpha()

    @property
    def after_first_word(self) -> bool:
        return self.end - self.begin == len(self.word)


Rule = Callable[[Stop], bool | None]
"""Returns whether a stop ends its sentence, or None if the rule does not apply."""


def without_article(word: str, conventions: Conventions) -> str:
    """Turn "l'art" and "dell'art" into "art"."""
    if not conventions.elides:
        return word
    return _ELIDED.sub("", word, count=1)


def _time_of_day(stop: Stop) -> bool | None:
    """End after "a.m." before a capital, except at the sentence's start and before a time zone or a
    day.
    """
    if "." not in stop.word or not _CLOCK.fullmatch(stop.word):
        return None
    words = stop.text[stop.begin : stop.end].split(maxsplit=_MIN_WORDS_BEFORE_CLOCK)
    if len(words) <= _MIN_WORDS_BEFORE_CLOCK:
        return stop.before_starter and stop.next not in _PRONOUNS
    return stop.before_capital and not _AFTER_CLOCK.fullmatch(stop.next)


def _beside_danda(stop: Stop) -> bool | None:
    """Continue after a full stop in a text with dandas, except after a final verb."""
    is_between = _INDIC.match(stop.follower) and _INDIC.match(stop.text[stop.end - 1])
    if not is_between or stop.mark != ".":
        return None
    if stop.text.find(_DANDA, max(0, stop.end - _NEARBY), stop.end + _NEARBY) < 0:
        return None
    return stop.word in stop.conventions.final_words


def _quantity(stop: Stop) -> bool | None:
    """End after a number and a unit before a capital: "4 g. Take it", "88/min. Temp"."""
    if not _is_quantity(stop):
        return None
    more = _NEXT_AMOUNT.match(stop.ahead)
    if more and more["unit"] in stop.conventions.units and stop.word in _FIRST_OF_TWO:
        return False
    return stop.before_capital and stop.next not in stop.conventions.after_unit


def _clause_number(stop: Stop) -> bool | None:
    """Continue after the number of a clause before a small letter: "Under § 4.2. the buyer"."""
    word = stop.word.lstrip("§")
    if stop.before_caseless and (_CLAUSE.fullmatch(word) or _LEVEL.fullmatch(word)):
        return stop.before_starter if _follows_noun_of_number(stop) else None
    if stop.before_capital:
        return None
    is_clause = _CLAUSE.fullmatch(word) is not None
    if is_clause and stop.text[stop.begin].isupper():
        return False
    if is_clause or _LEVEL.fullmatch(word):
        is_labelled = word != stop.word or _follows_noun_of_number(stop)
        return False if is_labelled else None
    return None


def _label_letter(stop: Stop) -> bool | None:
    """Do not read the letter or number of a preceding noun as an initial or ordinal.

    "It contains Vitamin K. Vitamin C is missing."
    """
    if not stop.after_letter and not (stop.conventions.ordinals and _NUMERAL.fullmatch(stop.word)):
        return None
    if not _follows_labelled_noun(stop) and not _follows_plain_noun(stop):
        return None
    if stop.next.endswith("."):
        return None
    if stop.after_letter and stop.next[:1].isdigit():
        return None
    return stop.before_capital


def _never_ending(stop: Stop) -> bool | None:
    """Continue after titles and "e.g.", and at an abbreviation before a number ("p. 55")."""
    word = stop.word
    conventions = stop.conventions
    if _is_listed(stop, conventions.never_ends):
        return False
    is_small_letter = stop.after_letter and word.islower()
    is_listed = word in conventions.before_number or word.endswith(conventions.endings)
    if not is_small_letter and not is_listed:
        return None
    if _precedes_number_or_label(stop):
        return False
    if word[0].isupper() and not stop.before_capital:
        return False
    return None


def _ordinal(stop: Stop) -> bool | None:
    """Read a short number as an ordinal or a date, in the languages that write one so.

    "am 3. Oktober", "am 3.4. um"
    """
    if not stop.conventions.ordinals or stop.after_letter:
        return None
    if not _NUMERAL.fullmatch(stop.word) or _NO_ORDINAL.search(stop.before):
        return None
    return stop.before_starter


def _often_ending(stop: Stop) -> bool | None:
    """End after "etc." before a capital, in some languages also after "p.a."."""
    if stop.word in stop.conventions.often_ends:
        return stop.before_capital and not stop.follower.isdigit() and stop.follower not in "(["
    if not stop.conventions.dotted_ends or stop.word in stop.conventions.may_end:
        return None
    is_dotted = "." in stop.word and stop.word.islower() and _DOTTED.fullmatch(stop.word)
    if not is_dotted:
        return None
    return stop.next[:1].isupper() and not stop.next.endswith(".")


def _abbreviation(stop: Stop) -> bool | None:
    """End at an abbreviation or initial only before a function word."""
    word = stop.word
    looks_abbreviated = (
        stop.after_letter
        or _DOTTED.fullmatch(word)
        or _CONSONANTS.fullmatch(word)
        or word.endswith(stop.conventions.endings)
        or _is_listed(stop, stop.conventions.may_end)
    )
    if not looks_abbreviated:
        return None
    # A surname of several words: "J. Van der Berg", "C. De Luca".
    surname = _PARTICLE.match(stop.ahead)
    is_surname = False
    if surname and surname["name"].isupper():
        is_surname = surname["particle"] in stop.conventions.particles
    if stop.after_letter and (is_surname or stop.before_number):
        return False
    if stop.after_letter and stop.before_caseless and _LETTER_BEFORE.search(stop.before):
        return False
    if stop.after_first_word or stop.follower in "([":
        return False
    if stop.next.lower() in stop.conventions.valued and _VALUE.match(stop.after_next):
        return True  # "in the E.R. BP 120/80"
    return stop.before_starter


def _unlisted(stop: Stop) -> bool | None:
    """Before a lower-case word, continue a capitalised sentence in brackets, after "Fig. 3." or
    after a short word.
    """
    if stop.before_capital or stop.closed or stop.after_first_word:
        return None
    if not stop.text[stop.begin].isupper():
        return None
    near = stop.text[max(stop.begin, stop.end - _BRACKETED) : stop.end]
    is_in_brackets = near.rfind("(") > near.rfind(")")
    words = stop.before.split()
    is_number = bool(words) and stop.word.isdecimal()
    is_reference = is_number and words[-1].rstrip(".") in stop.conventions.before_number  # Fig. 3
    if is_in_brackets or is_reference or _may_be_unknown_abbreviation(stop):
        return False
    return None


def _is_quantity(stop: Stop) -> bool:
    units = stop.conventions.units
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
    followed = stop.next[:1].isdigit() or "." in (stop.after_next[:1], stop.next[-1:])
    return not (followed or _YEAR.fullmatch(tokens[-1]))


def _follows_noun_of_number(stop: Stop) -> bool:
    """Return whether a noun, an abbreviation or a sign that takes a number is before the stop."""
    words = stop.before.split()
    if not words:
        return False
    noun = without_article(words[-1], stop.conventions).strip("(")
    if noun.strip("§№") == "" or noun.rstrip(".") in stop.conventions.before_number:
        return True
    return noun.lower() in stop.conventions.lettered


def _follows_labelled_noun(stop: Stop) -> bool:
    """Return whether a noun before the stop takes letters or values: "vitamins A, D and K"."""
    tokens = stop.before.split()
    while tokens and _ANOTHER_LETTER.fullmatch(tokens[-1]):
        tokens.pop()
    if not tokens:
        return False
    noun = without_article(tokens[-1], stop.conventions).strip(".:(").lower()
    if noun in stop.conventions.lettered:
        return True
    return not stop.after_letter and noun in stop.conventions.valued


def _follows_plain_noun(stop: Stop) -> bool:
    """Return whether a capital is the label of a noun, and not an initial.

    label     "We sell size S. Next week, size M arrives."
    initial   "by J. Smith", "John F. Kennedy"
    """
    conventions = stop.conventions
    if not (stop.after_letter and stop.word.isupper() and conventions.before_initial):
        return False
    if _SERIES.search(stop.before):
        return True
    if stop.next.endswith(("'s", "’s")) or _AFTER_NAME.match(stop.after_next):  # the next is a name
        return False
    words = stop.before.split()
    if not words:
        return False
    noun = without_article(words[-1], conventions).lstrip("\"'“‘«(*_`")
    if not (noun.isalpha() and noun.islower()):
        return False
    return noun not in conventions.before_initial and not noun.endswith(conventions.verb_endings)


def _precedes_number_or_label(stop: Stop) -> bool:
    """Return whether what follows belongs to the abbreviation.

    "p. 55", "lit. b", "art. L. 121-1"
    """
    if stop.next[:1].isdigit() or stop.follower in "#§" or stop.before_number:
        return True
    may_precede_pronoun = stop.word.islower() or stop.word in _ANSWERS
    is_pronoun = may_precede_pronoun and _PRONOUN.match(stop.ahead) is not None
    if _ROMAN.fullmatch(stop.next) and not is_pronoun:
        return True
    letter = stop.next.rstrip(".")
    return len(letter) == 1 and letter.isalpha() and not stop.before_starter


def _is_listed(stop: Stop, table: frozenset[str]) -> bool:
    """Return whether the word, or the abbreviation that it completes, is in a table, capitalised or
    not.
    """
    if stop.word in table:
        return True
    if stop.before[-2:-1] == ".":  # "z. B" is "z.B"
        parts = _FIRST_PARTS.search(stop.before)
        if parts and "".join(parts[0].split()) + stop.word in table:
            return True
    if stop.after_first_word and stop.word[:1].lower() + stop.word[1:] in table:
        return True
    return stop.word.isupper() and stop.next.isupper() and stop.word.capitalize() in table


def _may_be_unknown_abbreviation(stop: Stop) -> bool:
    word = stop.word
    if not word.isalpha() or len(word) > stop.conventions.unknown_letters:
        return False
    if not stop.follower.isalpha() or stop.next.upper() in _PRONOUNS:
        return False
    return word.lower() not in stop.conventions.starters


WORD_RULES: tuple[Rule, ...] = (
    _beside_danda,
    _time_of_day,
    _quantity,
    _clause_number,
    _label_letter,
    _never_ending,
    _ordinal,
    _often_ending,
    _abbreviation,
    _unlisted,
)
"""In the order of trying."""
