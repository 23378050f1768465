"""What the surroundings of a stop, and the stop itself, say about the end of a sentence: rules in their order."""

import re

from localjudge.text.conventions import Conventions
from localjudge.text.lists import MARKER
from localjudge.text.stop import LATIN_STOPS, Rule, Stop, is_capital, is_starter

_PLAIN = re.compile(r"[^\W\d_]{2,}$")
_LABEL = re.compile(r"(?P<word>[^\W\d_]+) \d{1,3}(?:\.\d+)*")
_RUN_ON = re.compile(r"(?:[A-Z][a-z’']+|[IA])(?=[\s,;:.!?'’]|$)")
_NOT_RUN_ON = re.compile(r"com|net|org|edu|gov|info|io|co|uk|de|fr|eu|js|py|ts|md|txt|doc", re.IGNORECASE)
"""What is written with a stop before it, in names of hosts and files."""
_ADDRESS = re.compile(r"[/\\@=&_<>|{}#%+~`]")
_QUOTING = "とっとでなのをにがはもへ、"
"""What goes on with a Japanese sentence after a quotation: "「はい。」と言った"."""
_OPENING = " \t\"'“‘«„([{*_-–—"

_WINDOW = 40
"""Characters of a sentence so far that can be no more than a list marker or an opening."""


def goes_on(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A comma, a colon or a closing bracket after the stop goes on with the sentence: "et al., 2015"."""
    return False if stop.follower in ",;:)]}、，；：،؛" else None


def first(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Stops that a sentence begins with do not end it: "... and then"."""
    begin, end = stop.sentence
    return None if text[begin : min(end, begin + _WINDOW)].strip(_OPENING) else False


def list_marker(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """What stands before the stop is only the number or letter of a list item, or a label: "1. First", "Step 2. Go"."""
    begin, end = stop.sentence
    if end - begin > _WINDOW:
        return None
    so_far = text[begin:end]
    label = _LABEL.fullmatch(so_far)
    is_label = label and label["word"][0].isupper() and label["word"].lower() in conventions.lettered
    return False if is_label or MARKER.fullmatch(so_far + ".") else None


def own_stop(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A stop of another script has no second meaning; but a Japanese quotation may go on: "「はい。」と言った"."""
    if stop.mark[-1] in LATIN_STOPS:
        return None
    if stop.mark == "．" and stop.follower.isdigit() and not stop.gap:
        return False
    return not (stop.closed and not stop.gap and stop.follower in _QUOTING)


def run_on(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """With no space, only a whole word on both sides makes a stop: "the end.Then", not "node.Js" or "a.b/C"."""
    if stop.gap:
        return None
    if _ADDRESS.search("".join(stop.unbroken)) or not stop.follower.isalpha():
        return False
    if stop.closed:
        return stop.closed[-1] not in "'’*_`" and stop.follower.isupper()
    if "?" in stop.mark or "!" in stop.mark:
        return bool(_PLAIN.search(stop.word))
    if len(stop.mark) > 1 or stop.mark == "…":
        return stop.follower.isupper() and stop.next.split("'")[0] != "I"
    return _is_run_on_word(stop, conventions)


def _is_run_on_word(stop: Stop, conventions: Conventions) -> bool:
    if not _RUN_ON.match(stop.next) or _NOT_RUN_ON.fullmatch(stop.next):
        return False
    rest = stop.unbroken[1].removeprefix(stop.next)
    if rest[:1] not in ("", *".,;:!?'’") or "(" in rest:
        return False
    if stop.word.islower() and _PLAIN.fullmatch(stop.word):
        return True
    return is_starter(stop, conventions) or stop.next in conventions.never_ends


def second_stop(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A stop after the closing bracket of an abbreviation is one more: "(pears, etc.). Then"."""
    return True if "." in stop.closed else None


def ellipsis(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """Dots end a sentence before a capital; three dots not before "I", which is always one."""
    dots = stop.mark.count(".") + len("...") * stop.mark.count("…")
    if "!" in stop.mark or "?" in stop.mark or dots == 1:
        return None
    if dots == len(".."):
        return is_capital(stop.next)
    return is_capital(stop.next) and re.split(r"['’]", stop.next, maxsplit=1)[0] != "I"


def exclamation(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A "!" or "?" ends a sentence, but not in a quotation that the sentence goes on with, nor in "Yahoo!"."""
    if "!" not in stop.mark and "?" not in stop.mark:
        return None
    if stop.word in conventions.exclaiming and len(stop.mark) == 1:
        return is_starter(stop, conventions)
    return is_capital(stop.next) or not stop.closed


def quoted(stop: Stop, conventions: Conventions, text: str) -> bool | None:
    """A small letter after a closing quote or bracket goes on with the sentence."""
    return False if stop.closed and not is_capital(stop.next) else None


SURROUNDINGS: tuple[Rule, ...] = (
    goes_on,
    first,
    list_marker,
    own_stop,
    run_on,
    second_stop,
    ellipsis,
    exclamation,
    quoted,
)
