"""The words by which the finder compares a statement with sentences."""

import pytest

from localjudge.text import Segmenter
from localjudge.text.finder import Finder

sentences = Segmenter()


def words_of(statement: str, language: str = "en") -> list[str]:
    """Return each word of a statement once, in order."""
    return list(Finder([], sentences, language).weights(statement))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Prices rose by 1,000 in Köln.", ["pric", "rose", "by", "1000", "in", "koln"]),
        ("The founders founded it", ["the", "found", "it"]),
        ("2.5 and 25", ["2.5", "and", "25"]),
        ("red", ["red"]),
        ("used", ["used"]),
        ("don't_stop", ["don", "t", "stop"]),
        ("<b>bold</b>", ["b", "bold"]),
        ("", []),
        ("...", []),
    ],
)
def test_case_accents_endings_and_commas_in_numbers_make_no_difference(
    text: str, words: list[str]
) -> None:
    """`prices` loses `es`, `founders` `ers`, `founded` `ed`; words of four letters keep theirs."""
    assert words_of(text) == words


@pytest.mark.parametrize(
    "forms",
    [
        ("price", "prices", "pricing"),
        ("founder", "founders", "founded"),
        ("creation", "creations"),
        ("walk", "walks", "walked", "walking"),
    ],
)
def test_forms_of_an_english_word_are_equal(forms: tuple[str, ...]) -> None:
    assert len({tuple(words_of(form)) for form in forms}) == 1


def test_other_languages_compare_the_first_six_letters() -> None:
    assert words_of("gegründete Gegründet", "de") == ["gegrun"]


def test_text_without_spaces_is_compared_by_pairs_of_signs() -> None:
    assert words_of("東京は首都") == ["東京", "京は", "は首", "首都"]
    assert words_of("犬") == ["犬"]
