"""The sentence rules of a language.

Sentences start at lines, after stops, and after smileys and addresses without a stop.

    She met Dr. No (twice.) Then she left.
              ^ "Dr" is a title: no cut
                         ^ mark "."   closed ")"   next "Then"   cut before "Then"

At each stop, the rules are tried in order, and the first that applies decides: first those by the
punctuation and the script around it, then those by the words (`localjudge.text.stops`). If none
applies, the stop ends the sentence.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from spacy.pipeline import Sentencizer

from localjudge.text.formulas import join_formulas
from localjudge.text.languages import (
    ANY_LANGUAGE,
    MAX_CHARACTERS,
    Conventions,
    add_capitals,
    any_of,
    belongs_to_word,
    load_words,
)
from localjudge.text.lines import MARKER, Range, find_items, is_number_of_next, split_pieces
from localjudge.text.marks import YEARS, after_stop_ranges
from localjudge.text.markup import (
    before_opening_tags,
    blanked,
    blocks,
    read_characters,
    without_markup,
)
from localjudge.text.stops import WORD_RULES, Rule, Stop, without_article

_LATIN_STOPS = ".!?…"
_WINDOW = 40
"""Most characters of a list marker, an opening, or the surroundings of a stop."""
_STOPS = "".join(Sentencizer.default_punct_chars)
_SMILE = (
    r"(?:[:;=][-'^]?[)(\]\[DPpOo|/\\*]+|<3|\^_?\^|[xX]D+"
    r"|[☹☺❤✨\U0001f000-\U0001faff\u200d\ufe0f]+)(?!\w)"
)
_MORE_STOPS = "។៕།༎\u037e"  # Khmer, Tibetan, Greek: missing in spaCy's table
_CLOSING = r"[\"'”’»›)\]}」』）】》〉］｝*_`]|[“‘«](?![^\s\"')\]])"
_PAGES = r":\d+(?:[,–-]\s?\d+)*"  # of a footnote without its mark: "in 1905.:75–76 Then"
_WORD_EDGE = re.compile(r"[\s(\[{\"“«„/—–-]")
_NEXT = re.compile(r"[\W_]{0,12}?(?P<word>[^\W\d_]\.(?!\w)|[^\W_]+(?:['’][^\W_]+)?)")
_OPENING_SIGNS = re.compile(r"(?P<sign>[*_`\"])(?P=sign)*$")
_LOOSE_QUOTE = re.compile(r"(?P<quote>[\"'])\s+")
_RULE = re.compile(r"(?<!\S)(?:-{4,}|(?P<sign>[_=*~#])(?P=sign){2,})\s+")
_UNSTOPPED = re.compile(
    rf"(?<!\S)(?:(?P<smile>{_SMILE})|(?:https?://|www\.|[^\s@]+@)\S*[^\s.,;:!?\"'(])"
    r"\s+(?=(?P<next>[A-Z]\w*))"
)
# Of the sentence before: "It rained. [2004] They left.", but not "[2004] EWCA Civ 12 holds".
_YEARS_AFTER_STOP = re.compile(
    rf"\[{YEARS.pattern}\](?:\s*\Z|\s+(?=[\"“„«‘(*_]*(?P<next>[^\W\d_]+)))"
)
_PLAIN = re.compile(r"[^\W\d_]{2,}$")
_RUN_ON = re.compile(rf"(?:[A-Z][a-z’']+|{any_of('letter_words')})(?=[\s,;:.!?'’]|$)")
_HOST_OR_FILE = re.compile(
    r"com|net|org|edu|gov|info|io|co|uk|de|fr|eu|js|py|ts|md|txt|doc",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[/\\@=&_<>|{}#%+~`]")
_PRONOUNS = load_words(ANY_LANGUAGE, "pronouns")
_QUOTING = load_words(ANY_LANGUAGE, "quoting")
_SAYING = re.compile(
    rf"[^\s。！？，、；：“”「」『』（）]{{0,8}}?(?:{any_of('saying')})"
    rf"(?=[^\w]|$|{any_of('after_saying')})"
)
_OPENING_QUOTE = dict(zip("”’」』》】)）»", "“‘「『《【(（«", strict=True))
_CJK = re.compile(
    r"[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]"
)
_LONE_LETTER = re.compile(r"(?:^|[^A-Za-z])[A-Za-z]$")  # of "D.A.D.A."
_LATIN_RUN = re.compile(r"[A-Za-z0-9.&'’-]+$")
_OPENING = " \t\"'“‘«„([{*_-–—"
_EXCLAIMING = add_capitals(load_words(ANY_LANGUAGE, "exclaiming"), capitals=True)


@cache
def _stop_pattern(stops_of_language: str) -> re.Pattern[str]:
    """Return the pattern of a stop with closing signs, smileys and the gap."""
    signs = "".join(sorted({*_STOPS, *stops_of_language, *_LATIN_STOPS, *_MORE_STOPS}))
    some = f"[{re.escape(signs)}]"
    return re.compile(
        rf"(?P<mark>{some}+(?:[ \u00a0][.!?](?!\w))*)"  # one or several: ". . ."
        rf"(?P<closed>(?:{_CLOSING})*"
        rf"(?:{some}+(?:{_CLOSING})*)*"  # between further stops: ".)."
        r"(?:\s(?:»|[)\]](?!\S)))?)"  # after a space: "non. »"
        rf"(?:{_PAGES})?(?:\s?{_SMILE})*"
        r"(?P<gap>\s*)"
    )


def sentence_starts(text: str, conventions: Conventions) -> list[int]:
    """Return the starts of sentences. Blocks of code and rows of tables are cut as a whole."""
    read = read_characters(text, keep_markup=True)
    joined = join_formulas(read.text, conventions.after_formula)
    plain = without_markup(blanked(joined, list(after_stop_ranges(read.text))))
    starts: set[int] = set()
    position = 0
    for block in blocks(joined):
        starts |= _starts_between(plain, position, block.start, conventions)
        starts.add(block.start)
        position = block.end
    starts |= _starts_between(plain, position, len(read.text), conventions)
    before_tags = {before_opening_tags(read.text, start) for start in starts}
    return [read.stored(start) for start in sorted(before_tags)]


def _starts_between(
    plain: str,
    begin: int,
    end: int,
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
            starts.update(_starts_after_stops(text, part, conventions))
    kept: set[int] = set()
    before = 0
    for start in sorted(starts):
        # The number of a clause is no sentence: "1.1. The buyer pays.".
        if not is_number_of_next(text[before:start], conventions):
            kept.add(begin + start)
        before = start
    return kept


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


def _starts_after_stops(
    text: str,
    piece: Range,
    conventions: Conventions,
) -> Iterator[int]:
    """Yield the starts of the sentences after the first one in a piece of the text."""
    begin = piece.start
    for match in _stop_pattern(conventions.stops).finditer(text, piece.start, piece.end):
        if match.end() == piece.end:
            return
        if _is_in_user_abbreviation(text, piece, match, conventions):
            continue
        stop = _describe_stop(text, piece, begin, match, conventions)
        if _ends_sentence(stop):
            begin = _start_of_next(text, piece, match)
            years = _YEARS_AFTER_STOP.match(text[: piece.end], begin)
            if years and (years["next"] or "They").istitle():
                begin = years.end()
            if begin < piece.end:
                yield begin


def _describe_stop(
    text: str,
    piece: Range,
    begin: int,
    match: re.Match[str],
    conventions: Conventions,
) -> Stop:
    """Return a stop with its surroundings.

    `match` is one of `_stop_pattern`, `begin` is the start of its sentence.
    """
    start = match.start()
    end = _find_end_of_stop(text, piece, match)
    left = text[max(begin, start - _WINDOW) : start]
    word = _WORD_EDGE.split(left[left.rfind(" ") + 1 :])[-1]
    next_word = ""
    ahead = ""
    following = _NEXT.match(text, end, piece.end)
    if following:
        next_word = following["word"]
        ahead = text[following.start("word") : min(end + _WINDOW, piece.end)]
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
        right=text[end : end + _WINDOW],
        begin=begin,
        end=start,
        text=text,
        conventions=conventions,
    )


def _find_end_of_stop(text: str, piece: Range, match: re.Match[str]) -> int:
    """Return the end of a match without signs that open the next sentence: "安全。**剂量**"."""
    signs = _OPENING_SIGNS.search(match["closed"])
    if not signs or match["gap"]:
        return match.end()
    start = match.start("closed") + signs.start()
    is_closing = text.count(signs[0], piece.start, start) % 2 == 1
    if is_closing:
        return match.end()
    return start


def _is_in_user_abbreviation(
    text: str,
    piece: Range,
    match: re.Match[str],
    conventions: Conventions,
) -> bool:
    abbreviations = conventions.user_abbreviations
    if not abbreviations or match["mark"] != ".":
        return False
    before = text[max(piece.start, match.start() - 2 * MAX_CHARACTERS) : match.start()]
    ahead = text[match.end() : min(piece.end, match.end() + MAX_CHARACTERS)]
    return belongs_to_word(abbreviations, before, ahead)


def _ends_sentence(stop: Stop) -> bool:
    for rule in _RULES:
        ends = rule(stop)
        if ends is not None:
            return ends
    return True


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
    return _find_end_of_stop(text, piece, match)


# Rules by the punctuation and the script around a stop. Each returns whether the stop ends its
# sentence, or None if it does not apply.


def _opening_or_comma(stop: Stop) -> bool | None:
    """Continue before a comma ("et al., 2015") and after opening stops ("...", "1.")."""
    so_far = stop.text[stop.begin : min(stop.end, stop.begin + _WINDOW + 1)]
    if stop.follower in ",;:)]}、，；：،؛" or not so_far[:_WINDOW].strip(_OPENING):
        return False
    if len(so_far) > _WINDOW:
        return None
    if MARKER.fullmatch(so_far + "."):
        return False
    return None


def _other_script(stop: Stop) -> bool | None:
    """End at a stop of another script, unless a quotation goes on: "「はい。」と言った"."""
    if stop.mark[-1] in _LATIN_STOPS:
        return None
    if stop.mark == "．" and stop.follower.isdigit() and not stop.gap:
        return False
    if stop.gap or not stop.closed:
        return True
    if stop.follower in _QUOTING:
        return False
    if not _SAYING.match(stop.right):
        return True
    closing = stop.closed[-1]
    opening = _OPENING_QUOTE.get(closing, closing)
    start = stop.text.rfind(opening, stop.begin, stop.end)
    # The verb of saying belongs to the next sentence: "他说：“你好。”她问".
    return start > stop.begin and stop.text[start - 1] in "：:，,、"


def _before_cjk(stop: Stop) -> bool | None:
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


def _run_on(stop: Stop) -> bool | None:
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
        return stop.follower.isupper() and stop.next.split("'")[0] not in _PRONOUNS
    return _is_run_on_word(stop, right.removeprefix(stop.next))


def _ellipsis(stop: Stop) -> bool | None:
    """End at dots before a capital, except at three dots before "I"."""
    if "." in stop.closed:  # "(pears, etc.). Then"
        return True
    dots = stop.mark.count(".") + len("...") * stop.mark.count("…")
    if "!" in stop.mark or "?" in stop.mark or dots == 1:
        return None
    if dots == len(".."):
        return stop.before_capital
    return stop.before_capital and stop.next_stem not in _PRONOUNS


def _exclamation(stop: Stop) -> bool | None:
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


def _is_run_on_word(stop: Stop, rest: str) -> bool:
    if not _RUN_ON.match(stop.next) or _HOST_OR_FILE.fullmatch(stop.next):
        return False
    if rest[:1] not in ("", *".,;:!?'’") or "(" in rest or _LONE_LETTER.search(stop.word):
        return False
    if stop.word.islower() and _PLAIN.fullmatch(stop.word):
        return True
    return stop.before_starter or stop.next in stop.conventions.never_ends


_RULES: tuple[Rule, ...] = (
    _opening_or_comma,
    _other_script,
    _before_cjk,
    _run_on,
    _ellipsis,
    _exclamation,
    *WORD_RULES,
)
"""In the order of trying."""
