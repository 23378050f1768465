r"""The words of a text, in a form for comparisons.

    "Prices rose by 1,000 in Köln."   pric rose by 1000 in koln     (English)
    "東京は首都"                        東京 京は は首 首都          (no spaces: pairs)

Case, accents, English endings, the commas in numbers, and the spelling of a character as a
reference (&uuml;) make no difference. In other languages, words are equal if their first six
letters are.
"""

import re
import unicodedata
from functools import cache, lru_cache

from localjudge.text.character_references import read_characters
from localjudge.text.segmenter import import_spacy

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Characters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_ENDINGS = (
    "ingly",
    "tions",
    "edly",
    "tion",
    "ing",
    "ies",
    "ers",
    "ed",
    "es",
    "er",
    "ly",
    "al",
    "s",
)
"""English endings, the longest first."""
_MIN_WITH_ENDING = 5
_MIN_STEM = 3
_LETTERS_COMPARED = 6
_FORMS_KEPT = 1 << 16
ENGLISH = "en"


def words_in(text: str, language: str = ENGLISH) -> list[str]:
    """Return the words of a text in order, with repetitions."""
    plain = read_characters(text).text
    if plain.isascii():
        plain = plain.lower()
    else:
        decomposed = unicodedata.normalize("NFKD", plain.casefold())
        letters = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
        plain = unicodedata.normalize("NFC", letters)  # without accents
    words: list[str] = []
    for match in _WORD.finditer(plain):
        words += _forms(match.group(), language)
    return words


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the frequent words with little meaning, as spaCy lists them.

    Empty for a language that spaCy has no list for, or does not know.
    """
    import_spacy()
    from spacy.util import get_lang_class

    try:
        listed = get_lang_class(language).Defaults.stop_words
    except ImportError:
        return frozenset()
    forms: set[str] = set()
    for word in listed:
        forms.update(words_in(word, language))
    return frozenset(forms)


@lru_cache(maxsize=_FORMS_KEPT)
def _forms(word: str, language: str) -> tuple[str, ...]:
    if word[0].isdigit():
        return (word.replace(",", ""),)
    if _WITHOUT_SPACES.search(word):
        into_pairs: list[str] = []
        if len(word) == 1:
            into_pairs.append(word)
        for start in range(len(word) - 1):
            into_pairs.append(word[start : start + 2])
        return tuple(into_pairs)
    if language == ENGLISH:
        return (_without_ending(word),)
    return (word[:_LETTERS_COMPARED],)


def _without_ending(word: str) -> str:
    if len(word) < _MIN_WITH_ENDING:
        return word
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _MIN_STEM:
            return _without_final_e(stem)
    return _without_final_e(word)


def _without_final_e(word: str) -> str:
    if len(word) >= _MIN_WITH_ENDING:
        return word.removesuffix("e")
    return word
