"""How a language writes abbreviations, units, ordinal numbers and sentence beginnings; and whether a text is in it.

A full stop after an abbreviation may or may not end the sentence. What follows decides: a capitalised *function word*
("The", "She", "Ich") is capitalised because it begins a sentence; any other capitalised word may just be a name.
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

Function words are spaCy's stop words of the language, and its tokenizer exceptions that end in a stop may end a
sentence, so that every language of spaCy has some. The stop of a user's own abbreviation never ends one: "Pat." with or
without its stop, also "PAT."; "n. Chr." with or without the space.
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
from typing import Any

from localjudge.errors import InputError
from localjudge.words import option, option_name


def written(words: Iterable[str], *, capitals: bool = False) -> frozenset[str]:
    """Words as they stand and with a capital first letter, "etc" and "Etc"; with `capitals` also "ETC"."""
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
        self._rests: dict[str, tuple[str, ...]] = {}
        for word in whole:
            for stop in re.finditer(r"\.", word):
                before = word[: stop.start()]
                self._rests[before] = (*self._rests.get(before, ()), word[stop.end() :] + ".")

    def covers(self, before: str, ahead: str) -> bool:
        """Whether the stop between what is before it and what goes on after the white space is of an abbreviation."""
        before, ahead = _compact(before), _compact(ahead)
        words = (before[edge.end() :] for edge in _EDGE.finditer(before))
        return any(word in self._whole or ahead.startswith(self._rests.get(word, ())) for word in words)


def checked_abbreviations(words: Iterable[str], source: str = "abbreviations") -> tuple[str, ...]:
    """Abbreviations without their last stop, each once and in order. Raises InputError for what is not one."""
    checked = set()
    for word in words:
        bare = " ".join(str(word).split()).removesuffix(".")
        if len(bare) > MOST_CHARACTERS or not _ABBREVIATION.fullmatch(bare):
            raise InputError(f"{source}: {word!r:.80} is not an abbreviation", hint=_HINT)
        checked.add(bare)
    return tuple(sorted(checked))


def abbreviations_of(value: object) -> tuple[str, ...]:
    """Abbreviations from words, or from the name of a UTF-8 file. Raises InputError for what is neither."""
    if not isinstance(value, str | PathLike):
        if value is None or isinstance(value, Iterable):
            return checked_abbreviations(value or ())
        name = option_name("abbreviations")
        raise InputError(f"{name} must be a list of words or the name of a file, got {value!r:.80}")
    try:
        text = Path(value).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{value} cannot be read: {error}", hint="name a UTF-8 file of abbreviations") from error
    words: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if word := line.partition("#")[0].strip():
            words.update(checked_abbreviations([word], f"{value}:{number}"))
    if not words:
        raise InputError(f"{value} holds no abbreviation", hint=_HINT)
    return tuple(sorted(words))


def _compact(text: str) -> str:
    """A text without the white space after its stops: "n. Chr" is "n.Chr"."""
    return _STOP_AND_SPACE.sub(".", text)


_FOLDER = Path(__file__).parent / "abbreviations"
ANY_LANGUAGE = "xx"
_FALLBACK = "en"
_STOPS = {"el": ";", "grc": ";"}
_ORDINALS = "cs da de et eu fi fo fr hr hu is lb lt lv nb nn sk sl sr tr"
_CAPITAL_NOUNS = ("de", "lb")
"""Here "Art." is a noun where "art." is an abbreviation, but at the beginning of a sentence."""
_DOTTED_ENDS = "en es fr it nl pt"
_ELIDES = "ca fr it lij oc pt"
_UNKNOWN_LETTERS = {"en": 3}


@dataclass(frozen=True)
class Conventions:
    """The tables that the rules look words up in: abbreviations without their last stop, other words in lower case."""

    starters: frozenset[str] = frozenset()
    """Function words and openers: capitalised, they begin a sentence."""
    never_ends: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    often_ends: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    after_unit: frozenset[str] = frozenset()
    lettered: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    endings: tuple[str, ...] = ()
    particles: frozenset[str] = frozenset()
    ordinals: bool = False
    """Whether a number and a full stop are an ordinal number: "am 3. Oktober"."""
    dotted_ends: bool = False
    """Whether small letters with stops that no table has, "p.a.", end a sentence before any capital."""
    elides: bool = False
    """Whether an apostrophe joins articles to nouns: "l'art. 8"."""
    unknown_letters: int = 0
    """Letters of the longest word that is taken for an abbreviation by a small letter after its stop."""
    stops: str = ""
    """Full stops of this language alone."""
    own: OwnAbbreviations | None = None


def languages() -> tuple[str, ...]:
    """Languages with a file of their own, in alphabetical order."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml") if file.stem != ANY_LANGUAGE))


@cache
def _groups(language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def words_of(language: str, group: str) -> frozenset[str]:
    """The words of a group in the file of a language, as they stand there; none if it has no such group."""
    return frozenset(word for entry in _groups(language).get(group, ()) for word in entry["words"].split())


def conventions_of(
    language: str, stop_words: Iterable[str], exceptions: Iterable[str], own: Sequence[str] = ()
) -> Conventions:
    """Tables of a language, with spaCy's stop words and tokenizer exceptions, and the user's own abbreviations.

    A language without a file of its own is read with the English one, which the world's names and titles come in.
    """
    table = language if language in languages() else _FALLBACK

    def group(name: str) -> frozenset[str]:
        return words_of(table, name) | words_of(ANY_LANGUAGE, name)

    stopped = (word[:-1] for word in exceptions if word.endswith(".") and len(word.rstrip(".")) > 1)
    may_end = {*group("may_end"), *stopped}
    starters = {word.lower() for word in stop_words if word.isalpha()}
    plain = ("units", "after_unit", "lettered", "valued", "particles")
    return Conventions(
        **{name: group(name) for name in plain},
        starters=frozenset(starters) - group("not_openers") | group("openers"),
        never_ends=written(group("never_ends")),
        before_number=written(group("before_number"), capitals=True),
        may_end=frozenset(may_end) if language in _CAPITAL_NOUNS else written(may_end),
        often_ends=written(group("often_ends"), capitals=True),
        endings=tuple(sorted(group("endings"))),
        ordinals=language in _ORDINALS.split(),
        dotted_ends=language in _DOTTED_ENDS.split(),
        elides=language in _ELIDES.split(),
        unknown_letters=_UNKNOWN_LETTERS.get(table, 6),
        stops=_STOPS.get(language, ""),
        own=OwnAbbreviations(own) if own else None,
    )


_MOST_TEXTS = 200
_MOST_CHARACTERS = 50_000
_MIN_LETTERS = 100
_MIN_WORDS = 30
_MIN_HITS = 8
_MIN_SHARE = 0.15  # of words that are function words of the other language only
_TIMES = 4  # as many as function words of this language only
_MAJORITY = 0.6
_KANA = 0.05  # Chinese text has no kana; Japanese has them between its Chinese characters
_WORD = re.compile(r"[^\W\d_]{2,}")

_LATIN = ("cs", "da", "de", "en", "es", "fr", "it", "nb", "nl", "pl", "pt", "sv")
"""Languages whose `frequent` words are known. Slavic ones look like Czech, Scandinavian ones like one another."""
_SCRIPTS = {
    script: codes.split(",")
    for script, codes in re.findall(
        r"(\w+)=(\S+)",
        """
        ARABIC=ar,fa,ug,ur ARMENIAN=hy BENGALI=bn CJK=zh,ja CYRILLIC=ru,bg,ky,mk,sr,tt,uk DEVANAGARI=hi,mr,ne,sa
        ETHIOPIC=am,ti GEORGIAN=ka GREEK=el,grc GUJARATI=gu HANGUL=ko HEBREW=he KANA=ja KANNADA=kn MALAYALAM=ml
        SINHALA=si TAMIL=ta TELUGU=te THAI=th TIBETAN=bo
        """,
    )
}
"""Scripts, as Unicode names their letters, with spaCy's codes of their languages, the most spoken one first."""


def misfit(texts: Sequence[str], language: str) -> str | None:
    """One line that says which language the texts look like, and what to do; None if they may be in `language`.

    That needs a clear majority: most letters in a script that the language is not written in, or, of the words that
    only one of the two languages is full of, many of another language and hardly any of this one. Short texts, tables
    and texts in several languages give none. 50,000 characters are read, spread over all texts.
    """
    if language == ANY_LANGUAGE:
        return None
    taken = texts[:: -(-len(texts) // _MOST_TEXTS) or 1]
    sample = "\n".join(text[: _MOST_CHARACTERS // len(taken)] for text in taken)
    codes = _by_script(sample, language) or _by_words(sample, language)
    if not codes:
        return None
    likely, *others = codes
    or_other = f" (or {', '.join(others)})" if others else ""
    return (
        f"the texts look like language {likely}{or_other}, and {option_name('language')} is {language}: "
        f"sentences may be cut wrongly; give {option('language', likely)}"
    )


def _by_script(sample: str, language: str) -> list[str]:
    """The languages in whose script most of the letters are, where `language` has another one."""
    letters = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in sample if letter.isalpha())
    total = letters.total()
    letters["KANA"] = letters.pop("HIRAGANA", 0) + letters.pop("KATAKANA", 0)
    if letters["KANA"] >= _KANA * total:
        letters["KANA"] += letters.pop("CJK", 0)
    script, count = max(letters.items(), key=lambda item: item[1])
    codes = _SCRIPTS.get(script, [])
    return [] if total < _MIN_LETTERS or count < _MAJORITY * total or language in codes else codes


def _by_words(sample: str, language: str) -> list[str]:
    """The language whose function words the texts are full of, where those of `language` are rare."""
    words = Counter(word.lower() for word in _WORD.findall(sample))
    is_latin = language == "sr" or not any(language in codes for codes in _SCRIPTS.values())
    if words.total() < _MIN_WORDS or (is_latin and language not in _LATIN):
        return []
    frequent = words_of(language, "frequent") if is_latin else frozenset()

    def count(group: frozenset[str]) -> int:
        return sum(words[word] for word in group)

    others = {code: words_of(code, "frequent") for code in _LATIN if code != language}
    code = max(others, key=lambda code: count(others[code]))
    against = count(frequent - others[code])
    return (
        [code] if count(others[code] - frequent) >= max(_MIN_HITS, _MIN_SHARE * words.total(), _TIMES * against) else []
    )
