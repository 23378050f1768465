"""Full stops, and runs of stops, with their surroundings.

    She met Dr. No (twice.) Then she left.
                         ^ mark "."   word "twice"   closed ")"   next "Then"

One regular expression finds every stop.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from localjudge.text.languages import Conventions
from localjudge.text.lines import Range

LATIN_STOPS = ".!?…"
WINDOW = 40
"""Most characters of a list marker, an opening, or the surroundings of a stop."""
SMILE = (
    r"(?:[:;=][-'^]?[)(\]\[DPpOo|/\\*]+|<3|\^_?\^|[xX]D+"
    r"|[☹☺❤✨\U0001f000-\U0001faff\u200d\ufe0f]+)(?!\w)"
)
_MORE_STOPS = "។៕།༎\u037e"  # Khmer, Tibetan, Greek: missing in spaCy's table
_CLOSING = r"[\"'”’»›)\]}」』）】》〉］｝*_`]|[“‘«](?![^\s\"')\]])"
_PAGES = r":\d+(?:[,–-]\s?\d+)*"  # of a footnote without its mark: "in 1905.:75–76 Then"
_WORD_EDGE = re.compile(r"[\s(\[{\"“«„/—–-]")
_NEXT = re.compile(r"[\W_]{0,12}?(?P<word>[^\W\d_]\.(?!\w)|[^\W_]+(?:['’][^\W_]+)?)")
_OPENING_SIGNS = re.compile(r"(?P<sign>[*_`\"])(?P=sign)*$")
_ELIDED = re.compile(r"[^\W\d_]{1,6}['’](?=\w)")
_STOP_AND_NUMBER = re.compile(r"\.\s?[\d§]")


class Stop(NamedTuple):
    """A full stop, or a run of stops, with its surroundings."""

    mark: str  # the stops
    closed: str  # closing quotes and brackets after (and between) the stops
    gap: str  # white space up to the next sentence
    before: str  # up to 40 characters before the word in this sentence
    word: str  # text before the stop, back to white space or an opening bracket
    next: str  # the next word; with its full stop, if it is an initial
    follower: str  # the character after the gap
    ahead: str  # up to 40 characters from the next word on
    left: str  # up to 40 characters before the stop in this sentence
    right: str  # up to 40 characters after the gap
    begin: int  # offset of the sentence
    end: int  # offset of the stop
    text: str  # the whole text
    conventions: Conventions

    @property
    def after_next(self) -> str:
        return self.ahead[len(self.next) :]

    @property
    def before_capital(self) -> bool:
        """Whether the next word may be a name or start a sentence: "The", "iPhone", and any
        caseless script.
        """
        if not self.next.islower():
            return True
        return "ა" <= self.next[0] <= "ჿ"  # Georgian: lower case in Unicode, no capitals

    @property
    def before_caseless(self) -> bool:
        """Whether the next word is in a script without capitals: Arabic, Hindi, Chinese."""
        first = self.next[:1]
        return first.isalpha() and first.lower() == first.upper()

    @property
    def before_starter(self) -> bool:
        return self.before_capital and self.next_stem.lower() in self.conventions.starters

    @property
    def next_stem(self) -> str:
        """The next word up to an apostrophe."""
        return re.split(r"['’]", self.next, maxsplit=1)[0]

    @property
    def before_number(self) -> bool:
        """Whether a number follows an abbreviation: "Suppl. Fig. 4", "Pub. L. No. 94"."""
        if self.next not in self.conventions.before_number:
            return False
        return _STOP_AND_NUMBER.match(self.after_next) is not None

    @property
    def after_letter(self) -> bool:
        return len(self.word) == 1 and self.word.isalpha()

    @property
    def after_first_word(self) -> bool:
        return self.end - self.begin == len(self.word)


Rule = Callable[[Stop], bool | None]
"""Returns whether a stop ends its sentence, or None if the rule does not apply."""


def stop_pattern(stops: str) -> re.Pattern[str]:
    """Return the pattern of a stop with closing signs, smileys and the gap."""
    signs = "".join(sorted({*stops, *LATIN_STOPS, *_MORE_STOPS}))
    some = f"[{re.escape(signs)}]"
    return re.compile(
        rf"(?P<mark>{some}+(?:[ \u00a0][.!?](?!\w))*)"  # one or several: ". . ."
        rf"(?P<closed>(?:{_CLOSING})*"
        rf"(?:{some}+(?:{_CLOSING})*)*"  # between further stops: ".)."
        r"(?:\s(?:»|[)\]](?!\S)))?)"  # after a space: "non. »"
        rf"(?:{_PAGES})?(?:\s?{SMILE})*"
        r"(?P<gap>\s*)"
    )


def describe_stop(
    text: str,
    piece: Range,
    begin: int,
    match: re.Match[str],
    conventions: Conventions,
) -> Stop:
    """Return a stop with its surroundings.

    `match` is one of `stop_pattern`, `begin` is the start of its sentence.
    """
    start = match.start()
    end = find_end_of_stop(text, piece, match)
    left = text[max(begin, start - WINDOW) : start]
    word = _WORD_EDGE.split(left[left.rfind(" ") + 1 :])[-1]
    next_word = ""
    ahead = ""
    following = _NEXT.match(text, end, piece.end)
    if following:
        next_word = following["word"]
        ahead = text[following.start("word") : min(end + WINDOW, piece.end)]
    return Stop(
        mark=match["mark"],
        closed=text[match.start("closed") : min(end, match.end("closed"))],
        gap=match["gap"],
        before=left[: len(left) - len(word)],
        word=without_article(word.lstrip("'‘’*_`"), conventions),
        next=next_word,
        follower=text[end],
        ahead=ahead,
        left=left,
        right=text[end : end + WINDOW],
        begin=begin,
        end=start,
        text=text,
        conventions=conventions,
    )


def find_end_of_stop(text: str, piece: Range, match: re.Match[str]) -> int:
    """Return the end of a match without signs that open the next sentence: "安全。**剂量**"."""
    signs = _OPENING_SIGNS.search(match["closed"])
    if not signs or match["gap"]:
        return match.end()
    start = match.start("closed") + signs.start()
    is_closing = text.count(signs[0], piece.start, start) % 2 == 1
    if is_closing:
        return match.end()
    return start


def without_article(word: str, conventions: Conventions) -> str:
    """Turn "l'art" and "dell'art" into "art"."""
    if not conventions.elides:
        return word
    return _ELIDED.sub("", word, count=1)
