"""The stop of an abbreviation that the user gives does not end a sentence; a list of them is read or refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.errors import UsageError
from localjudge.text import Segmenter
from localjudge.text.languages import MOST_CHARACTERS, checked_abbreviations, read_abbreviations

SIGNS = "Kfm. Kfm Dipl.-Kfm. n. Chr. n. n.Chr. i.d.R. i. d. R. Der der 3 3. (Kfm.) Kfm... Kfm.? \n\n \n é. ... \ud800"


def cut(text: str, *abbreviations: str, language: str = "de") -> list[str]:
    return [span.text for span in Segmenter(language, abbreviations=abbreviations)(text)]


@pytest.mark.parametrize(
    ("text", "abbreviation"),
    [
        ("Er ist Exkmt. Der Chef auch.", "Exkmt"),
        ("Er ist Exkmt. Der Chef auch.", "Exkmt."),
        ("Im Jahr 300 n. Xen. Der Kaiser starb.", "n. Xen."),
        ("Im Jahr 300 n.Xen. Der Kaiser starb.", "n. Xen."),
        ("Im Jahr 300 n. Xen. Der Kaiser starb.", "n.Xen."),
        ("Der Dipl.-Wohn. Der Chef auch.", "Dipl.-Wohn."),
        ("(Exkmt.) Der Chef auch.", "Exkmt"),
        ("Gilt exkmt. Der Chef auch.", "exkmt"),
        ("EXKMT. Der Chef auch.", "exkmt"),
        ("Exkmt. Der Chef auch.", "exkmt"),
    ],
)
def test_an_own_abbreviation_does_not_end_a_sentence(text: str, abbreviation: str) -> None:
    """Not even before a function word; without it every one of these texts is cut."""
    assert cut(text, abbreviation) == [text]
    assert len(cut(text)) > 1


@pytest.mark.parametrize(
    "text",
    [
        "Er ist Exkmt. Der Chef.|Danach.",
        "Er mag Texkmt.|Der Chef auch.",
        "Er ist Exkmt...|Der Chef auch.",
        "Er ist Exkmt?|Der Chef auch.",
        "Er sah Chor n.|Der Chef auch.",
    ],
)
def test_only_the_abbreviation_itself_goes_on(text: str) -> None:
    """A word that ends like it, other stops and a part of it alone end a sentence."""
    assert cut(text.replace("|", " "), "Exkmt", "n. Xen.") == text.split("|")


def test_a_blank_line_still_ends_a_sentence() -> None:
    assert cut("Er ist Exkmt.\n\nDer Chef auch.", "Exkmt") == ["Er ist Exkmt.", "Der Chef auch."]


@given(st.lists(st.sampled_from(SIGNS.split(" "))).map(" ".join))
@settings(deadline=None)
def test_spans_stay_verbatim_and_complete(text: str) -> None:
    spans = Segmenter("de", abbreviations=("Kfm", "n. Chr.", "i.d.R."))(text)
    assert [span.text for span in spans] == [text[span.start : span.end] for span in spans]
    assert "".join("".join(span.text.split()) for span in spans) == "".join(text.split())


def test_a_long_list_costs_no_more_than_a_short_one_at_each_stop() -> None:
    """5,000 abbreviations are looked up, not tried one after the other; all texts stay one sentence."""
    words = [f"Ab{chr(97 + number % 26)}{number}x" for number in range(5_000)]
    text = "Er ist Aba0x. Der Chef. " * 400
    assert len(cut(text, *words)) == 400


def test_a_file_of_abbreviations(tmp_path: Path) -> None:
    """One a line, with or without the stop, comments and blank lines left out, each once, in order."""
    file = tmp_path / "own.txt"
    file.write_text("\ufeff# ours\nPat.\n\n  n.  Chr.   # era\nPat\nAss'n\n", encoding="utf-8")
    assert read_abbreviations(file) == ("Ass'n", "Pat", "n. Chr")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no abbreviation"),
        (b"# nothing\n\n", "holds no abbreviation"),
        (b"Pat.\nthe patient\n", "own.txt:2: 'the patient' is not an abbreviation"),
        (b"Pat.,\n", "own.txt:1: 'Pat.,' is not an abbreviation"),
        (b"12.\n", "own.txt:1: '12.' is not an abbreviation"),
        (b"...\n", "own.txt:1: '...' is not an abbreviation"),
        (b"x" * (MOST_CHARACTERS + 1), "is not an abbreviation"),
        (b"Pr\xfcf.", "is not UTF-8 (byte 2)"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "own.txt"
    file.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        read_abbreviations(file)
    assert message in str(raised.value)
    assert raised.value.hint


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"no-such\.txt cannot be read: No such file or directory"):
        read_abbreviations("no-such.txt")


def test_a_word_that_is_no_abbreviation_is_refused() -> None:
    with pytest.raises(UsageError, match="abbreviations: 'two words' is not an abbreviation"):
        checked_abbreviations(["two words"])


def test_they_are_part_of_the_identity_whatever_their_order_and_stops() -> None:
    """A list with other content is another segmenter; none at all is the rules alone."""
    first, same = Segmenter("de", abbreviations=("Pat.", "Aufn")), Segmenter("de", abbreviations=("Aufn.", "Pat"))
    other = Segmenter("de", abbreviations=("Pat",))
    assert first == same
    assert first.identity == same.identity != other.identity
    assert "abbreviations_sha256" not in Segmenter("de").identity
    assert len({str(one.identity) for one in (first, other, Segmenter("de"))}) == 3


def test_they_do_not_leak_into_other_segmenters() -> None:
    """Pipelines are kept for the process; the one with abbreviations is not the one without."""
    assert len(cut("Er ist Exkmt. Der Chef.", "Exkmt")) == 1
    assert len(cut("Er ist Exkmt. Der Chef.")) == 2


def test_a_spacy_pipeline_takes_none() -> None:
    with pytest.raises(UsageError, match="abbreviations cannot be given to the spaCy pipeline 'xx_ent'"):
        Segmenter(pipeline="xx_ent", abbreviations=("Pat.",))
