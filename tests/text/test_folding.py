"""Names are compared as a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.text.folding import clean, common_spellings, fold, look_alikes


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Chirurgie ", "Chirurgie"),
        ("Chirurgie\u00a0", "Chirurgie"),
        ("A\u200bnn", "Ann"),
        ("\ufeffAnn", "Ann"),
        ("Ann  \t Example", "Ann Example"),
        ("\u202eAnn", "Ann"),
        ("Zoe\u0308", "Zoë"),
        ("Ａnn", "Ann"),
        ("\u200b", ""),
    ],
)
def test_a_clean_text_has_no_invisible_differences(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text())
def test_cleaning_and_folding_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert fold(fold(text)) == fold(text)
    assert fold(clean(text)) == fold(text)


def test_the_most_frequent_spelling_is_chosen() -> None:
    """ER twice, er once. With as many of each, the first in the alphabet."""
    assert common_spellings(["er", "ER", "ER ", "b", "B"]) == {"er": "ER", "b": "B"}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["Ann", "\u0410nn", "Bob"], [("Ann", "\u0410nn")]),
        (["Ann", "ann "], []),
        (["Oscar", "0scar"], [("Oscar", "0scar")]),
        (["Zoë", "Zoe"], []),
        (["Ann", "Anna"], []),
    ],
)
def test_names_that_look_alike_are_grouped(names: list[str], groups: list[tuple[str, ...]]) -> None:
    assert look_alikes(names) == groups
