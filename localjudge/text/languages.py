"""How a language writes abbreviations, units, ordinal numbers and sentence beginnings; and whether a text is in it.

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
    particles      what a surname may begin with after an initial     "J. De Vries"
    openers        words that begin sentences and are not stop words
    not_openers    stop words that names are made of                  "U.S. First Lady"
    frequent       function words by which `misfit` recognises the language

Function words are spaCy's stop words of the language, and its tokenizer exceptions that end in a stop are abbreviations
that may end a sentence, so that every language of spaCy has some. Users add their own (`OwnAbbreviations`), whose stop
never ends a sentence: "Pat." with or without its stop, also "PAT."; "n. Chr." with or without the space.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from localjudge.errors import InputError
from localjudge.words import option, option_name


def written(words: Iterable[str], *, capitals: bool = False) -> frozenset[str]:
    """Words as they stand and with a capital first letter: "etc" and "Etc", but "Dr" not as "dr". Letters stay.

    `capitals`: also in capitals alone, "ETC", which for a title or a company may be something else: "He has MS.".
    """
    words = list(words)
    first = (word[0].upper() + word[1:] for word in words if len(word) > 1)
    whole = (word.upper() for word in words if capitals and len(word) > 1 and "." not in word)
    return frozenset([*words, *first, *whole])


MOST_CHARACTERS = 40
"""Longer ones are not abbreviations."""

_PART = r"[\w'’&/°-]+"
_ABBREVIATION = re.compile(rf"(?=.*[^\W\d_])(?:{_PART}\.\s?)*{_PART}")
_HINT = "write one abbreviation a line, such as Pat. or n. Chr.; a # begins a comment"
_STOP_AND_SPACE = re.compile(r"\.\s+")
_EDGE = re.compile(r"\b(?=\w)")


class OwnAbbreviations:
    """Looks abbreviations up at the stops inside and after them."""

    def __init__(self, words: Iterable[str]) -> None:
        self._whole = whole = written((_compact(word) for word in words), capitals=True)
        self._rests: dict[str, list[str]] = {}
        for word in whole:
            for stop in re.finditer(r"\.", word):
                self._rests.setdefault(word[: stop.start()], []).append(word[stop.end() :] + ".")

    def covers(self, before: str, ahead: str) -> bool:
        """Whether the stop between what is before it and what goes on after the white space is of an abbreviation."""
        before, ahead = _compact(before), _compact(ahead)
        return any(self._holds(before[edge.end() :], ahead) for edge in _EDGE.finditer(before))

    def _holds(self, word: str, ahead: str) -> bool:
        return word in self._whole or any(ahead.startswith(rest) for rest in self._rests.get(word, ()))


def checked_abbreviations(words: Iterable[str], source: str = "abbreviations") -> tuple[str, ...]:
    """Abbreviations without their last stop, each once and in order. Raises InputError for what is not one."""
    checked = set()
    for word in words:
        bare = " ".join(str(word).split()).removesuffix(".")
        if len(bare) > MOST_CHARACTERS or not _ABBREVIATION.fullmatch(bare):
            raise InputError(f"{source}: {word!r:.80} is not an abbreviation", hint=_HINT)
        checked.add(bare)
    return tuple(sorted(checked))


def abbreviations_of(given: object) -> tuple[str, ...]:
    """Abbreviations from the name of a file, or from words. Raises InputError for what is neither."""
    if given is None:
        return ()
    if isinstance(given, str | PathLike):
        return read_abbreviations(given)
    if not isinstance(given, Iterable):
        name = option_name("abbreviations")
        raise InputError(f"{name} must be a list of words or the name of a file, got {given!r:.80}")
    return checked_abbreviations(given)


def read_abbreviations(file: str | PathLike[str]) -> tuple[str, ...]:
    """Abbreviations of a UTF-8 file. Raises InputError, with file and line, if it is not a list of them."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}", hint="name a file of abbreviations") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 (byte {error.start})", hint="convert it first") from error
    words: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if word:
            words.update(checked_abbreviations([word], f"{file}:{number}"))
    if not words:
        raise InputError(f"{file} holds no abbreviation", hint=_HINT)
    return tuple(sorted(words))


def _compact(text: str) -> str:
    """A text without the white space after its stops: "n. Chr" is "n.Chr"."""
    return _STOP_AND_SPACE.sub(".", text)


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


_MOST_TEXTS = 200
_MOST_CHARACTERS = 50_000
_MIN_LETTERS = 100
_MIN_WORDS = 30
_MIN_HITS = 8
_MIN_SHARE = 0.15
"""Share of the words that are function words of the other language only."""
_TIMES = 4
"""So many times as many as function words of this language only."""
_MAJORITY = 0.6
_KANA = 0.05
"""Chinese text has no kana; Japanese has them between its Chinese characters."""

_WORD = re.compile(r"[^\W\d_]{2,}")

_NAMES = {
    "cs": "Czech (cs) or another Slavic language",
    "da": "Danish (da) or another Scandinavian language",
    "de": "German (de)",
    "en": "English (en)",
    "es": "Spanish (es)",
    "fr": "French (fr)",
    "it": "Italian (it)",
    "nb": "Norwegian (nb) or another Scandinavian language",
    "nl": "Dutch (nl)",
    "pl": "Polish (pl)",
    "pt": "Portuguese (pt)",
    "sv": "Swedish (sv) or another Scandinavian language",
}
_SCRIPTS = {
    "ARABIC": ("Arabic", "ar fa ug ur"),
    "ARMENIAN": ("Armenian", "hy"),
    "BENGALI": ("Bengali", "bn"),
    "CJK": ("Chinese", "zh ja"),
    "CYRILLIC": ("Russian", "ru bg ky mk sr tt uk"),
    "DEVANAGARI": ("Hindi", "hi mr ne sa"),
    "ETHIOPIC": ("Amharic", "am ti"),
    "GEORGIAN": ("Georgian", "ka"),
    "GREEK": ("Greek", "el grc"),
    "GUJARATI": ("Gujarati", "gu"),
    "HANGUL": ("Korean", "ko"),
    "HEBREW": ("Hebrew", "he"),
    "KANA": ("Japanese", "ja"),
    "KANNADA": ("Kannada", "kn"),
    "MALAYALAM": ("Malayalam", "ml"),
    "SINHALA": ("Sinhala", "si"),
    "TAMIL": ("Tamil", "ta"),
    "TELUGU": ("Telugu", "te"),
    "THAI": ("Thai", "th"),
    "TIBETAN": ("Tibetan", "bo"),
}
"""Scripts, as Unicode names their letters, with the most spoken of their languages and spaCy's codes of all of them."""
_KANAS = ("HIRAGANA", "KATAKANA")
_OTHER_SCRIPT = frozenset(code for _, codes in _SCRIPTS.values() for code in codes.split()) - {"sr"}
"""Codes of languages whose texts are not written in Latin; Serbian is, too."""


class _Look(NamedTuple):
    code: str
    name: str


def misfit(texts: Sequence[str], language: str) -> str | None:
    """One line that says which language the texts look like, and what to do; None if they may be in `language`.

    A finding needs a clear majority: most letters in a script that the language is not written in, or, of the words
    that only one of the two languages is full of, many of another language and hardly any of this one. Short texts,
    tables and texts in several languages give none. At most so many characters are read, spread over all texts.
    """
    if language == ANY_LANGUAGE:
        return None
    sample = _sample(texts)
    look = _by_script(sample, language) or _by_words(sample, language)
    if look is None:
        return None
    return (
        f"this looks like {look.name}, and {option_name('language')} is {language}: "
        f"sentences may be cut wrongly; give {option('language', look.code)}"
    )


def _sample(texts: Sequence[str]) -> str:
    taken = texts[:: -(-len(texts) // _MOST_TEXTS) or 1]
    return "\n".join(text[: _MOST_CHARACTERS // len(taken)] for text in taken)


def _by_script(sample: str, language: str) -> _Look | None:
    """The language in whose script most of the letters are, where `language` has another one."""
    letters = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in sample if letter.isalpha())
    total = letters.total()
    letters["KANA"] = sum(letters.pop(script, 0) for script in _KANAS)
    if letters["KANA"] >= _KANA * total:
        letters["KANA"] += letters.pop("CJK", 0)
    script, count = max(letters.items(), key=lambda item: item[1])
    if total < _MIN_LETTERS or count < _MAJORITY * total or script not in _SCRIPTS:
        return None
    name, codes = _SCRIPTS[script]
    first, *others = codes.split()
    if language in (first, *others):
        return None
    return _Look(first, f"{name} ({first})" + (" or another language of its script" if others else ""))


def _by_words(sample: str, language: str) -> _Look | None:
    """The language whose function words the texts are full of, where those of `language` are rare."""
    words = Counter(word.lower() for word in _WORD.findall(sample))
    frequent = _frequent(language)
    if words.total() < _MIN_WORDS or frequent is None:
        return None
    others = {code: words_of(code, "frequent") for code in _NAMES if code != language}
    code = max(others, key=lambda code: _count(words, others[code]))
    hits, against = _count(words, others[code] - frequent), _count(words, frequent - others[code])
    if hits < max(_MIN_HITS, _MIN_SHARE * words.total(), _TIMES * against):
        return None
    return _Look(code, _NAMES[code])


def _frequent(language: str) -> frozenset[str] | None:
    """Function words of a language: none of one that is not written in Latin; None where they are not known."""
    if language in _NAMES:
        return words_of(language, "frequent")
    return frozenset() if language in _OTHER_SCRIPT else None


def _count(words: Counter[str], looked_for: frozenset[str]) -> int:
    return sum(words[word] for word in looked_for)
