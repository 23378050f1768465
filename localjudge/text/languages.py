"""Abbreviations, units, ordinals and sentence starts of each language, and language detection.

A full stop after an abbreviation ends the sentence only if a capitalised *function word* follows
("The", "She", "Ich"): any other capitalised word may be a name. The word lists are in
`abbreviations/`, one file per language and `xx.toml` for all. Words are listed without their final
full stop, in groups:

    never_ends     the sentence always continues                      "Dr. Watson", "z.B. Kupfer"
    before_number  an abbreviation only before a number or a letter   "Fig. 3", "lit. b"
    may_end        ends a sentence before a function word             "Acme Ltd. They"
    often_ends     ends a sentence before any capitalised word        "etc. Toyota", "b.i.d. Stop"
    units          after a number, ends one before any capital        "4 g. Take", "12 mmHg. Chest"
    after_unit     never starts a sentence after a unit               "5 mg. IV"
    lettered       a following letter or number belongs to it         "Vitamin K. Vitamin C."
    before_initial never take a letter as a label                     "by J. Smith"
    before_label   function words that do                             "written in C. Next"
    verb_endings   of words that never take a letter as a label       "invited J. Smith"
    valued         a following number is a value, not an ordinal      "Puls 72. Lunge frei."
    endings        abbreviated last parts of compound words           "Hauptstr. 5"
    particles      may begin a surname after an initial               "J. De Vries"
    openers        begin sentences, although they are not stop words
    not_openers    stop words that occur in names                     "U.S. First Lady"
    frequent       function words that identify the language of texts

Function words are spaCy's stop words for the language. spaCy's tokenizer exceptions with a final
stop count as `may_end`. A user-defined abbreviation never ends a sentence: "Pat.", "PAT.", "n.
Chr.", "n.Chr.".
"""

import math
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


def add_capitals(words: Iterable[str], *, capitals: bool = False) -> frozenset[str]:
    """Return the words, also capitalised ("Etc") and, with `capitals`, in upper case ("ETC")."""
    forms = set()
    for word in words:
        forms.add(word)
        if len(word) > 1:
            forms.add(word[0].upper() + word[1:])
            if capitals and "." not in word:
                forms.add(word.upper())
    return frozenset(forms)


MAX_CHARACTERS = 40  # of an abbreviation

_PART = r"[\w'’&/°-]+"
_ABBREVIATION = re.compile(rf"(?=.*[^\W\d_])(?:{_PART}\.\s?)*{_PART}")
_HINT = "write one abbreviation per line, such as Pat. or n. Chr.; a # begins a comment"
_STOP_AND_SPACE = re.compile(r"\.\s+")
_EDGE = re.compile(r"\b(?=\w)")


class UserAbbreviations:
    """User-defined abbreviations, looked up at each full stop inside or after them."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = add_capitals((_compact(word) for word in words), capitals=True)
        self._rests: dict[str, tuple[str, ...]] = {}  # what follows a stop inside a word
        for word in self._words:
            for stop in re.finditer(r"\.", word):
                start = word[: stop.start()]
                rest = word[stop.end() :] + "."
                self._rests[start] = (*self._rests.get(start, ()), rest)

    def covers(self, before: str, ahead: str) -> bool:
        """Return whether the stop between `before` and `ahead` belongs to an abbreviation."""
        before = _compact(before)
        ahead = _compact(ahead)
        for edge in _EDGE.finditer(before):
            word = before[edge.end() :]
            if word in self._words or ahead.startswith(self._rests.get(word, ())):
                return True
        return False


def checked_abbreviations(words: Iterable[str], source: str = "abbreviations") -> tuple[str, ...]:
    """Return sorted abbreviations without their final stop.

    Raises InputError for an invalid one.
    """
    checked = set()
    for word in words:
        bare = " ".join(str(word).split()).removesuffix(".")
        if len(bare) > MAX_CHARACTERS or not _ABBREVIATION.fullmatch(bare):
            raise InputError(f"{source}: {word!r:.80} is not an abbreviation", hint=_HINT)
        checked.add(bare)
    return tuple(sorted(checked))


def read_abbreviations(value: object) -> tuple[str, ...]:
    """Return the abbreviations in a list or in a file of one a line. Raises InputError."""
    if value is None:
        return ()
    if isinstance(value, str | PathLike):
        return _read_abbreviation_file(Path(value))
    if isinstance(value, Iterable):
        return checked_abbreviations(value)
    name = option_name("abbreviations")
    raise InputError(f"{name} must be a list of words or the name of a file, got {value!r:.80}")


def _read_abbreviation_file(file: Path) -> tuple[str, ...]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a UTF-8 file of abbreviations"
        raise InputError(f"{file} cannot be read: {error}", hint=hint) from error
    words: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if word:
            words.update(checked_abbreviations([word], f"{file}:{number}"))
    if not words:
        raise InputError(f"{file} contains no abbreviation", hint=_HINT)
    return tuple(sorted(words))


def _compact(text: str) -> str:
    return _STOP_AND_SPACE.sub(".", text)


_FOLDER = Path(__file__).parent / "abbreviations"
ANY_LANGUAGE = "xx"
_FALLBACK = "en"
_STOPS = {"el": ";", "grc": ";"}
_ORDINALS = "cs da de et eu fi fo fr hr hu is lb lt lv nb nn sk sl sr tr"
# "Art." is a noun and "art." an abbreviation, except at the start of a sentence.
_CAPITAL_NOUNS = ("de", "lb")
_DOTTED_ENDS = "en es fr it nl pt"
_ELIDES = "ca fr it lij oc pt"
_UNKNOWN_LETTERS = {"en": 3}


@dataclass(frozen=True)
class Conventions:
    """Tables for the rules: abbreviations without their final stop, other words in lower case."""

    starters: frozenset[str] = frozenset()  # function words and openers
    never_ends: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    often_ends: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    after_unit: frozenset[str] = frozenset()
    lettered: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    # With the function words. If it is empty, every capital may be an initial.
    before_initial: frozenset[str] = frozenset()
    verb_endings: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    particles: frozenset[str] = frozenset()
    ordinals: bool = False  # a number with a full stop is an ordinal: "am 3. Oktober"
    # Unlisted lower-case letters with stops ("p.a.") end a sentence before any capital.
    dotted_ends: bool = False
    elides: bool = False  # an apostrophe joins articles to nouns: "l'art. 8"
    unknown_letters: int = 0  # longest unlisted abbreviation before a lower-case word
    stops: str = ""  # in addition to the stops of all languages
    user_abbreviations: UserAbbreviations | None = None


def languages() -> tuple[str, ...]:
    codes = {file.stem for file in _FOLDER.glob("*.toml")}
    return tuple(sorted(codes - {ANY_LANGUAGE}))


@cache
def _groups(language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def load_words(language: str, group: str) -> frozenset[str]:
    """Return the words of a group in the file of a language."""
    words: set[str] = set()
    for entry in _groups(language).get(group, ()):
        words.update(entry["words"].split())
    return frozenset(words)


def load_conventions(
    language: str,
    stop_words: Iterable[str],
    exceptions: Iterable[str],
    abbreviations: Sequence[str] = (),
) -> Conventions:
    """Return the tables for a language.

    `stop_words` and `exceptions` are those of spaCy's tokenizer, `abbreviations` the user's own.
    """
    has_table = language in languages()
    table = language if has_table else _FALLBACK

    def group(name: str) -> frozenset[str]:
        return load_words(table, name) | load_words(ANY_LANGUAGE, name)

    function_words = frozenset(word.lower() for word in stop_words if word.isalpha())
    may_end = group("may_end") | _words_before_stop(exceptions)
    if language not in _CAPITAL_NOUNS:
        may_end = add_capitals(may_end)
    before_initial: frozenset[str] = frozenset()
    if has_table:
        before_initial = group("before_initial")
    if before_initial:
        before_initial |= function_words - group("before_label")
    return Conventions(
        starters=function_words - group("not_openers") | group("openers"),
        never_ends=add_capitals(group("never_ends")),
        before_number=add_capitals(group("before_number"), capitals=True),
        may_end=may_end,
        often_ends=add_capitals(group("often_ends"), capitals=True),
        units=group("units"),
        after_unit=group("after_unit"),
        lettered=group("lettered"),
        valued=group("valued"),
        particles=group("particles"),
        endings=tuple(sorted(group("endings"))),
        before_initial=before_initial,
        verb_endings=tuple(sorted(group("verb_endings"))),
        ordinals=language in _ORDINALS.split(),
        dotted_ends=language in _DOTTED_ENDS.split(),
        elides=language in _ELIDES.split(),
        unknown_letters=_UNKNOWN_LETTERS.get(table, 6),
        stops=_STOPS.get(language, ""),
        user_abbreviations=UserAbbreviations(abbreviations) if abbreviations else None,
    )


def _words_before_stop(exceptions: Iterable[str]) -> frozenset[str]:
    """Return the tokens with a final stop, without it.

    Single letters are initials, and left out.
    """
    words = set()
    for token in exceptions:
        if token.endswith(".") and len(token.rstrip(".")) > 1:
            words.add(token[:-1])
    return frozenset(words)


_MAX_TEXTS = 200
_MAX_SAMPLE = 50_000  # characters
_MIN_LETTERS = 100
_MIN_WORDS = 30
_MIN_HITS = 8
_MIN_SHARE = 0.15  # of words that only the other language has as function words
_MIN_RATIO = 4  # to function words that only this language has
_MAJORITY = 0.6
_KANA = 0.05  # share of kana that makes Chinese characters Japanese
_WORD = re.compile(r"[^\W\d_]{2,}")

# With `frequent` words.
_LATIN = ("cs", "da", "de", "en", "es", "fr", "it", "nb", "nl", "pl", "pt", "sv")
_SCRIPTS = {
    "ARABIC": ["ar", "fa", "ug", "ur"],
    "ARMENIAN": ["hy"],
    "BENGALI": ["bn"],
    "CJK": ["zh", "ja"],
    "CYRILLIC": ["ru", "bg", "ky", "mk", "sr", "tt", "uk"],
    "DEVANAGARI": ["hi", "mr", "ne", "sa"],
    "ETHIOPIC": ["am", "ti"],
    "GEORGIAN": ["ka"],
    "GREEK": ["el", "grc"],
    "GUJARATI": ["gu"],
    "HANGUL": ["ko"],
    "HEBREW": ["he"],
    "KANA": ["ja"],
    "KANNADA": ["kn"],
    "MALAYALAM": ["ml"],
    "SINHALA": ["si"],
    "TAMIL": ["ta"],
    "TELUGU": ["te"],
    "THAI": ["th"],
    "TIBETAN": ["bo"],
}
"""Unicode script names with spaCy's language codes, the most spoken first."""
_WITHOUT_LATIN = {code for codes in _SCRIPTS.values() for code in codes} - {"sr"}
"""Languages that are not written in Latin letters. Serbian is written in both."""


def language_warning(texts: Sequence[str], language: str) -> str | None:
    """Return a warning that the texts are in another language, or None if `language` is likely."""
    codes = likely_languages(texts, language)
    if not codes:
        return None
    likely = codes[0]
    looks_like = likely
    if len(codes) > 1:
        looks_like = f"{likely} (or {', '.join(codes[1:])})"
    return (
        f"the texts look like language {looks_like}, and {option_name('language')} is {language}: "
        f"sentences may be cut wrongly; use {option('language', likely)}"
    )


def likely_languages(texts: Sequence[str], language: str) -> list[str]:
    """Return other likely languages of the texts, the most spoken first, or [] if it is `language`.

    Compares scripts and function words in 50,000 characters, spread over all texts.
    """
    if language == ANY_LANGUAGE:
        return []
    step = math.ceil(len(texts) / _MAX_TEXTS) or 1
    chosen = texts[::step]
    sample = "\n".join(text[: _MAX_SAMPLE // len(chosen)] for text in chosen)
    return _languages_by_script(sample, language) or _languages_by_words(sample, language)


def _languages_by_script(sample: str, language: str) -> list[str]:
    """Return the languages of the script of most letters, or [] if `language` is one of them."""
    letters: Counter[str] = Counter()
    for sign in sample:
        if sign.isalpha():
            script = unicodedata.name(sign, "").partition(" ")[0]
            letters[script] += 1
    total = letters.total()
    if total < _MIN_LETTERS:
        return []
    letters["KANA"] = letters.pop("HIRAGANA", 0) + letters.pop("KATAKANA", 0)
    if letters["KANA"] >= _KANA * total:
        letters["KANA"] += letters.pop("CJK", 0)
    script, count = letters.most_common(1)[0]
    codes = _SCRIPTS.get(script, [])
    if count < _MAJORITY * total or language in codes:
        return []
    return codes


def _languages_by_words(sample: str, language: str) -> list[str]:
    """Return the language in Latin letters with the most function words in the sample, or []."""
    words = Counter(word.lower() for word in _WORD.findall(sample))
    if words.total() < _MIN_WORDS:
        return []
    frequent: frozenset[str] = frozenset()
    if language not in _WITHOUT_LATIN:
        if language not in _LATIN:  # its function words are not known
            return []
        frequent = load_words(language, "frequent")

    def count(group: frozenset[str]) -> int:
        return sum(words[word] for word in group)

    others = [code for code in _LATIN if code != language]
    likely = max(others, key=lambda code: count(load_words(code, "frequent")))
    likely_frequent = load_words(likely, "frequent")
    hits = count(likely_frequent - frequent)
    counter_hits = count(frequent - likely_frequent)
    if hits < max(_MIN_HITS, _MIN_SHARE * words.total(), _MIN_RATIO * counter_hits):
        return []
    return [likely]
