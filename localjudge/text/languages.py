"""Conventions of each language for abbreviations, units, ordinals and sentence starts, and language detection.

A full stop after an abbreviation ends the sentence only if a capitalised *function word* follows ("The", "She", "Ich"):
any other capitalised word may be a name. The word lists are in `abbreviations/`, one file per language and `xx.toml`
for all. Words are listed without their final full stop, in groups:

    never_ends     the sentence always continues                      "Dr. Watson", "z.B. Kupfer"
    before_number  an abbreviation only before a number or a letter   "Fig. 3", "lit. b"
    may_end        ends a sentence before a function word             "Acme Ltd. They", "die Pat. klagt"
    often_ends     ends a sentence before any capitalised word        "etc. Toyota", "b.i.d. Stop"
    units          after a number, ends one before any capital        "4 g. Take", "12 mmHg. Chest"
    after_unit     never starts a sentence after a unit               "5 mg. IV"
    lettered       a following letter or number belongs to it         "Vitamin K. Vitamin C.", "Anlage C."
    before_initial never take a letter as a label                     "by J. Smith", "novelist J. Smith"
    before_label   function words that do                             "written in C. Next"
    verb_endings   of words that never take a letter as a label       "invited J. Smith"
    valued         a following number is a value, not an ordinal      "Puls 72. Lunge frei."
    endings        abbreviated last parts of compound words           "Hauptstr. 5"
    particles      may begin a surname after an initial               "J. De Vries"
    openers        begin sentences, although they are not stop words
    not_openers    stop words that occur in names                     "U.S. First Lady"
    frequent       function words that identify the language in `misfit`

Function words are spaCy's stop words for the language. spaCy's tokenizer exceptions with a final stop count as
`may_end`. A user-defined abbreviation never ends a sentence: "Pat.", "PAT.", "n. Chr.", "n.Chr.".
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
    """Return the words as written, capitalised ("Etc") and, with `capitals`, in upper case ("ETC")."""
    words = list(words)
    capitalised = (word[0].upper() + word[1:] for word in words if len(word) > 1)
    upper = (word.upper() for word in words if capitals and len(word) > 1 and "." not in word)
    return frozenset([*words, *capitalised, *upper])


MOST_CHARACTERS = 40  # of an abbreviation

_PART = r"[\w'’&/°-]+"
_ABBREVIATION = re.compile(rf"(?=.*[^\W\d_])(?:{_PART}\.\s?)*{_PART}")
_HINT = "write one abbreviation per line, such as Pat. or n. Chr.; a # begins a comment"
_STOP_AND_SPACE = re.compile(r"\.\s+")
_EDGE = re.compile(r"\b(?=\w)")


class UserAbbreviations:
    """User-defined abbreviations, looked up at each full stop inside or after them."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = written((_compact(word) for word in words), capitals=True)
        self._rests: dict[str, tuple[str, ...]] = {}
        for word in self._words:
            for stop in re.finditer(r"\.", word):
                start = word[: stop.start()]
                self._rests[start] = (*self._rests.get(start, ()), word[stop.end() :] + ".")

    def covers(self, before: str, ahead: str) -> bool:
        """Return whether the stop between `before` and `ahead` belongs to an abbreviation."""
        before, ahead = _compact(before), _compact(ahead)
        words = (before[edge.end() :] for edge in _EDGE.finditer(before))
        return any(word in self._words or ahead.startswith(self._rests.get(word, ())) for word in words)


def checked_abbreviations(words: Iterable[str], source: str = "abbreviations") -> tuple[str, ...]:
    """Return sorted abbreviations without their final stop. Raises InputError for an invalid one."""
    checked = set()
    for word in words:
        bare = " ".join(str(word).split()).removesuffix(".")
        if len(bare) > MOST_CHARACTERS or not _ABBREVIATION.fullmatch(bare):
            raise InputError(f"{source}: {word!r:.80} is not an abbreviation", hint=_HINT)
        checked.add(bare)
    return tuple(sorted(checked))


def abbreviations_of(value: object) -> tuple[str, ...]:
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
        raise InputError(f"{value} contains no abbreviation", hint=_HINT)
    return tuple(sorted(words))


def _compact(text: str) -> str:
    return _STOP_AND_SPACE.sub(".", text)


_FOLDER = Path(__file__).parent / "abbreviations"
ANY_LANGUAGE = "xx"
_FALLBACK = "en"
_STOPS = {"el": ";", "grc": ";"}
_ORDINALS = "cs da de et eu fi fo fr hr hu is lb lt lv nb nn sk sl sr tr"
_CAPITAL_NOUNS = ("de", "lb")  # "Art." is a noun and "art." an abbreviation, except at the start of a sentence
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
    before_initial: frozenset[str] = frozenset()  # with the function words; empty: every capital may be an initial
    verb_endings: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    particles: frozenset[str] = frozenset()
    ordinals: bool = False  # a number with a full stop is an ordinal: "am 3. Oktober"
    dotted_ends: bool = False  # unlisted lower-case letters with stops ("p.a.") end a sentence before any capital
    elides: bool = False  # an apostrophe joins articles to nouns: "l'art. 8"
    unknown_letters: int = 0  # longest unlisted abbreviation before a lower-case word
    stops: str = ""  # in addition to the stops of all languages
    user_abbreviations: UserAbbreviations | None = None


def languages() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml") if file.stem != ANY_LANGUAGE))


@cache
def _groups(language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def words_of(language: str, group: str) -> frozenset[str]:
    return frozenset(word for entry in _groups(language).get(group, ()) for word in entry["words"].split())


def conventions_of(
    language: str, stop_words: Iterable[str], exceptions: Iterable[str], abbreviations: Sequence[str] = ()
) -> Conventions:
    table = language if language in languages() else _FALLBACK

    def group(name: str) -> frozenset[str]:
        return words_of(table, name) | words_of(ANY_LANGUAGE, name)

    stopped = (word[:-1] for word in exceptions if word.endswith(".") and len(word.rstrip(".")) > 1)
    may_end = {*group("may_end"), *stopped}
    starters = {word.lower() for word in stop_words if word.isalpha()}
    before_initial = group("before_initial") if table == language else frozenset[str]()
    if before_initial:
        before_initial |= starters - group("before_label")
    plain = ("units", "after_unit", "lettered", "valued", "particles")
    return Conventions(
        **{name: group(name) for name in plain},
        starters=frozenset(starters) - group("not_openers") | group("openers"),
        never_ends=written(group("never_ends")),
        before_number=written(group("before_number"), capitals=True),
        may_end=frozenset(may_end) if language in _CAPITAL_NOUNS else written(may_end),
        often_ends=written(group("often_ends"), capitals=True),
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


_MOST_TEXTS = 200
_MOST_CHARACTERS = 50_000
_MIN_LETTERS = 100
_MIN_WORDS = 30
_MIN_HITS = 8
_MIN_SHARE = 0.15  # least share of words that only the other language has as function words
_TIMES = 4  # least ratio to function words that only this language has
_MAJORITY = 0.6
_KANA = 0.05  # share of kana that makes Chinese characters Japanese
_WORD = re.compile(r"[^\W\d_]{2,}")

_LATIN = ("cs", "da", "de", "en", "es", "fr", "it", "nb", "nl", "pl", "pt", "sv")  # with `frequent` words
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
"""Unicode script names with spaCy's language codes, the most spoken first."""


def misfit(texts: Sequence[str], language: str) -> str | None:
    """Return a warning that the texts are in another language, or None if `language` is plausible."""
    codes = likely_languages(texts, language)
    if not codes:
        return None
    likely, *others = codes
    or_other = f" (or {', '.join(others)})" if others else ""
    return (
        f"the texts look like language {likely}{or_other}, and {option_name('language')} is {language}: "
        f"sentences may be cut wrongly; use {option('language', likely)}"
    )


def likely_languages(texts: Sequence[str], language: str) -> list[str]:
    """Return other likely languages of the texts, the most spoken first, or [] if `language` is plausible.

    Compares scripts and function words in 50,000 characters, spread over all texts.
    """
    if language == ANY_LANGUAGE:
        return []
    chosen = texts[:: -(-len(texts) // _MOST_TEXTS) or 1]
    sample = "\n".join(text[: _MOST_CHARACTERS // len(chosen)] for text in chosen)
    return _by_script(sample, language) or _by_words(sample, language)


def _by_script(sample: str, language: str) -> list[str]:
    letters = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in sample if letter.isalpha())
    total = letters.total()
    letters["KANA"] = letters.pop("HIRAGANA", 0) + letters.pop("KATAKANA", 0)
    if letters["KANA"] >= _KANA * total:
        letters["KANA"] += letters.pop("CJK", 0)
    script, count = max(letters.items(), key=lambda item: item[1])
    codes = _SCRIPTS.get(script, [])
    return [] if total < _MIN_LETTERS or count < _MAJORITY * total or language in codes else codes


def _by_words(sample: str, language: str) -> list[str]:
    words = Counter(word.lower() for word in _WORD.findall(sample))
    is_latin = language == "sr" or not any(language in codes for codes in _SCRIPTS.values())
    if words.total() < _MIN_WORDS or (is_latin and language not in _LATIN):
        return []
    frequent = words_of(language, "frequent") if is_latin else frozenset()

    def count(group: frozenset[str]) -> int:
        return sum(words[word] for word in group)

    others = {code: words_of(code, "frequent") for code in _LATIN if code != language}
    code = max(others, key=lambda code: count(others[code]))
    least = max(_MIN_HITS, _MIN_SHARE * words.total(), _TIMES * count(frequent - others[code]))
    return [code] if count(others[code] - frequent) >= least else []
