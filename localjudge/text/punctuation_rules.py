"""Rules by the punctuation and the script around a stop: openings, quotations, "...", "!".

Every rule returns whether the stop ends its sentence, or None if it does not apply.
"""

import re

from localjudge.text.languages import ANY_LANGUAGE, any_of, load_words
from localjudge.text.lines import MARKER
from localjudge.text.stop import LATIN_STOPS, WINDOW, Rule, Stop
from localjudge.text.user_abbreviations import add_capitals

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


def _opening_or_comma(stop: Stop) -> bool | None:
    """Continue before a comma ("et al., 2015") and after opening stops ("...", "1.")."""
    so_far = stop.text[stop.begin : min(stop.end, stop.begin + WINDOW + 1)]
    if stop.follower in ",;:)]}、，；：،؛" or not so_far[:WINDOW].strip(_OPENING):
        return False
    if len(so_far) > WINDOW:
        return None
    if MARKER.fullmatch(so_far + "."):
        return False
    return None


def _other_script(stop: Stop) -> bool | None:
    """End at a stop of another script, unless a quotation goes on: "「はい。」と言った"."""
    if stop.mark[-1] in LATIN_STOPS:
        return None
    if stop.mark == "．" and stop.follower.isdigit() and not stop.gap:
        return False
    return not (stop.closed and not stop.gap and _quotation_continues(stop))


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


def _quotation_continues(stop: Stop) -> bool:
    """Return whether a verb of saying or a particle follows, as in "「はい。」と言った"."""
    if stop.follower in _QUOTING:
        return True
    if not _SAYING.match(stop.right):
        return False
    closing = stop.closed[-1]
    opening = _OPENING_QUOTE.get(closing, closing)
    start = stop.text.rfind(opening, stop.begin, stop.end)
    is_introduced = (
        start > stop.begin and stop.text[start - 1] in "：:，,、"
    )  # "他说：“你好。”她问"
    return not is_introduced


def _is_run_on_word(stop: Stop, rest: str) -> bool:
    if not _RUN_ON.match(stop.next) or _HOST_OR_FILE.fullmatch(stop.next):
        return False
    if rest[:1] not in ("", *".,;:!?'’") or "(" in rest or _LONE_LETTER.search(stop.word):
        return False
    if stop.word.islower() and _PLAIN.fullmatch(stop.word):
        return True
    return stop.before_starter or stop.next in stop.conventions.never_ends


PUNCTUATION_RULES: tuple[Rule, ...] = (
    _opening_or_comma,
    _other_script,
    _before_cjk,
    _run_on,
    _ellipsis,
    _exclamation,
)
"""In the order of trying."""
