"""Abbreviations of one's own: words whose full stop does not end a sentence, whatever follows.

    Pat.            with or without its stop; also "PAT." and, of a word in small letters, "Pat."
    n. Chr.         several parts, with or without the space between them
    Kfm    # trade  a "#" begins a comment

A blank line, a list item or a heading still ends the sentence before it.
"""

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from localjudge.errors import UsageError
from localjudge.option_spelling import option_name
from localjudge.text.capitals import written

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
    """Abbreviations without their last stop, each once and in order. Raises UsageError for what is not one."""
    found = set()
    for word in words:
        bare = " ".join(str(word).split()).removesuffix(".")
        if len(bare) > MOST_CHARACTERS or not _ABBREVIATION.fullmatch(bare):
            raise UsageError(f"{source}: {word!r:.80} is not an abbreviation", hint=_HINT)
        found.add(bare)
    return tuple(sorted(found))


def abbreviations_of(given: object) -> tuple[str, ...]:
    """Abbreviations from the name of a file, or from words. Raises UsageError for what is neither."""
    if given is None:
        return ()
    if isinstance(given, str | PathLike):
        return read_abbreviations(given)
    if not isinstance(given, Iterable):
        name = option_name("abbreviations")
        raise UsageError(f"{name} must be a list of words or the name of a file, got {given!r:.80}")
    return checked_abbreviations(given)


def read_abbreviations(file: str | PathLike[str]) -> tuple[str, ...]:
    """Abbreviations of a UTF-8 file. Raises UsageError, with file and line, if it is not a list of them."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="name a file of abbreviations") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 (byte {error.start})", hint="convert it first") from error
    found: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if word:
            found.update(checked_abbreviations([word], f"{file}:{number}"))
    if not found:
        raise UsageError(f"{file} holds no abbreviation", hint=_HINT)
    return tuple(sorted(found))


def _compact(text: str) -> str:
    """A text without the white space after its stops: "n. Chr" is "n.Chr"."""
    return _STOP_AND_SPACE.sub(".", text)
