import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.labels.label_sheet import parse_label

_YES = (
    "1 1.0 1,0 1,00 true TRUE yes Yes y ja JA oui si sí SÌ tak sim да ДА wahr WAHR vrai verdadero "
    "verdadeiro vero waar prawda истина １"
)
_NO = (
    "0 0.0 0,0 0.00 false FALSE no n nein NEIN non nee nie não нет Нет falsch faux falso onwaar "
    "fałsz FAŁSZ ложь ０"
)
ANSWERS: dict[int | None, list[object]] = {
    1: [*_YES.split(), 1, 1.0, True],
    0: [*_NO.split(), 0, 0.0, False],
    None: [None, "", " \t", "?", "-", "？", math.nan],
}


@pytest.mark.parametrize(
    ("human", "word"), [(human, word) for human, words in ANSWERS.items() for word in words]
)
def test_words_for_yes_are_1_words_for_no_are_0_and_empty_cells_are_no_label(
    human: int | None, word: object
) -> None:
    assert parse_label(word) == human
    assert not isinstance(parse_label(word), bool)


@pytest.mark.parametrize(
    "word",
    ["maybe", "2", "10", "0,5", "1,5", "-1", "01", "1.0.0", "¹²", 2, 0.5, -1, [1], {}, "j'"],
)
def test_other_values_are_refused(word: object) -> None:
    with pytest.raises(ValueError, match="not a label"):
        parse_label(word)


@given(
    st.sampled_from(["sí", "sì", "não", "да"]),
    st.sampled_from(["NFC", "NFD"]),
    st.booleans(),
    st.text(" \t\n\xa0"),
)
def test_case_blanks_and_unicode_form_do_not_matter(
    word: str, form: str, upper: bool, blanks: str
) -> None:
    """MacOS writes an accent as a separate character."""
    written = unicodedata.normalize(form, word.upper() if upper else word)  # type: ignore[arg-type]
    assert parse_label(blanks + written + blanks) == (0 if word == "não" else 1)
