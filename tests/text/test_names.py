"""Names are compared as a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.text.names import (
    clean,
    common_spellings,
    damaged_forms,
    fold,
    is_damaged,
    look_alikes,
)


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


@pytest.mark.parametrize("name", ["Jürgen", "Zoë Müller", "Łukasz", "Ömer Şahin", "José", "Иван"])
def test_a_name_that_another_encoding_damaged_is_recognised(name: str) -> None:
    for encoding in ("cp1252", "latin-1", "cp850", "cp437", "mac_roman"):
        misread = name.encode().decode(encoding, "replace")
        assert is_damaged(misread), (misread, encoding)
        assert clean(misread) in damaged_forms(name)
    assert clean(name.encode("ascii", "replace").decode()) in damaged_forms(name)
    assert not is_damaged(name)
    assert name not in damaged_forms(name)


@pytest.mark.parametrize(
    ("name", "saved", "read"),
    [
        ("山田", "cp932", "cp850"),
        ("김민준", "cp949", "cp1252"),
        ("王芳", "gb18030", "mac_roman"),
        ("Şebnem", "cp1254", "cp1257"),
        ("Jūratė", "cp1257", "cp1252"),
        ("Łukasz", "mac_latin2", "cp1250"),
        ("Михаил", "cp866", "cp850"),
    ],
)
def test_a_name_read_in_another_encoding_is_recognised(name: str, saved: str, read: str) -> None:
    misread = name.encode(saved).decode(read, "replace")
    assert clean(misread) in damaged_forms(name)


@pytest.mark.parametrize(
    "name",
    [
        "Ann",
        "René",
        "Renè",
        "Zoé",
        "Åsa Ødegård",
        "李雷",
        "Γιώργος",
        "Мария",
        "Ann (who?)",
        "O’Neill",
    ],
)
def test_other_names_are_not_damaged(name: str) -> None:
    assert not is_damaged(name)
    for other in ("Jürgen", "René", "Zoë", "Łukasz", "Ann"):
        assert name not in damaged_forms(other)
