"""Abbreviations of a user, and the words of each language: units, ordinals, sentence starts.

A full stop after an abbreviation ends the sentence only if a capitalised *function word* follows
("The", "She", "Ich"): any other capitalised word may be a name. The word lists are in
`abbreviations/`, one file per language and `xx.toml` for all. Words are listed without their final
full stop, in groups:

    never_ends     the sentence always continues                      "Dr. Watson", "z.B. Kupfer"
    before_number  an abbreviation only before a number or a letter   "Fig. 3", "lit. b"
    attached       a number may follow its stop without a space      "Fig.3", "file.1"
    may_end        ends a sentence before a function word             "Acme Ltd. They"
    often_ends     ends a sentence before any capitalised word        "etc. Toyota", "b.i.d. Stop"
    units          after a number, ends one before any capital        "4 g. Take", "12 mmHg. Chest"
    after_unit     never starts a sentence after a unit               "5 mg. IV"
    lettered       a following letter or number belongs to it         "Vitamin K. Vitamin C."
    before_initial never take a letter as a label                     "by J. Smith"
    before_label   function words that do                             "written in C. Next"
    verb_endings   of words that never take a letter as a label       "invited J. Smith"
    clauses        a following Roman number belongs to it            "Article II. The buyer pays."
    valued         a following number is a value, not an ordinal      "Puls 72. Lunge frei."
    endings        abbreviated last parts of compound words           "Hauptstr. 5"
    particles      may begin a surname after an initial               "J. De Vries"
    openers        begin sentences, although they are not stop words
    not_openers    stop words that occur in names                     "U.S. First Lady"
    final_words    end a sentence by a full stop beside a danda      "है."
    only_openers   begin sentences, in place of all stop words       "ثم"
    after_formula  go on with the sentence of a displayed formula    "其中"
    frequent       function words that identify the language of texts

`xx.toml` also has the words of the rules for quotations, citation marks and lists of sources; "_"
stands for a space in them.

Function words are spaCy's stop words for the language. spaCy's tokenizer exceptions with a final
stop count as `may_end`.

No stop of an abbreviation of the user ends a sentence:

    Pat.        covers the stops of "Pat. 7", "PAT. 7"
    n. Chr.     covers both stops of "44 n. Chr. starb er", "44 n.Chr. starb er"
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

from localjudge.errors import InputError
from localjudge.words import option_name

ANY_LANGUAGE = "xx"
_FOLDER = Path(__file__).parent / "abbreviations"
_FALLBACK = "en"
HABITS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("languages.toml").read_text(encoding="utf-8")
)
"""What differs between languages, besides their words."""
MAX_CHARACTERS = 40
"""Most characters of an abbreviation."""
_PART = r"[\w'’&/°-]+"
_ABBREVIATION = re.compile(rf"(?=.*[^\W\d_])(?:{_PART}\.\s?)*{_PART}")
_HINT = "write one abbreviation per line, such as Pat. or n. Chr.; a # begins a comment"
_STOP_AND_SPACE = re.compile(r"\.\s+")
_EDGE = re.compile(r"\b(?=\w)")


StopsInWords = Mapping[str, tuple[str, ...]]
"""Texts that may follow each stop of abbreviations, by the part before the stop.

    n. Chr.     {"n": ("Chr.",), "n.Chr": ("",)}
"""


@dataclass(frozen=True)
class Conventions:
    """Tables for the rules: abbreviations without their final stop, other words in lower case."""

    starters: frozenset[str] = frozenset()
    """Function words and openers."""
    never_ends: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    often_ends: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    after_unit: frozenset[str] = frozenset()
    lettered: frozenset[str] = frozenset()
    clauses: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    before_initial: frozenset[str] = frozenset()
    """With the function words. If it is empty, every capital may be an initial."""
    verb_endings: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    particles: frozenset[str] = frozenset()
    final_words: frozenset[str] = frozenset()
    after_formula: frozenset[str] = frozenset()
    ordinals: bool = False
    """Whether a number with a full stop is an ordinal: "am 3. Oktober"."""
    dotted_ends: bool = False
    """Whether unlisted lower-case letters with stops ("p.a.") end a sentence before any capital."""
    elides: bool = False
    """Whether an apostrophe joins articles to nouns: "l'art. 8"."""
    unknown_letters: int = 0
    """Most letters of an unlisted abbreviation before a lower-case word."""
    stops: str = ""
    """Stops in addition to the stops of all languages."""
    user_abbreviations: StopsInWords = field(default_factory=dict)


def languages() -> tuple[str, ...]:
    """Return the languages that have word lists."""
    codes = {file.stem for file in _FOLDER.glob("*.toml")}
    return tuple(sorted(codes - {ANY_LANGUAGE}))


def load_conventions(
    language: str,
    stop_words: Iterable[str],
    exceptions: Iterable[str],
    abbreviations: Sequence[str],
) -> Conventions:
    """Return the tables for a language.

    `stop_words` and `exceptions` are from spaCy's tokenizer, `abbreviations` from the user.
    """
    table = _FALLBACK
    if language in languages():
        table = language
    group = partial(_load_group, table)
    function_words = frozenset(word.lower() for word in stop_words if word.isalpha())
    may_end = group("may_end") | _words_before_stop(exceptions)
    if language not in HABITS["capital_nouns"]:
        may_end = add_capitals(may_end)
    starters = load_words(table, "only_openers")
    if not starters:
        starters = function_words - group("not_openers") | group("openers")
    return Conventions(
        starters=starters,
        never_ends=add_capitals(group("never_ends")),
        before_number=add_capitals(group("before_number"), capitals=True),
        may_end=may_end,
        often_ends=add_capitals(group("often_ends"), capitals=True),
        units=group("units"),
        after_unit=group("after_unit"),
        lettered=group("lettered"),
        clauses=group("clauses"),
        valued=group("valued"),
        particles=group("particles"),
        endings=tuple(sorted(group("endings"))),
        before_initial=_words_before_initial(language, function_words),
        verb_endings=tuple(sorted(group("verb_endings"))),
        final_words=group("final_words"),
        after_formula=group("after_formula"),
        ordinals=language in HABITS["ordinals"],
        dotted_ends=language in HABITS["dotted_ends"],
        elides=language in HABITS["elides"],
        unknown_letters=HABITS["unknown_letters_of"].get(table, HABITS["unknown_letters"]),
        stops=HABITS["stops"].get(language, ""),
        user_abbreviations=find_stops_in_words(abbreviations),
    )


def _load_group(table: str, name: str) -> frozenset[str]:
    """Return the words of a group in the files of a language and of all languages."""
    words = load_words(table, name) | load_words(ANY_LANGUAGE, name)
    if table in HABITS["beside_english"]:
        words |= load_words(_FALLBACK, name)
    return words


def _words_before_initial(language: str, function_words: frozenset[str]) -> frozenset[str]:
    """Return the words before initials, or none for a language without a list of them."""
    if language not in languages():
        return frozenset()
    listed = load_words(language, "before_initial")
    if not listed:
        return frozenset()
    return listed | (function_words - _load_group(language, "before_label"))


@cache
def load_words(language: str, group: str) -> frozenset[str]:
    """Return the words of a group in the file of a language."""
    words: set[str] = set()
    for entry in _groups(language).get(group, ()):
        words.update(entry["words"].split())
    return frozenset(words)


def any_of(group: str) -> str:
    """Return a pattern of the words of a group in the file of all languages, the longest first."""
    words = load_words(ANY_LANGUAGE, group)
    ordered = sorted(words, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word.replace("_", " ")) for word in ordered)


@cache
def _groups(language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def _words_before_stop(exceptions: Iterable[str]) -> frozenset[str]:
    """Return the tokens with a final stop, without it, and without single letters (initials)."""
    words = set()
    for token in exceptions:
        if token.endswith(".") and len(token.rstrip(".")) > 1:
            words.add(token[:-1])
    return frozenset(words)


def find_stops_in_words(words: Iterable[str]) -> StopsInWords:
    """Return the stops inside and after abbreviations, also of capitalised ones."""
    stops: dict[str, tuple[str, ...]] = {}
    for word in add_capitals((_compact(word) for word in words), capitals=True):
        stops[word] = (*stops.get(word, ()), "")
        for stop in re.finditer(r"\.", word):
            start = word[: stop.start()]
            rest = word[stop.end() :] + "."
            stops[start] = (*stops.get(start, ()), rest)
    return stops


def belongs_to_word(stops: StopsInWords, before: str, ahead: str) -> bool:
    """Return whether the stop between `before` and `ahead` belongs to an abbreviation."""
    before = _compact(before)
    ahead = _compact(ahead)
    for edge in _EDGE.finditer(before):
        word = before[edge.end() :]
        if ahead.startswith(stops.get(word, ())):
            return True
    return False


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
