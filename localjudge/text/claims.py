"""Recognise sentences of an answer that claim nothing, and answers that need their question.

    "Kind regards, your team"  "I cannot answer this."  "Please do two things:"    no claim
    "Yes."  "Unfortunately not."                                                  a bare answer

The forms are in `claims.toml`, in four languages, which are looked up together. A sentence that
adds something to a form counts as a claim.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

WITHOUT_CLAIM = "without a claim"
_FORMS = Path(__file__).parent / "claims.toml"
_SIGNS = re.compile(r"[*_`\"“”„«»()\[\]]+")
_FINAL = " .!…。"
_WORD = re.compile(r"\w+(?:['’]\w+)?")
_GAP = r" (?:.{0,80}? )?"
_SEPARATED = re.compile(r"[,;:–—]\s*\w")
_MOST_WORDS = {"refusals": 40, "closings": 9, "remarks": 20, "introductions": 12}
_SHORT_FORM = 2  # words
_MAX_AFTER_SHORT_FORM = {1: 1, 2: 4}  # words


def is_bare_answer(sentence: str) -> bool:
    """Return whether a sentence is yes or no, and says nothing without its question."""
    return _plain(sentence).rstrip(_FINAL) in _forms("answers")


def has_claim(sentence: str) -> bool:
    """Return whether a sentence claims anything, as far as the listed forms tell."""
    if is_bare_answer(sentence):
        return True
    plain = _plain(sentence)
    closing, rest = _split(plain, "closings")
    if closing and (" " in closing or not rest[:1].isspace()):
        return False  # a name, or nothing, follows the end of a letter
    introduction, rest = _split(plain, "introductions")
    if introduction and plain.endswith((":", "：")) and not _SEPARATED.search(rest):
        return False
    return not (_is_remark(plain) or _is_refusal(plain))


def _is_remark(sentence: str) -> bool:
    form, rest = _split(sentence, "remarks")
    if not form or _has_digit(rest):
        return False
    length = len(_WORD.findall(form))
    if length > _SHORT_FORM:
        return True
    is_short = len(_WORD.findall(rest)) <= _MAX_AFTER_SHORT_FORM[length]
    return is_short and not _SEPARATED.search(rest)


def _is_refusal(sentence: str) -> bool:
    polite, rest = _split(sentence, "before")
    while polite:
        sentence = rest.lstrip(" ,:;-–—")
        polite, rest = _split(sentence, "before")
    form, rest = _split(sentence, "refusals")
    if not form or _has_digit(sentence) or re.search(r"[;:]\s*\w", rest):
        return False
    return not _forms("contrasts") & set(_WORD.findall(sentence))


def _split(sentence: str, group: str) -> tuple[str, str]:
    """Return the form of a group that a sentence begins with, and the rest, or two times ""."""
    if len(_WORD.findall(sentence)) > _MOST_WORDS.get(group, len(sentence)):
        return "", ""
    match = _pattern(group).match(sentence)
    if not match:
        return "", ""
    return match[0], sentence[match.end() :]


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _plain(sentence: str) -> str:
    """Return a sentence in small letters, without signs of emphasis and quotation."""
    words = _SIGNS.sub(" ", sentence).casefold().replace("’", "'").split()
    return " ".join(words)


@cache
def _pattern(group: str) -> re.Pattern[str]:
    """Return a pattern of the forms of a group, the longest first. "..." is any words, or none."""
    forms = []
    for form in sorted(_forms(group), key=len, reverse=True):
        forms.append(_GAP.join(map(re.escape, form.split(" ... "))))
    return re.compile(rf"(?:{'|'.join(forms)})(?!\w)")


@cache
def _forms(group: str) -> frozenset[str]:
    """Return the forms of a group in all languages."""
    languages = tomllib.loads(_FORMS.read_text(encoding="utf-8"))
    forms: set[str] = set()
    for groups in languages.values():
        forms.update(form.casefold() for form in groups[group])
    return frozenset(forms)
