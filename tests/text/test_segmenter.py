"""Spans are verbatim, ordered and complete, for every string that Python can hold."""

import sys
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.errors import UsageError
from localjudge.text import Segmenter, sentences

ANY_TEXT = st.text(
    st.one_of(st.characters(), st.characters(categories=["Cs", "Cc"]), st.sampled_from(" \n\r\t.!?\"')A1a-*"))
)


def assert_verbatim_and_complete(text: str) -> None:
    end = 0
    for span in sentences(text):
        assert span.text == text[span.start : span.end]
        assert span.text
        assert span.text == span.text.strip()
        assert not text[end : span.start].strip()
        end = span.end
    assert not text[end:].strip()


@given(ANY_TEXT)
@settings(deadline=None)
def test_spans_are_verbatim_ordered_and_cover_all_that_is_not_white_space(text: str) -> None:
    assert_verbatim_and_complete(text)


def test_the_text_of_the_first_example_has_four_sentences() -> None:
    text = (
        "Albert Einstein born in 14 March 1879 was  German-born theoretical physicist, widely held to be one of the "
        "greatest and most influential scientists of all time. He received the 1921 Nobel Prize in Physics for his "
        "services to theoretical physics. He published 4 papers in 1905.  Einstein moved to Switzerland in 1895"
    )
    assert [span.text[:11] for span in sentences(text)] == ["Albert Eins", "He received", "He publishe", "Einstein mo"]


def test_an_own_segmenter_replaces_the_rules() -> None:
    assert sentences("One. Two.", segmenter=lambda _: []) == []


def test_the_identity_names_everything_that_can_move_a_cut() -> None:
    assert set(Segmenter("de").identity) >= {"name", "version", "rules", "language"}


def test_an_unknown_language_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="zz"):
        sentences("One.", language="zz")


def test_importing_the_package_does_not_import_spacy() -> None:
    run([sys.executable, "-c", "import localjudge.text, sys; assert 'spacy' not in sys.modules"], check=True)
