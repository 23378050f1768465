"""How a language writes abbreviations, units, ordinal numbers and the beginnings of sentences.

A full stop after an abbreviation may or may not end the sentence. What follows decides: a capitalised *function word*
("The", "She", "Ich") is capitalised because it begins a sentence; any other capitalised word may just be a name.

    I live in the U.S. How about you?      "How" is a function word: cut
    The U.S. Senate met.                   "Senate" may be a name: no cut
    The dose is 4 g. Take it with food.    "g" after a number is a unit, which no name follows: cut

The words stand in `abbreviations/`, a file for each language and `xx.toml` for all of them, without their last full
stop and grouped by what that stop means, each group with its source:

    never_ends     more always follows                                "Dr. Watson", "z.B. Kupfer"
    before_number  an abbreviation only before a number or a letter   "Fig. 3", "lit. b"
    may_end        ends a sentence before a function word             "Acme Ltd. They", "die Pat. klagt"
    often_ends     ends a sentence before any capitalised word        "etc. Toyota", "b.i.d. Stop"
    units          after a number, end a sentence before any capital  "4 g. Take", "12 mmHg. Chest"
    after_unit     no sentence begins with them after a unit          "5 mg. IV"
    lettered       a letter or number after them belongs to them      "Vitamin K. Vitamin C.", "Anlage C."
    valued         a number after them is a value, and no ordinal     "Puls 72. Lunge frei."
    endings        last parts of compound words that are abbreviated  "Hauptstr. 5"
    particles      what a surname may begin with after an initial    "J. De Vries"
    openers        words that begin sentences and are not stop words
    not_openers    stop words that names are made of                  "U.S. First Lady"
    frequent       function words by which the language is recognised: see `language_fit.py`

Function words are spaCy's stop words of the language, and its tokenizer exceptions that end in a stop are abbreviations
that may end a sentence, so that every language of spaCy has some.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from localjudge.text.capitals import written
from localjudge.text.own_abbreviations import OwnAbbreviations

_FOLDER = Path(__file__).parent / "abbreviations"
ANY_LANGUAGE = "xx"
_FALLBACK = "en"
_EXCLAIMING = "Yahoo Jeopardy Joomla Wham Oklahoma Kahoot"
_STOPS = {"el": ";", "grc": ";"}
_ORDINALS = "cs da de et eu fi fo fr hr hu is lb lt lv nb nn sk sl sr tr"
_CAPITAL_NOUNS = ("de", "lb")
"""Here "Art." is a noun where "art." is an abbreviation, but at the beginning of a sentence."""
_DOTTED_ENDS = "en es fr it nl pt"
_ELIDES = "ca fr it lij oc pt"
_UNKNOWN_LETTERS = 6
_UNKNOWN_ENGLISH_LETTERS = 3


@dataclass(frozen=True)
class Conventions:
    """The tables that the rules look words up in. Abbreviations are written without their last full stop."""

    starters: frozenset[str] = frozenset()
    """Function words and openers, lower case: capitalised, they begin a sentence."""
    never_ends: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    often_ends: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    after_unit: frozenset[str] = frozenset()
    lettered: frozenset[str] = frozenset()
    """Lower case."""
    valued: frozenset[str] = frozenset()
    """Lower case."""
    endings: tuple[str, ...] = ()
    particles: frozenset[str] = frozenset()
    exclaiming: frozenset[str] = frozenset()
    """Names with an exclamation or question mark: "Yahoo!"."""
    ordinals: bool = False
    """Whether a number and a full stop are an ordinal number: "am 3. Oktober"."""
    dotted_ends: bool = False
    """Whether small letters with stops that no table has, "p.a.", end a sentence before any capital."""
    elides: bool = False
    """Whether an apostrophe joins articles to nouns: "l'art. 8"."""
    unknown_letters: int = 0
    """A word of at most so many letters, and a small letter after its stop, is taken for an abbreviation."""
    stops: str = ""
    """Full stops of this language alone."""
    own: OwnAbbreviations | None = None
    """Those that the user gives; they go before every rule."""


def languages() -> tuple[str, ...]:
    """Languages with a file of their own, in alphabetical order."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml") if file.stem != ANY_LANGUAGE))


def words_of(language: str, group: str) -> frozenset[str]:
    """The words of a group in the file of a language, as they stand there; none if it has no such group."""
    return _groups(language).get(group, frozenset())


@cache
def _groups(language: str) -> dict[str, frozenset[str]]:
    groups = tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    return {
        name: frozenset(word for entry in entries for word in entry["words"].split())
        for name, entries in groups.items()
    }


def conventions_of(language: str, stop_words: Iterable[str], exceptions: Iterable[str]) -> Conventions:
    """Tables of a language, with the stop words and the tokenizer exceptions that spaCy has for it.

    A language without a file of its own is read with the English one, which the world's names and titles come in.
    """
    table = language if language in languages() else _FALLBACK

    def group(name: str) -> frozenset[str]:
        return words_of(table, name) | words_of(ANY_LANGUAGE, name)

    stopped = (word[:-1] for word in exceptions if word.endswith(".") and len(word.rstrip(".")) > 1)
    may_end = {*group("may_end"), *stopped}
    starters = {word.lower() for word in stop_words if word.isalpha()}
    return Conventions(
        starters=frozenset(starters) - group("not_openers") | group("openers"),
        never_ends=written(group("never_ends")),
        before_number=written(group("before_number"), capitals=True),
        may_end=frozenset(may_end) if language in _CAPITAL_NOUNS else written(may_end),
        often_ends=written(group("often_ends"), capitals=True),
        units=group("units"),
        after_unit=group("after_unit"),
        lettered=group("lettered"),
        valued=group("valued"),
        endings=tuple(sorted(group("endings"))),
        particles=group("particles"),
        exclaiming=written(_EXCLAIMING.split(), capitals=True),
        ordinals=language in _ORDINALS.split(),
        dotted_ends=language in _DOTTED_ENDS.split(),
        elides=language in _ELIDES.split(),
        unknown_letters=_UNKNOWN_ENGLISH_LETTERS if table == _FALLBACK else _UNKNOWN_LETTERS,
        stops=_STOPS.get(language, ""),
    )
