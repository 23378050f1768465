"""Find sentence starts: at lines, after stops, and after smileys and addresses without a stop.

    She met Dr. No (twice.) Then she left.
              ^ "Dr" is a title: no cut
                         ^ mark "."   closed ")"   next "Then"   cut before "Then"

One regular expression finds every stop. Rules are tried in order, and the first that applies
decides. If none applies, the stop ends the sentence.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from localjudge.text.languages import Conventions
from localjudge.text.lines import MARKER, Range, find_items, split_pieces
from localjudge.text.marks import after_stop_ranges
from localjudge.text.markup import before_opening_tags, blanked, blocks, without_markup
from localjudge.text.user_abbreviations import MAX_CHARACTERS, add_capitals

LATIN_STOPS = ".!?…"

_ELIDED = re.compile(r"[^\W\d_]{1,6}['’](?=\w)")


class _Stop(NamedTuple):
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


_Rule = Callable[[_Stop], bool | None]
"""Returns whether a stop ends its sentence, or None if the rule does not apply."""


def _without_article(word: str, conventions: Conventions) -> str:
    """Turn "l'art" and "dell'art" into "art"."""
    if not conventions.elides:
        return word
    return _ELIDED.sub("", word, count=1)


_PLAIN = re.compile(r"[^\W\d_]{2,}$")
_LABEL = re.compile(r"(?P<word>[^\W\d_]+) \d{1,3}(?:\.\d+)*")
_RUN_ON = re.compile(r"(?:[A-Z][a-z’']+|[IA])(?=[\s,;:.!?'’]|$)")
_HOST_OR_FILE = re.compile(
    r"com|net|org|edu|gov|info|io|co|uk|de|fr|eu|js|py|ts|md|txt|doc",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[/\\@=&_<>|{}#%+~`]")
_QUOTING = "とっとでなのをにがはもへ、"
_SAYING = re.compile(
    r"[^\s。！？，、；：“”「」『』（）]{0,8}?"
    r"(?:说道|说|說|问道|问|問|回答|答道|答|喊道|喊|叫道|叫|道|表示|表明|写道|寫道|指出|补充|補充|解释|解釋|回应|回應|"
    r"言った|言い|言う|言って|話した|話す|答えた|尋ねた|聞いた|叫んだ|述べた|語った|思った|考えた|つぶやいた|書いた)"
    r"(?=[^\w]|$|了|着|他|她|我|你|过|過|、|。)"
)
_OPENING_QUOTE = dict(zip("”’」』》】)）»", "“‘「『《【(（«", strict=True))
_CJK = re.compile(
    r"[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]"
)
_LONE_LETTER = re.compile(r"(?:^|[^A-Za-z])[A-Za-z]$")  # of "D.A.D.A."
_LATIN_RUN = re.compile(r"[A-Za-z0-9.&'’-]+$")
_OPENING = " \t\"'“‘«„([{*_-–—"

_WINDOW = 40  # characters of a list marker or an opening, at most


def _opening_or_comma(stop: _Stop) -> bool | None:
    """Continue before a comma ("et al., 2015") and after opening stops ("...", "1.")."""
    so_far = stop.text[stop.begin : min(stop.end, stop.begin + _WINDOW + 1)]
    if stop.follower in ",;:)]}、，；：،؛" or not so_far[:_WINDOW].strip(_OPENING):
        return False
    if len(so_far) > _WINDOW:
        return None
    if _is_label(so_far, stop.conventions) or MARKER.fullmatch(so_far + "."):
        return False
    return None


def _is_label(text: str, conventions: Conventions) -> bool:
    """Return whether a text is a capitalised label with a number: "Step 2", "Figure 3.1"."""
    label = _LABEL.fullmatch(text)
    if not label:
        return False
    word = label["word"]
    return word[0].isupper() and word.lower() in conventions.lettered


def _other_script(stop: _Stop) -> bool | None:
    """End at a stop of another script, unless a quotation goes on: "「はい。」と言った"."""
    if stop.mark[-1] in LATIN_STOPS:
        return None
    if stop.mark == "．" and stop.follower.isdigit() and not stop.gap:
        return False
    return not (stop.closed and not stop.gap and _quotation_continues(stop))


def _quotation_continues(stop: _Stop) -> bool:
    """Return whether a verb of saying or a particle follows, as in "「はい。」と言った"."""
    if stop.follower in _QUOTING:
        return True
    saying = _SAYING.match(stop.right)
    return saying is not None and not _is_introduced(stop)


def _is_introduced(stop: _Stop) -> bool:
    """Return whether a colon or comma is before the quotation, as in "他说：“你好。”她问"."""
    closing = stop.closed[-1]
    opening = _OPENING_QUOTE.get(closing, closing)
    start = stop.text.rfind(opening, stop.begin, stop.end)
    return start > stop.begin and stop.text[start - 1] in "：:，,、"


def _run_on(stop: _Stop) -> bool | None:
    """Without a space, require a whole word on both sides: "the end.Then", not "node.Js" or
    "a.b/C".
    """
    if stop.gap:
        return None
    left = re.split(r"\s", stop.left)[-1]
    right = re.split(r"\s", stop.right)[0]
    if _ADDRESS.search(left + right) or not stop.follower.isalpha():
        return stop.follower in "¿¡"
    if stop.closed:
        return stop.closed[-1] not in "'’*_`" and stop.follower.isupper()
    if "?" in stop.mark or "!" in stop.mark:
        return bool(_PLAIN.search(stop.word))
    if len(stop.mark) > 1 or stop.mark == "…":
        return stop.follower.isupper() and stop.next.split("'")[0] != "I"
    return _is_run_on_word(stop, right.removeprefix(stop.next))


def _before_cjk(stop: _Stop) -> bool | None:
    """End at a full stop between characters ("软件.然后", "Docker.然后"), but not in "v1.2版本" or
    "U.S.A.的".
    """
    if stop.gap or stop.mark != "." or not _CJK.match(stop.follower):
        return None
    latin = _LATIN_RUN.search(stop.left)
    if not latin:
        return bool(_CJK.search(stop.left[-1:])) or bool(stop.closed)
    word = latin[0]
    before = stop.left[: latin.start()][-1:]
    if "." in word:
        return bool(_PLAIN.search(word))  # "a.txt.请打开"
    if word[-1].isdigit():
        return False
    if len(word) == 1:  # "维生素D.然后", but "J.罗琳" and "乔治·W.布什"
        return bool(_CJK.match(before))
    return word not in stop.conventions.never_ends and word not in stop.conventions.may_end


def _is_run_on_word(stop: _Stop, rest: str) -> bool:
    if not _RUN_ON.match(stop.next) or _HOST_OR_FILE.fullmatch(stop.next):
        return False
    if rest[:1] not in ("", *".,;:!?'’") or "(" in rest or _LONE_LETTER.search(stop.word):
        return False
    if stop.word.islower() and _PLAIN.fullmatch(stop.word):
        return True
    return stop.before_starter or stop.next in stop.conventions.never_ends


def _ellipsis(stop: _Stop) -> bool | None:
    """End at dots before a capital, except at three dots before "I"."""
    if "." in stop.closed:  # "(pears, etc.). Then"
        return True
    dots = stop.mark.count(".") + len("...") * stop.mark.count("…")
    if "!" in stop.mark or "?" in stop.mark or dots == 1:
        return None
    if dots == len(".."):
        return stop.before_capital
    return stop.before_capital and stop.next_stem != "I"


_EXCLAIMING = add_capitals(
    ["Yahoo", "Jeopardy", "Joomla", "Wham", "Oklahoma", "Kahoot"],
    capitals=True,
)


def _exclamation(stop: _Stop) -> bool | None:
    """End at "!" or "?", except in "Yahoo!" and before a lower-case letter after a quote or
    bracket.
    """
    if "!" not in stop.mark and "?" not in stop.mark:
        if stop.closed and not stop.before_capital:
            return False
        return None
    if stop.word in _EXCLAIMING and len(stop.mark) == 1:
        return stop.before_starter
    return stop.before_capital or not stop.closed


_DOTTED = re.compile(r"[^\W\d_]{1,3}\.(?:[^\W_]{1,3}\.)*[^\W\d_]{1,3}")
_CLOCK = re.compile(r"\d*[ap]\.?m", re.IGNORECASE)
_AFTER_CLOCK = re.compile(
    r"[A-Z]{1,2}[SD]?T|GMT|UTC|Eastern|Central|Mountain|Pacific|"
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|"
    r"January|February|March|April|May|June|July|August|September|October|November|December"
)
_MIN_WORDS_BEFORE_CLOCK = 3
_CONSONANTS = re.compile(r"(?![HhMmSs]+\b)[B-DF-HJ-NP-TV-Z]?[b-df-hj-np-tv-xz]{1,4}")
_ROMAN = re.compile(r"[IVXLCDM]+")
_PARTICLE = re.compile(
    r"(?P<particle>[^\W\d_]+)\s(?:(?:de[nr]?|la|las|los|het)\s)?(?P<name>[^\W\d_])",
)
_FIRST_PARTS = re.compile(r"(?:[^\W\d_]{1,4}\.\s)+$")  # of "z. B.", "Dr. med."
_POWER = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_AMOUNT = re.compile(r"[\d.,]*\d(?P<unit>[^\W\d_]+)")
_NEXT_AMOUNT = re.compile(r"\d[\d.,]*\s?(?P<unit>[^\W\d_]+)")
_ENDS_IN_NUMBER = re.compile(r"[\d½¼¾⅓⅔]$")
_YEAR = re.compile(r"[12]\d{3}")
_ORDINAL = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_NUMERAL = re.compile(rf"{_ORDINAL.pattern}|{_ROMAN.pattern}")
_NO_ORDINAL = re.compile(r"(?:/|\d[-–]\d[-–])$")  # before the last number of "120/80" and "1-0-1"
# "5 ft. 10 in."
_FIRST_OF_TWO = frozenset(["ft", "lb", "lbs", "st", "hr", "hrs", "yr", "yrs", "h", "min"])
_PRONOUN = re.compile(r"I\s+[a-z]")  # not a Roman number: "He said no. I left."
_BRACKETED = 80  # characters before a stop that may contain an open bracket
_VALUE = re.compile(r"\s\d")
_STOP_AND_NUMBER = re.compile(r"\.\s?[\d§]")
_AFTER_NAME = re.compile(r"\set al\b|,? \(?\d{4}\)|\s(?:said|says|wrote|and [A-Z]\.)")
# "from A to B"
_SERIES = re.compile(r"\b[A-Z],? (?:and|or|to|nor|und|oder|bis|et|ou|à|y|o|e|a|en|of|tot) $")
_ANOTHER_LETTER = re.compile(r"[^\W\d_],?|and|or|und|oder|et|ou|en|of")


def _time_of_day(stop: _Stop) -> bool | None:
    """End after "a.m." before a capital, except at the sentence's start and before a time zone or a
    day.
    """
    if "." not in stop.word or not _CLOCK.fullmatch(stop.word):
        return None
    words = stop.text[stop.begin : stop.end].split(maxsplit=_MIN_WORDS_BEFORE_CLOCK)
    if len(words) <= _MIN_WORDS_BEFORE_CLOCK:
        return stop.before_starter and stop.next != "I"
    return stop.before_capital and not _AFTER_CLOCK.fullmatch(stop.next)


def _quantity(stop: _Stop) -> bool | None:
    """End after a number and a unit before a capital: "4 g. Take it", "88/min. Temp"."""
    if not _is_quantity(stop, stop.conventions.units):
        return None
    more = _NEXT_AMOUNT.match(stop.ahead)
    if more and more["unit"] in stop.conventions.units and stop.word in _FIRST_OF_TWO:
        return False
    return stop.before_capital and stop.next not in stop.conventions.after_unit


def _is_quantity(stop: _Stop, units: frozenset[str]) -> bool:
    word = stop.word.rstrip(_POWER)
    if word[:1].isdigit():
        attached = _AMOUNT.fullmatch(word)
        return attached is not None and attached["unit"] in units
    if word not in units:
        return False
    if stop.before.endswith("/"):
        return True
    tokens = stop.before.split()
    while tokens and tokens[-1].rstrip(".") in units:
        tokens.pop()
    if not tokens or not _ENDS_IN_NUMBER.search(tokens[-1]):
        return False
    if len(word) > 1 or not word.isupper():
        return True
    # A capital after a number need not be a unit: "in 1990 J. Smith", "45 F. Supp.", "Abs. 2 S. 1".
    followed = stop.next[:1].isdigit() or "." in (stop.after_next[:1], stop.next[-1:])
    return not (followed or _YEAR.fullmatch(tokens[-1]))


def _label_letter(stop: _Stop) -> bool | None:
    """Do not read the letter or number of a preceding noun as an initial or ordinal.

    "It contains Vitamin K. Vitamin C is missing."
    """
    if not stop.after_letter and not (stop.conventions.ordinals and _NUMERAL.fullmatch(stop.word)):
        return None
    if not _follows_labelled_noun(stop) and not _follows_plain_noun(stop):
        return None
    if stop.next.endswith("."):
        return None
    if stop.after_letter and stop.next[:1].isdigit():
        return None
    return stop.before_capital


def _follows_labelled_noun(stop: _Stop) -> bool:
    """Return whether a noun before the stop takes letters or values: "vitamins A, D and K"."""
    tokens = stop.before.split()
    while tokens and _ANOTHER_LETTER.fullmatch(tokens[-1]):
        tokens.pop()
    if not tokens:
        return False
    noun = _without_article(tokens[-1], stop.conventions).strip(".:(").lower()
    if noun in stop.conventions.lettered:
        return True
    return not stop.after_letter and noun in stop.conventions.valued


def _follows_plain_noun(stop: _Stop) -> bool:
    """Return whether a capital is the label of a noun, and not an initial.

    label     "We sell size S. Next week, size M arrives."
    initial   "by J. Smith", "John F. Kennedy"
    """
    conventions = stop.conventions
    if not (stop.after_letter and stop.word.isupper() and conventions.before_initial):
        return False
    if _SERIES.search(stop.before):
        return True
    if stop.next.endswith(("'s", "’s")) or _AFTER_NAME.match(stop.after_next):  # the next is a name
        return False
    words = stop.before.split()
    if not words:
        return False
    noun = _without_article(words[-1], conventions).lstrip("\"'“‘«(*_`")
    if not (noun.isalpha() and noun.islower()):
        return False
    return noun not in conventions.before_initial and not noun.endswith(conventions.verb_endings)


def _is_listed(stop: _Stop, table: frozenset[str]) -> bool:
    """Return whether the word, or the abbreviation that it completes, is in a table, capitalised or
    not.
    """
    if stop.word in table:
        return True
    if stop.before[-2:-1] == ".":  # "z. B" is "z.B"
        parts = _FIRST_PARTS.search(stop.before)
        if parts and "".join(parts[0].split()) + stop.word in table:
            return True
    if stop.after_first_word and stop.word[:1].lower() + stop.word[1:] in table:
        return True
    return stop.word.isupper() and stop.next.isupper() and stop.word.capitalize() in table


def _never_ending(stop: _Stop) -> bool | None:
    """Continue after titles and "e.g.", and at an abbreviation before a number ("p. 55")."""
    word = stop.word
    conventions = stop.conventions
    if _is_listed(stop, conventions.never_ends):
        return False
    is_small_letter = stop.after_letter and word.islower()
    is_listed = word in conventions.before_number or word.endswith(conventions.endings)
    if not is_small_letter and not is_listed:
        return None
    if _precedes_number_or_label(stop):
        return False
    if word[0].isupper() and not stop.before_capital:
        return False
    return None


def _precedes_number_or_label(stop: _Stop) -> bool:
    """Return whether what follows belongs to the abbreviation.

    "p. 55", "lit. b", "art. L. 121-1"
    """
    if stop.next[:1].isdigit() or stop.follower in "#§" or stop.before_number:
        return True
    may_precede_pronoun = stop.word.islower() or stop.word == "No"
    is_pronoun = may_precede_pronoun and _PRONOUN.match(stop.ahead) is not None
    if _ROMAN.fullmatch(stop.next) and not is_pronoun:
        return True
    letter = stop.next.rstrip(".")
    return len(letter) == 1 and letter.isalpha() and not stop.before_starter


def _ordinal(stop: _Stop) -> bool | None:
    """Read a short number as an ordinal or a date, in the languages that write one so.

    "am 3. Oktober", "am 3.4. um"
    """
    if not stop.conventions.ordinals or stop.after_letter:
        return None
    if not _NUMERAL.fullmatch(stop.word) or _NO_ORDINAL.search(stop.before):
        return None
    return stop.before_starter


def _often_ending(stop: _Stop) -> bool | None:
    """End after "etc." before a capital, in some languages also after "p.a."."""
    if stop.word in stop.conventions.often_ends:
        return stop.before_capital and not stop.follower.isdigit() and stop.follower != "("
    if not stop.conventions.dotted_ends or stop.word in stop.conventions.may_end:
        return None
    is_dotted = "." in stop.word and stop.word.islower() and _DOTTED.fullmatch(stop.word)
    if not is_dotted:
        return None
    return stop.next[:1].isupper() and not stop.next.endswith(".")


def _abbreviation(stop: _Stop) -> bool | None:
    """End at an abbreviation or initial only before a function word."""
    if not (stop.after_letter or _looks_abbreviated(stop)):
        return None
    if stop.after_letter and (_precedes_surname(stop) or stop.before_number):
        return False
    if stop.after_first_word or stop.follower == "(":
        return False
    if stop.next.lower() in stop.conventions.valued and _VALUE.match(stop.after_next):
        return True  # "in the E.R. BP 120/80"
    return stop.before_starter


def _looks_abbreviated(stop: _Stop) -> bool:
    word = stop.word
    if _DOTTED.fullmatch(word) or _CONSONANTS.fullmatch(word):
        return True
    if word.endswith(stop.conventions.endings):
        return True
    return _is_listed(stop, stop.conventions.may_end)


def _precedes_surname(stop: _Stop) -> bool:
    """Return whether a surname of several words follows: "J. Van der Berg", "C. De Luca"."""
    surname = _PARTICLE.match(stop.ahead)
    if not surname or not surname["name"].isupper():
        return False
    return surname["particle"] in stop.conventions.particles


def _unlisted(stop: _Stop) -> bool | None:
    """Before a lower-case word, continue a capitalised sentence in brackets, after "Fig. 3." or
    after a short word.
    """
    if stop.before_capital or stop.closed or stop.after_first_word:
        return None
    if not stop.text[stop.begin].isupper():
        return None
    near = stop.text[max(stop.begin, stop.end - _BRACKETED) : stop.end]
    is_in_brackets = near.rfind("(") > near.rfind(")")
    if is_in_brackets or _is_reference_number(stop) or _may_be_unknown_abbreviation(stop):
        return False
    return None


def _is_reference_number(stop: _Stop) -> bool:
    """Return whether the stop is after the number of a figure or the like: "Fig. 3."."""
    words = stop.before.split()
    if not words or not stop.word.isdecimal():
        return False
    return words[-1].rstrip(".") in stop.conventions.before_number


def _may_be_unknown_abbreviation(stop: _Stop) -> bool:
    word = stop.word
    if not word.isalpha() or len(word) > stop.conventions.unknown_letters:
        return False
    if not stop.follower.isalpha() or stop.next == "i":
        return False
    return word.lower() not in stop.conventions.starters


_MORE_STOPS = "។៕།༎\u037e"  # Khmer, Tibetan, Greek: missing in spaCy's table

_CLOSING = r"[\"'”’»›)\]}」』）】》〉］｝*_`]|[“‘«](?![^\s\"')\]])"
SMILE = (
    r"(?:[:;=][-'^]?[)(\]\[DPpOo|/\\*]+|<3|\^_?\^|[xX]D+"
    r"|[☹☺❤✨\U0001f000-\U0001faff\u200d\ufe0f]+)(?!\w)"
)
_PAGES = r":\d+(?:[,–-]\s?\d+)*"  # of a footnote without its mark: "in 1905.:75–76 Then"
_WORD_EDGE = re.compile(r"[\s(\[{\"“«„/—–-]")
_NEXT = re.compile(r"[\W_]{0,12}?(?P<word>[^\W\d_]\.(?!\w)|[^\W_]+(?:['’][^\W_]+)?)")
_OPENING_SIGNS = re.compile(r"(?P<sign>[*_`\"])(?P=sign)*$")
_LOOSE_QUOTE = re.compile(r"(?P<quote>[\"'])\s+")

_RULES: tuple[_Rule, ...] = (
    _opening_or_comma,
    _other_script,
    _before_cjk,
    _run_on,
    _ellipsis,
    _exclamation,
    _time_of_day,
    _quantity,
    _label_letter,
    _never_ending,
    _ordinal,
    _often_ending,
    _abbreviation,
    _unlisted,
)


def stop_pattern(stops: str) -> re.Pattern[str]:
    """Return the pattern of a stop with closing signs, smileys and the gap."""
    signs = "".join(sorted({*stops, *LATIN_STOPS, *_MORE_STOPS}))
    some = f"[{re.escape(signs)}]"
    return re.compile(
        rf"(?P<mark>{some}+(?:[ \u00a0][.!?](?!\w))*)"
        rf"(?P<closed>(?:{_CLOSING})*(?:{some}+(?:{_CLOSING})*)*(?:\s(?:»|[)\]](?!\S)))?)"
        rf"(?:{_PAGES})?(?:\s?{SMILE})*"
        r"(?P<gap>\s*)"
    )


def starts_after_stops(
    text: str,
    piece: Range,
    pattern: re.Pattern[str],
    conventions: Conventions,
) -> Iterator[int]:
    """Yield the starts of the sentences after the first one in a piece of the text."""
    begin = piece.start
    for match in pattern.finditer(text, piece.start, piece.end):
        if match.end() == piece.end:
            return
        if _is_in_user_abbreviation(text, piece, match, conventions):
            continue
        stop = _describe_stop(text, piece, begin, match, conventions)
        if _ends_sentence(stop):
            begin = _start_of_next(text, piece, match)
            yield begin


def _is_in_user_abbreviation(
    text: str,
    piece: Range,
    match: re.Match[str],
    conventions: Conventions,
) -> bool:
    abbreviations = conventions.user_abbreviations
    if abbreviations is None or match["mark"] != ".":
        return False
    before = text[max(piece.start, match.start() - 2 * MAX_CHARACTERS) : match.start()]
    ahead = text[match.end() : min(piece.end, match.end() + MAX_CHARACTERS)]
    return abbreviations.covers(before, ahead)


def _ends_sentence(stop: _Stop) -> bool:
    for rule in _RULES:
        ends = rule(stop)
        if ends is not None:
            return ends
    return True


def _describe_stop(
    text: str,
    piece: Range,
    begin: int,
    match: re.Match[str],
    conventions: Conventions,
) -> _Stop:
    """Return a stop with its surroundings. `begin` is the start of its sentence."""
    start = match.start()
    end = _end_of_stop(text, piece, match)
    left = text[max(begin, start - _WINDOW) : start]
    word = _WORD_EDGE.split(left[left.rfind(" ") + 1 :])[-1]
    next_word = ""
    ahead = ""
    following = _NEXT.match(text, end, piece.end)
    if following:
        next_word = following["word"]
        ahead = text[following.start("word") : min(end + _WINDOW, piece.end)]
    return _Stop(
        mark=match["mark"],
        closed=text[match.start("closed") : min(end, match.end("closed"))],
        gap=match["gap"],
        before=left[: len(left) - len(word)],
        word=_without_article(word.lstrip("'‘’*_`"), conventions),
        next=next_word,
        follower=text[end],
        ahead=ahead,
        left=left,
        right=text[end : end + _WINDOW],
        begin=begin,
        end=start,
        text=text,
        conventions=conventions,
    )


def _end_of_stop(text: str, piece: Range, match: re.Match[str]) -> int:
    """Return the end of a match without signs that open the next sentence: "安全。**剂量**"."""
    signs = _OPENING_SIGNS.search(match["closed"])
    if not signs or match["gap"]:
        return match.end()
    start = match.start("closed") + signs.start()
    is_closing = text.count(signs[0], piece.start, start) % 2 == 1
    if is_closing:
        return match.end()
    return start


def _start_of_next(text: str, piece: Range, match: re.Match[str]) -> int:
    """Return the start of the next sentence: 'said."We' opens a quotation, '. " He' closes one."""
    if match["closed"] == '"' and not match["gap"]:
        is_closing = text.count('"', piece.start, match.start("closed")) % 2 == 1
        if is_closing:
            return match.end()
        return match.start("closed")
    loose = _LOOSE_QUOTE.match(text, match.end(), piece.end)
    if loose and text.count(loose["quote"], piece.start, match.end()) % 2:
        return loose.end()
    return _end_of_stop(text, piece, match)


_RULE = re.compile(r"(?<!\S)(?:-{4,}|(?P<sign>[_=*~#])(?P=sign){2,})\s+")
_UNSTOPPED = re.compile(
    rf"(?<!\S)(?:(?P<smile>{SMILE})|(?:https?://|www\.|[^\s@]+@)\S*[^\s.,;:!?\"'(])"
    r"\s+(?=(?P<next>[A-Z]\w*))"
)


def sentence_starts(text: str, pattern: re.Pattern[str], conventions: Conventions) -> list[int]:
    """Return the starts of sentences. Blocks of code and rows of tables are cut as a whole."""
    plain = without_markup(blanked(text, list(after_stop_ranges(text))))
    starts: set[int] = set()
    position = 0
    for block in blocks(text):
        starts |= _starts_between(plain, position, block.start, pattern, conventions)
        starts.add(block.start)
        position = block.end
    starts |= _starts_between(plain, position, len(text), pattern, conventions)
    return sorted({before_opening_tags(text, start) for start in starts})


def _starts_between(
    plain: str,
    begin: int,
    end: int,
    pattern: re.Pattern[str],
    conventions: Conventions,
) -> set[int]:
    text = plain[begin:end]
    starts: set[int] = set()
    for piece in split_pieces(text):
        without_stop = {piece.start}
        without_stop.update(find_items(text, piece))
        without_stop.update(_starts_without_stop(text, piece, conventions))
        for first, last in pairwise((*sorted(without_stop), piece.end)):
            starts.add(first)
            part = Range(first, last)
            starts.update(starts_after_stops(text, part, pattern, conventions))
    return {begin + start for start in starts}


def _starts_without_stop(text: str, piece: Range, conventions: Conventions) -> Iterator[int]:
    """Yield the starts at and after rules ("----"), and after smileys and addresses."""
    for rule in _RULE.finditer(text, piece.start, piece.end):
        yield rule.start()
        yield rule.end()
    for match in _UNSTOPPED.finditer(text, piece.start, piece.end):
        smile = match["smile"]
        if smile and match.start() == piece.start:
            continue
        follows_ascii_smile = bool(smile) and smile.isascii()
        if follows_ascii_smile or match["next"].lower() in conventions.starters:
            yield match.end()
