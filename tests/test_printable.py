"""No user text can write a control sequence to a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.words import printable, printable_lines


@given(st.text(st.characters(categories=None, exclude_categories=())))
def test_what_is_printed_holds_no_control_character(text: str) -> None:
    """Of all of Unicode: no control (Cc), no surrogate (Cs), no line or paragraph separator."""
    assert not {unicodedata.category(character) for character in printable(text)} & {"Cc", "Cs", "Zl", "Zp"}
    printable(text).encode()


@pytest.mark.parametrize("text", ["Größe 5 %", "日本語。", "مرحبا", "👩‍👩‍👧 family", "a\\nb"])
def test_ordinary_text_of_any_script_is_left_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_escapes_are_readable() -> None:
    """Escape sequence, newline, C1 control, right-to-left override."""
    assert printable("\x1b[31m\n\x9b\u202e") == "\\x1b[31m\\n\\x9b\\u202e"


def test_lines_may_be_kept() -> None:
    assert printable_lines("one\ntwo\x07") == "one\ntwo\\x07"
