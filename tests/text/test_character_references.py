"""References of HTML are read as their characters, and offsets are those of the stored text."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import Sample
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Attribution, Span, Unit, response_statements
from localjudge.text import Segmenter
from localjudge.text.finder import Finder
from localjudge.text.markup import read_characters
from localjudge.text.segmenter import judged_sentences

sentences = Segmenter()

SPELLINGS = [
    ("M&uuml;ller f&uuml;hrt", "Müller führt"),
    ("M&#252;ller", "Müller"),
    ("M&#xFC;ller", "Müller"),
    ("5&ndash;10&nbsp;euro", "5–10\xa0euro"),
    ("&#26481;&#20140;", "東京"),
    ("R&amp;D &lt; 5", "R&D < 5"),
    ("&amp;uuml;", "&uuml;"),
    ("AT&T; R&D; a?b=1&copy=2", "AT&T; R&D; a?b=1&copy=2"),
    ("&unknown; &#; &#xZZ;", "&unknown; &#; &#xZZ;"),
    ("Write `&uuml;` for &uuml;", "Write `&uuml;` for ü"),
    ("&#x110000; &#0;", "\ufffd \ufffd"),
]


@pytest.mark.parametrize(("stored", "characters"), SPELLINGS)
def test_a_reference_is_its_character_except_in_code(stored: str, characters: str) -> None:
    assert read_characters(stored).text == characters


@given(st.lists(st.sampled_from(["&uuml;", "&#252;", "a", ". ", "&quot;", "&", "É"])))
def test_each_character_has_its_stored_offset(parts: list[str]) -> None:
    """The stored offset of a character is the length of the parts before it."""
    read = read_characters("".join(parts))
    offset = 0
    stored = 0
    for part in parts:
        assert read.stored(offset) == stored
        offset += len(html.unescape(part))
        stored += len(part)


CUTS = [
    ("He said &quot;no.&quot; |She left."),
    ("One.&nbsp;|Two."),
    ("&#171; Oui. &#187; |Non."),
    ("Er sagte: &bdquo;Nein.&ldquo; |Dann ging er."),
    ("One.&#10;&#10;|Two."),
    ("M&uuml;ller kam. |&Uuml;bung hilft."),
    ("&#26481;&#20140;&#12391;&#12377;&#12290;|&#26481;"),
    ("Wait&hellip; |Then go."),
    ("&ldquo;It is old.&rdquo; |It is big."),
    ("Dr.&nbsp;No came. |He left."),
    ("Use the &lt;br&gt; tag. |Then go."),
]


@pytest.mark.parametrize("marked", CUTS)
def test_a_text_is_cut_as_its_characters_are(marked: str) -> None:
    text = marked.replace("|", "")
    judged = judged_sentences(sentences)(text)
    bare = [html.unescape(span.text).strip() for span in judged]
    assert bare == [html.unescape(part).strip() for part in marked.split("|")]
    assert all(text[span.start : span.end] == span.text for span in judged)


def test_marks_and_thinking_have_the_offsets_of_the_stored_text() -> None:
    text = "<think>&uuml;?</think>K&ouml;ln is old.&nbsp;[1] It is big.[2]&nbsp;"
    judged = response_statements(Sample(id="1", response=text), sentences)
    assert [statement.shown for statement in judged] == ["K&ouml;ln is old.", "It is big."]
    names = [[text[mark.start : mark.end] for mark in statement.marks] for statement in judged]
    assert names == [["[1]"], ["[2]"]]


def test_references_alone_are_no_sentence() -> None:
    assert judged_sentences(sentences)("One.\n\n&nbsp;\n\n&mdash;\n\nTwo.")[1].text == "Two."


def test_the_judge_reads_characters() -> None:
    unit = Unit(kind="statement", index=0, source="response", span=Span.whole("M&uuml;ller"))
    task = Attribution(unit=unit, user_input="&Uuml;?", contexts=("S&ouml;hne &lt;/context&gt;",))
    request = PromptWriter(load_profile("lexical")).request(task)
    shown = "".join(piece.text for node in request.path for piece in node)
    assert "Müller" in shown
    assert "Söhne </context>" in shown
    assert "&" not in shown


def test_the_finder_reads_characters() -> None:
    """The statement shares all words with the first sentence, and none with the second."""
    text = "M&uuml;ller kam. Er ging."
    best = Finder([text], sentences, "de").find("Müller kam.")[0]
    assert best.score == 1
    assert text[best.span.start : best.span.end] == "M&uuml;ller kam."
    in_reference, in_character = (
        Finder([], sentences).weights(word) for word in ("caf&eacute;", "café")
    )
    assert in_reference == in_character
