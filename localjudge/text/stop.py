"""A full stop, or a run of stops, and its surroundings: what the rules read."""

import re
from collections.abc import Callable
from typing import NamedTuple

from localjudge.text.conventions import Conventions

LATIN_STOPS = ".!?…"

_ELIDED = re.compile(r"[^\W\d_]{1,6}['’](?=\w)")


class Stop(NamedTuple):
    """A full stop, or a run of stops, and its surroundings."""

    mark: str
    """The stops, without what closes with them."""
    closed: str
    """Closing quotes and brackets after (and between) the stops."""
    gap: str
    """White space up to the next sentence."""
    before: str
    """What stands before the word in this sentence, as far as it is looked at."""
    word: str
    """What the stop is written at, back to white space or an opening bracket."""
    next: str
    """The next word; with its full stop, if it is an initial."""
    follower: str
    """The character right after the gap."""
    sentence: tuple[int, int]
    """Where the sentence so far begins and the stop stands."""
    ahead: str
    """The text from the next word on, as far as it is looked at."""
    unbroken: tuple[str, str]
    """With no gap, the characters up to the white space on both sides: left of the stop, right of what closes it."""


Rule = Callable[[Stop, Conventions, str], bool | None]
"""Whether a stop ends its sentence; None where the rule has no opinion."""


def without_article(word: str, conventions: Conventions) -> str:
    """A word without the article that an apostrophe joins to it in some languages: "l'art" and "dell'art" are "art"."""
    return _ELIDED.sub("", word, count=1) if conventions.elides else word


def after_next(stop: Stop) -> str:
    """What stands right after the next word."""
    return stop.ahead[len(stop.next) :]


def is_capital(word: str) -> bool:
    """Whether a word is written as a name or as the first of a sentence: "The", "iPhone", and any caseless script.

    Georgian letters count as small ones in Unicode, but the script has no capitals in use.
    """
    return not word.islower() or "ა" <= word[0] <= "ჿ"


def is_starter(stop: Stop, conventions: Conventions) -> bool:
    """Whether the next word is a capitalised function word."""
    word = stop.next
    return is_capital(word) and re.split(r"['’]", word, maxsplit=1)[0].lower() in conventions.starters
