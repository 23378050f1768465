"""Abbreviations of the user: read, checked, and looked up at a full stop.

    Pat.        covers the stops of "Pat. 7", "PAT. 7"
    n. Chr.     covers both stops of "44 n. Chr. starb er", "44 n.Chr. starb er"

None of these stops ends a sentence.
"""

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from localjudge.errors import InputError
from localjudge.words import option_name

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
