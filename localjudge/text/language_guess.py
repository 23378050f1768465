"""Guess the language of texts, by their script or by their function words."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from localjudge.text.languages import ANY_LANGUAGE, HABITS, load_words
from localjudge.text.markup import read_characters
from localjudge.words import numbered, option, option_name

_MAX_TEXTS = 200
_MAX_SAMPLE = 50_000  # characters
_MAX_ROW = 500  # characters
_MIN_RATIO = 4  # to function words that only this language has
_MAJORITY = 0.6
_KANA = 0.05  # share of kana that makes Chinese characters Japanese
_WORD = re.compile(r"[^\W\d_]{2,}")
_LATIN = ("cs", "da", "de", "en", "es", "fr", "it", "nb", "nl", "pl", "pt", "sv")
"""Languages with `frequent` words."""
_SCRIPTS: Mapping[str, list[str]] = HABITS["scripts"]
_WITHOUT_LATIN = {code for codes in _SCRIPTS.values() for code in codes} - set(
    HABITS["two_scripts"]
)
"""Languages that are not written in Latin letters."""


class _Limits(NamedTuple):
    """The least that must be found in a text."""

    letters: int
    words: int
    hits: int
    share: float  # of words that only the other language has as function words


_IN_ALL = _Limits(letters=100, words=30, hits=8, share=0.15)
_IN_ROW = _Limits(letters=20, words=8, hits=4, share=0.2)


def row_language_warning(texts: Sequence[str], language: str) -> str | None:
    """Return a warning that some of the texts are clearly in another language, or None."""
    if language == ANY_LANGUAGE:
        return None
    counts: Counter[str] = Counter()
    for text in texts:
        sample = read_characters(text[:_MAX_ROW]).text
        codes = _guess(sample, language, _IN_ROW)
        counts.update(codes[:1])
    if not counts:
        return None
    found = ", ".join(f"{count} like {code}" for code, count in counts.most_common())
    likely = counts.most_common(1)[0][0]
    return (
        f"texts of {counts.total()} of {numbered(len(texts), 'sample')} look like another language "
        f"({found}), and {option_name('language')} is {language}: their sentences may be cut "
        f"wrongly; judge them apart with {option('language', likely)}"
    )


def language_warning(texts: Sequence[str], language: str) -> str | None:
    """Return a warning that the texts are in another language, or None if `language` is likely."""
    codes = likely_languages(texts, language)
    if not codes:
        return None
    likely = codes[0]
    looks_like = likely
    if len(codes) > 1:
        looks_like = f"{likely} (or {', '.join(codes[1:])})"
    return (
        f"the texts look like language {looks_like}, and {option_name('language')} is {language}: "
        f"sentences may be cut wrongly; use {option('language', likely)}"
    )


def likely_languages(texts: Sequence[str], language: str) -> list[str]:
    """Return other likely languages of the texts, the most spoken first, or [] if it is `language`.

    Compares scripts and function words in 50,000 characters, spread over all texts.
    """
    if language == ANY_LANGUAGE:
        return []
    step = math.ceil(len(texts) / _MAX_TEXTS) or 1
    chosen = texts[::step]
    sample = "\n".join(text[: _MAX_SAMPLE // len(chosen)] for text in chosen)
    sample = read_characters(sample).text
    return _guess(sample, language, _IN_ALL)


def _guess(sample: str, language: str, limits: _Limits) -> list[str]:
    by_script = _languages_by_script(sample, language, limits)
    return by_script or _languages_by_words(sample, language, limits)


def _languages_by_script(sample: str, language: str, limits: _Limits) -> list[str]:
    """Return the languages of the script of most letters, or [] if `language` is one of them."""
    letters: Counter[str] = Counter()
    for sign in sample:
        if sign.isalpha():
            script = unicodedata.name(sign, "").partition(" ")[0]
            letters[script] += 1
    total = letters.total()
    if total < limits.letters:
        return []
    letters["KANA"] = letters.pop("HIRAGANA", 0) + letters.pop("KATAKANA", 0)
    if letters["KANA"] >= _KANA * total:
        letters["KANA"] += letters.pop("CJK", 0)
    script, count = letters.most_common(1)[0]
    codes = _SCRIPTS.get(script, [])
    if count < _MAJORITY * total or language in codes:
        return []
    return codes


def _languages_by_words(sample: str, language: str, limits: _Limits) -> list[str]:
    """Return the language in Latin letters with the most function words in the sample, or []."""
    words = Counter(word.lower() for word in _WORD.findall(sample))
    if words.total() < limits.words:
        return []
    if language in _LATIN:
        frequent = load_words(language, "frequent")
    elif language in _WITHOUT_LATIN:
        frequent = frozenset()
    else:  # its function words are not known
        return []

    def count(group: frozenset[str]) -> int:
        return sum(words[word] for word in group.intersection(words))

    others = [code for code in _LATIN if code != language]
    likely = max(others, key=lambda code: count(load_words(code, "frequent")))
    likely_frequent = load_words(likely, "frequent")
    hits = count(likely_frequent - frequent)
    counter_hits = count(frequent - likely_frequent)
    if hits < max(limits.hits, limits.share * words.total(), _MIN_RATIO * counter_hits):
        return []
    return [likely]
