import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import localjudge.text.languages
from localjudge.errors import InputError
from localjudge.text import Segmenter
from localjudge.text.languages import MOST_CHARACTERS, Conventions, abbreviations_of
from localjudge.text.stops import _WORD_EDGE


def cut(text: str, *abbreviations: str, language: str = "de") -> list[str]:
    return [span.text for span in Segmenter(language, abbreviations=abbreviations)(text)]


@pytest.mark.parametrize(
    ("text", "abbreviation"),
    [
        ("Er ist Exkmt. Der Chef auch.", "Exkmt"),
        ("Er ist Exkmt. Der Chef auch.", "Exkmt."),
        ("Im Jahr 300 n. Xen. Der Kaiser starb.", "n. Xen."),
        ("Im Jahr 300 n. Xen. Der Kaiser starb.", "n.Xen."),
        ("Der Dipl.-Wohn. Der Chef auch.", "Dipl.-Wohn."),
        ("Gilt exkmt. Der Chef auch.", "exkmt"),
        ("EXKMT. Der Chef auch.", "exkmt"),
        ("Exkmt. Der Chef auch.", "exkmt"),
    ],
)
def test_a_user_abbreviation_does_not_end_a_sentence(text: str, abbreviation: str) -> None:
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
def test_similar_words_still_end_a_sentence(text: str) -> None:
    assert cut(text.replace("|", " "), "Exkmt", "n. Xen.") == text.split("|")


def test_long_abbreviation_lists_are_as_fast_as_short_ones() -> None:
    """5,000 abbreviations take one lookup; all texts stay one sentence."""
    words = [f"Ab{chr(97 + number % 26)}{number}x" for number in range(5_000)]
    text = "Er ist Aba0x. Der Chef. " * 400
    assert len(cut(text, *words)) == 400


def test_abbreviation_file_format(tmp_path: Path) -> None:
    """One per line, with or without the stop; comments, blank lines and repetitions are dropped, the order is kept."""
    file = tmp_path / "own.txt"
    file.write_text("\ufeff# ours\nPat.\n\n  n.  Chr.   # era\nPat\nAss'n\n", encoding="utf-8")
    assert abbreviations_of(file) == ("Ass'n", "Pat", "n. Chr")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no abbreviation"),
        (b"Pat.\nthe patient\n", "own.txt:2: 'the patient' is not an abbreviation"),
        (b"Pat.,\n", "own.txt:1: 'Pat.,' is not an abbreviation"),
        (b"...\n", "own.txt:1: '...' is not an abbreviation"),
        (b"x" * (MOST_CHARACTERS + 1), "is not an abbreviation"),
        (b"Pr\xfcf.", "cannot be read: 'utf-8' codec can't decode byte 0xfc in position 2"),
    ],
)
def test_an_invalid_abbreviation_file_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "own.txt"
    file.write_bytes(content)
    with pytest.raises(InputError) as raised:
        abbreviations_of(file)
    assert message in str(raised.value)
    assert raised.value.hint


def test_abbreviations_identify_the_segmenter_in_any_order() -> None:
    first, same = Segmenter("de", abbreviations=("Pat.", "Aufn")), Segmenter("de", abbreviations=("Aufn.", "Pat"))
    other = Segmenter("de", abbreviations=("Pat",))
    assert first == same
    assert first.identity == same.identity != other.identity
    assert "abbreviations_sha256" not in Segmenter("de").identity
    assert len({str(segmenter.identity) for segmenter in (first, other, Segmenter("de"))}) == 3


def test_a_spacy_pipeline_takes_no_abbreviations() -> None:
    with pytest.raises(InputError, match="abbreviations cannot be given to the spaCy pipeline 'xx_ent'"):
        Segmenter(pipeline="xx_ent", abbreviations=("Pat.",))


FILES = sorted((Path(localjudge.text.languages.__file__).parent / "abbreviations").glob("*.toml"))


GROUPS = {
    *("never_ends", "before_number", "may_end", "often_ends", "units", "after_unit"),
    *("lettered", "valued", "endings", "particles", "openers", "not_openers", "frequent"),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_word_group_has_a_source_and_matchable_words(file: Path) -> None:
    """All but three groups are fields of `Conventions`; those three become its starters and the language's signs.

    No word has its final stop or contains a separator, and no group has a word twice.
    """
    assert {field.name for field in fields(Conventions)} >= GROUPS - {"openers", "not_openers", "frequent"}
    words: dict[str, list[str]] = {}
    for name, entries in tomllib.loads(file.read_text(encoding="utf-8")).items():
        assert name in GROUPS
        assert all(set(entry) == {"source", "words"} and entry["source"] for entry in entries)
        words[name] = [word for entry in entries for word in entry["words"].split()]
        assert len(words[name]) == len(set(words[name])), name
        for word in words[name]:
            assert not word.endswith("."), (name, word)
            if name in {"never_ends", "before_number", "may_end", "often_ends"}:
                assert not _WORD_EDGE.search(word), (name, word)
            if name in {"lettered", "valued", "openers", "not_openers", "frequent"}:
                assert word == word.lower(), (name, word)
    assert set(words.get("never_ends", [])).isdisjoint(words.get("often_ends", []))
