"""Whether texts are written in the language that they are cut as, seen from their letters and their function words.

    "Der Patient klagt über Schmerzen und ist ..."  cut as en  ->  this looks like German (de)

A *finding* needs a clear majority: most letters in a script that the language is not written in, or, of the words that
only one of the two languages is full of, many of another language and hardly any of this one. Short texts, tables and
texts in several languages give none. At most so many characters are read, spread over all texts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from localjudge.option_spelling import option, option_name
from localjudge.text.conventions import ANY_LANGUAGE, words_of

_MOST_TEXTS = 200
_MOST_CHARACTERS = 50_000
_MIN_LETTERS = 100
_MIN_WORDS = 30
_MIN_HITS = 8
_MIN_SHARE = 0.15
"""Share of the words that are function words of the other language only."""
_TIMES = 4
"""So many times as many as function words of this language only."""
_MAJORITY = 0.6
_KANA = 0.05
"""Chinese text has no kana; Japanese has them between its Chinese characters."""

_WORD = re.compile(r"[^\W\d_]{2,}")

_NAMES = {
    "cs": "Czech (cs) or another Slavic language",
    "da": "Danish (da) or another Scandinavian language",
    "de": "German (de)",
    "en": "English (en)",
    "es": "Spanish (es)",
    "fr": "French (fr)",
    "it": "Italian (it)",
    "nb": "Norwegian (nb) or another Scandinavian language",
    "nl": "Dutch (nl)",
    "pl": "Polish (pl)",
    "pt": "Portuguese (pt)",
    "sv": "Swedish (sv) or another Scandinavian language",
}
_SCRIPTS = {
    "ARABIC": ("Arabic", "ar fa ug ur"),
    "ARMENIAN": ("Armenian", "hy"),
    "BENGALI": ("Bengali", "bn"),
    "CJK": ("Chinese", "zh ja"),
    "CYRILLIC": ("Russian", "ru bg ky mk sr tt uk"),
    "DEVANAGARI": ("Hindi", "hi mr ne sa"),
    "ETHIOPIC": ("Amharic", "am ti"),
    "GEORGIAN": ("Georgian", "ka"),
    "GREEK": ("Greek", "el grc"),
    "GUJARATI": ("Gujarati", "gu"),
    "HANGUL": ("Korean", "ko"),
    "HEBREW": ("Hebrew", "he"),
    "KANA": ("Japanese", "ja"),
    "KANNADA": ("Kannada", "kn"),
    "MALAYALAM": ("Malayalam", "ml"),
    "SINHALA": ("Sinhala", "si"),
    "TAMIL": ("Tamil", "ta"),
    "TELUGU": ("Telugu", "te"),
    "THAI": ("Thai", "th"),
    "TIBETAN": ("Tibetan", "bo"),
}
"""Scripts, as Unicode names their letters, with the most spoken of their languages and spaCy's codes of all of them."""
_KANAS = ("HIRAGANA", "KATAKANA")
_OTHER_SCRIPT = frozenset(code for _, codes in _SCRIPTS.values() for code in codes.split()) - {"sr"}
"""Codes of languages whose texts are not written in Latin; Serbian is, too."""


class _Look(NamedTuple):
    """A language that texts look like."""

    code: str
    name: str


def misfit(texts: Sequence[str], language: str) -> str | None:
    """One line that says which language the texts look like, and what to do; None if they may be in `language`."""
    if language == ANY_LANGUAGE:
        return None
    sample = _sample(texts)
    look = _by_script(sample, language) or _by_words(sample, language)
    if look is None:
        return None
    return (
        f"this looks like {look.name}, and {option_name('language')} is {language}: "
        f"sentences may be cut wrongly; give {option('language', look.code)}"
    )


def _sample(texts: Sequence[str]) -> str:
    taken = texts[:: -(-len(texts) // _MOST_TEXTS) or 1]
    return "\n".join(text[: _MOST_CHARACTERS // len(taken)] for text in taken)


def _by_script(sample: str, language: str) -> _Look | None:
    """The language in whose script most of the letters are, where `language` has another one."""
    letters = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in sample if letter.isalpha())
    total = letters.total()
    letters["KANA"] = sum(letters.pop(script, 0) for script in _KANAS)
    if letters["KANA"] >= _KANA * total:
        letters["KANA"] += letters.pop("CJK", 0)
    script, count = max(letters.items(), key=lambda item: item[1])
    if total < _MIN_LETTERS or count < _MAJORITY * total or script not in _SCRIPTS:
        return None
    name, codes = _SCRIPTS[script]
    first, *others = codes.split()
    if language in (first, *others):
        return None
    return _Look(first, f"{name} ({first})" + (" or another language of its script" if others else ""))


def _by_words(sample: str, language: str) -> _Look | None:
    """The language whose function words the texts are full of, where those of `language` are rare."""
    words = Counter(word.lower() for word in _WORD.findall(sample))
    ours = _frequent(language)
    if words.total() < _MIN_WORDS or ours is None:
        return None
    others = {code: words_of(code, "frequent") for code in _NAMES if code != language}
    code = max(others, key=lambda code: _count(words, others[code]))
    found, against = _count(words, others[code] - ours), _count(words, ours - others[code])
    if found < max(_MIN_HITS, _MIN_SHARE * words.total(), _TIMES * against):
        return None
    return _Look(code, _NAMES[code])


def _frequent(language: str) -> frozenset[str] | None:
    """Function words of a language: none of one that is not written in Latin; None where they are not known."""
    if language in _NAMES:
        return words_of(language, "frequent")
    return frozenset() if language in _OTHER_SCRIPT else None


def _count(words: Counter[str], wanted: frozenset[str]) -> int:
    return sum(words[word] for word in wanted)
