"""Detect the encoding of a text.

    a byte-order mark           UTF-8, UTF-16 or UTF-32, as marked
    only valid UTF-8            UTF-8
    mostly valid UTF-8          UTF-8 with damaged bytes
    otherwise                   the encoding for which the bytes decide
                                UTF-8 with damaged bytes, if they do not decide

Most bytes above 0x7F of a damaged UTF-8 text are valid, and few of a text in another encoding.

    bytes ──encodings──> texts ──letters, signs──> texts in a language
          ──function words──> the text, if the others agree or have clearly fewer

`B3` is ł in Windows-1250 and ³ in Windows-1252: `Termin min¹³` is in no language. Where two
languages remain, their function words count; where these do not decide, there is no answer.
charset-normalizer (`chaos`, the share of unlikely characters) decides for Chinese, Japanese and
Korean.

Sources of the letters: `alphabets.toml`.
"""

import codecs
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

UTF_8 = "utf-8"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, because it begins with the same mark
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_INVALID = re.compile("[\udc80-\udcff]")
_MAX_VALID_SHARE = 0.5
_MAX_SAMPLE = 2**15
_MAX_LINE = 2**16
_ALPHABETS = Path(__file__).with_name("alphabets.toml")
WINDOWS_1252 = "cp1252"
_WINDOWS = "cp125"
_ASIAN = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_CJK = re.compile("[\u3001-\u30ff\u4e00-\u9fff\uac00-\ud7af\uff01-\uff5e]")
_NOT_THAI = re.compile(
    "[^\x00-\x7f\u0e01\u0e02\u0e04\u0e06-\u0e3a\u0e3f-\u0e4c\u0e50-\u0e59]"
    "|(?<![\u0e01-\u0e2e\u0e31-\u0e3a\u0e47-\u0e4e])[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]"
    "|[\u0e40-\u0e44](?![\u0e01-\u0e2e])"
)
"""Other or obsolete letters, a vowel or tone sign without its consonant, a vowel before none."""
_LESS_CHAOS = 0.03
_HANGUL = re.compile("[\uac00-\ud7a3]")
_MIN_COVERAGE = 0.9
_MORE_WORDS = 1.5
_MIN_WORDS = 3
_WORD = re.compile(r"[^\W\d_ªºµ]+")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_]).[^\W\d_]")
_OTHER_SIGN = re.compile(r"[^\x00-\x7f]")
_SIGNS = frozenset("–—‘’‚“”„«»‹›…•€£¥§°±²³¹½¼¾·×÷®©™µªº¿¡\xa0\xad")
_AFTER_LETTERS = frozenset("’‘“”»«›…—–®™\xa0\xad")
_AFTER_UNITS = frozenset("²³¹ªº")
"""Signs after one or two letters: m², nº."""


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding of the byte-order mark at the start of a file, or None without one."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    return None


def detect_encoding(blocks: Iterable[bytes]) -> str:
    """Return the encoding of a text without a byte-order mark.

    It is `UTF_8` if the bytes do not decide.
    """
    decoder = codecs.getincrementaldecoder(UTF_8)("surrogateescape")
    sample = _Sample()
    for block in blocks:
        sample.add(decoder.decode(block))
    sample.add(f"{decoder.decode(b'', final=True)}\n")
    if sample.valid > _MAX_VALID_SHARE * sample.invalid or not sample.invalid:
        return UTF_8
    encoding = guess_encoding(_to_bytes(sample.lines))
    if encoding is None or not _has_characters(encoding, sample.damaged):
        return UTF_8
    return encoding


class _Sample:
    """Counts of the characters beyond ASCII of a text, and some of its lines with damaged bytes.

    `damaged` are all bytes that are not UTF-8. Each is in one of the lines, unless the lines are
    very long.
    """

    def __init__(self) -> None:
        self.valid = 0
        self.invalid = 0
        self.damaged: set[str] = set()
        self.lines = ""
        self._begun = ""

    def add(self, text: str) -> None:
        """Add the next characters, with lone surrogates for damaged bytes."""
        if not text.isascii():
            invalid = len(_INVALID.findall(text))
            self.invalid += invalid
            self.valid += len(text) - len(text.encode("ascii", "ignore")) - invalid
        text = self._begun + text
        end = text.rfind("\n") + 1
        self._begun = text[end:][-_MAX_LINE:]
        if not text.isascii() and _INVALID.search(text):
            for line in text[:end].split("\n"):
                damaged = set(_INVALID.findall(line))
                if damaged and (len(self.lines) < _MAX_SAMPLE or not damaged <= self.damaged):
                    self.lines += f"{line[-_MAX_LINE:]}\n"
                self.damaged |= damaged


def _has_characters(encoding: str, damaged: Iterable[str]) -> bool:
    """Return whether bytes, as lone surrogates, are characters of the encoding.

    Bytes of encodings with several bytes for a character are not checked.
    """
    for byte in damaged:
        try:
            _to_bytes(byte).decode(encoding)
        except UnicodeDecodeError as error:
            if error.reason.startswith("character maps to <undefined>"):
                return False
    return True


def _to_bytes(text: str) -> bytes:
    return text.encode(UTF_8, "surrogateescape")


def name_encoding(encoding: str) -> str:
    """Return the name of an encoding for users: `Windows-1252`, `cp850`, `mac_roman`."""
    if encoding.startswith(_WINDOWS):
        return f"Windows-{encoding.removeprefix('cp')}"
    return encoding


def decoding_errors(encoding: str) -> str:
    """Return how to treat damaged bytes: UTF-8 keeps them as lone surrogates."""
    if encoding.startswith(UTF_8):
        return "surrogateescape"
    return "strict"


class _DecodedText(NamedTuple):
    """A text as one encoding reads it.

    `marks` counts the characters beyond ASCII that a language may have: letters, and signs between
    two letters. `fine` is the number of signs that may stand where they do in any language, `odd`
    the number of characters that may not. `has_small_letters` tells of letters beyond ASCII.
    """

    encoding: str
    text: str
    words: Counter[str]
    marks: Counter[str]
    fine: int
    odd: int
    has_small_letters: bool


def guess_encoding(data: bytes) -> str | None:
    """Return the encoding of the bytes, or None if they do not decide."""
    texts = {decoded.encoding: decoded for decoded in _decode(data)}
    found: list[tuple[str, _DecodedText]] = []
    for language, alphabet in _alphabets().items():
        for encoding in alphabet["encodings"]:
            decoded = texts.get(encoding)
            if decoded and _coverage(decoded, language) >= _MIN_COVERAGE:
                found.append((language, decoded))
    if not found:
        return _guess_asian(data)
    if len({decoded.text for _, decoded in found}) == 1:
        return found[0][1].encoding
    return _choose_by_words(found)


def _decode(data: bytes) -> Iterator[_DecodedText]:
    """Yield what the bytes say in each encoding in which all of them are characters."""
    encodings: dict[str, None] = {}
    for alphabet in _alphabets().values():
        encodings.update(dict.fromkeys(alphabet["encodings"]))
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        yield _describe(encoding, text)


def _choose_by_words(found: Sequence[tuple[str, _DecodedText]]) -> str | None:
    """Return the encoding of the text with clearly the most function words, or None.

    It needs no more of them than a text that covers its language less well, and Windows-1252 no
    more than encodings of systems before Windows, if the text is more than capitals and signs.
    """
    ranked: list[tuple[int, float, bool, _DecodedText]] = []
    for language, decoded in found:
        hits = sum(decoded.words[word] for word in _function_words(language))
        coverage = _coverage(decoded, language)
        is_frequent = decoded.encoding == WINDOWS_1252 and decoded.has_small_letters
        ranked.append((hits, coverage, is_frequent, decoded))
    most, best_coverage, is_frequent, best = max(ranked, key=lambda candidate: candidate[:3])
    for hits, coverage, _, rival in ranked:
        covers_less = most >= _MIN_WORDS and coverage < best_coverage
        is_older = is_frequent and not rival.encoding.startswith(_WINDOWS)
        needed = _MORE_WORDS * hits + 1
        if covers_less or is_older:
            needed = hits
        if rival.text != best.text and most < needed:
            return None
    return best.encoding


def _coverage(decoded: _DecodedText, language: str) -> float:
    """Return the share of the characters beyond ASCII that the language writes so."""
    total = decoded.marks.total() + decoded.fine + decoded.odd
    if not total:
        return 1.0
    alphabet = _alphabets()[language]
    letters = {*alphabet["letters"], *alphabet.get("in_words", "")}
    return (decoded.fine + sum(decoded.marks[letter] for letter in letters)) / total


def _guess_asian(data: bytes) -> str | None:
    """Return the encoding of a Chinese, Japanese or Korean text with clearly the least chaos."""
    from charset_normalizer import from_bytes

    if not _NOT_THAI.search(data.decode("cp874", "replace")):
        return None
    chaos: dict[str, float] = {}
    for match in from_bytes(data, cp_isolation=[*_ASIAN], enable_fallback=False):
        text = str(match)
        if match.encoding == "cp949":
            # Of ten syllables, at most one is none of the 2,350 of KS X 1001.
            syllables: list[str] = _HANGUL.findall(text)
            rare = sum(min(syllable.encode("cp949")) < 0xA1 for syllable in syllables)  # noqa: PLR2004
            if 10 * rare > len(syllables):
                continue
        if len(_CJK.findall(text)) >= _MIN_COVERAGE * len(_OTHER_SIGN.findall(text)):
            chaos[match.encoding] = match.chaos
    ranked = sorted(chaos, key=chaos.__getitem__)
    if not ranked or (len(ranked) > 1 and chaos[ranked[1]] < chaos[ranked[0]] + _LESS_CHAOS):
        return None
    return ranked[0]


def _describe(encoding: str, text: str) -> _DecodedText:
    words = Counter[str]()
    marks = Counter[str]()
    fine = 0
    odd = 0
    is_small = False
    for match in _WORD.finditer(text):
        word = match[0]
        words[word.lower()] += 1
        if word.isascii():
            continue
        is_mixed = len({_script(letter) for letter in word}) > 1
        for position, letter in enumerate(word):
            if letter.isascii():
                continue
            if is_mixed or _has_odd_case(word, position):
                odd += 1
            else:
                marks[letter if letter == "İ" else letter.lower()] += 1
                is_small = is_small or letter.islower()
    for match in _OTHER_SIGN.finditer(text):
        if _WORD.fullmatch(match[0]):
            continue
        if _BETWEEN_LETTERS.match(text, match.start()):
            marks[match[0]] += 1
        elif _is_odd_sign(text, match.start()):
            odd += 1
        else:
            fine += 1
    return _DecodedText(encoding, text, words, marks, fine, odd, is_small)


def _script(letter: str) -> str:
    if "\u0400" <= letter <= "\u052f":
        return "Cyrillic"
    if "\u0370" <= letter <= "\u03ff":
        return "Greek"
    if "\u05d0" <= letter <= "\u06ff":
        return "Hebrew or Arabic"
    return "Latin"


def _has_odd_case(word: str, position: int) -> bool:
    """Return whether a capital is inside a word, or a small letter is between capitals."""
    if word[position].isupper():
        return position > 0 and not word.isupper()
    around = word[max(0, position - 1) : position] + word[position + 1 : position + 2]
    return len(around) > 1 and around.isupper()


def _is_odd_sign(text: str, position: int) -> bool:
    """Return whether a sign is rare, or cannot stand here."""
    sign = text[position]
    if sign not in _SIGNS:
        return True
    before = _WORD.search(text[max(0, position - 3) : position][::-1])
    if before is None or before.start():  # no letter directly before it
        return False
    if sign in _AFTER_UNITS:
        return len(before[0]) > 2  # noqa: PLR2004
    return sign not in _AFTER_LETTERS


@cache
def _alphabets() -> dict[str, dict[str, Any]]:
    """Return the letters of each language, and the encodings that it is written in."""
    return tomllib.loads(_ALPHABETS.read_text(encoding="utf-8"))


@cache
def _function_words(language: str) -> frozenset[str]:
    from spacy.util import get_lang_class

    stop_words = get_lang_class(language).Defaults.stop_words
    return frozenset(word for word in stop_words if len(word) > 1)
