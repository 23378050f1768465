from pathlib import Path

import pytest

from localjudge import InputError, Judge, ScriptedEngine
from localjudge.text import Segmenter

MAX_CHARACTERS = 40


def cut(text: str, *abbreviations: str, language: str = "de") -> list[str]:
    return [span.text for span in Segmenter(language, abbreviations=abbreviations)(text)]


def read_file(file: Path) -> tuple[str, ...]:
    with Judge.open(engine=ScriptedEngine({}), abbreviations=str(file)) as judge:
        return judge.settings.abbreviations


@pytest.mark.parametrize(
    ("text", "abbreviation"),
    [
        ("Er ist Exkmt. Der Chef auch.", "Exkmt."),
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
    words = [f"Ab{chr(97 + number % 26)}{number}x" for number in range(5_000)]
    text = "Er ist Aba0x. Der Chef. " * 400
    assert len(cut(text, *words)) == 400


def test_abbreviation_file_format(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("\ufeff# ours\nPat.\n\n  n.  Chr.   # era\nPat\nAss'n\n", encoding="utf-8")
    assert read_file(file) == ("Ass'n", "Pat", "n. Chr")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no abbreviation"),
        (b"Pat.\nthe patient\n", "own.txt:2: 'the patient'"),
        (b"Pat.,\n", "own.txt:1: 'Pat.,' is not an abbreviation"),
        (b"...\n", "own.txt:1: '...' is not an abbreviation"),
        (b"x" * (MAX_CHARACTERS + 1), "is not an abbreviation"),
        (b"Pr\xfcf.", "cannot be read: 'utf-8' codec"),
    ],
)
def test_an_invalid_abbreviation_file_is_refused_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "own.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_file(file)


def test_abbreviations_identify_the_segmenter_in_any_order() -> None:
    first = Segmenter("de", abbreviations=("Pat.", "Aufn"))
    same = Segmenter("de", abbreviations=("Aufn.", "Pat"))
    other = Segmenter("de", abbreviations=("Pat",))
    assert (first, first.identity) == (same, same.identity)
    assert len({str(segmenter.identity) for segmenter in (first, other, Segmenter("de"))}) == 3


def test_a_spacy_pipeline_takes_no_abbreviations() -> None:
    with pytest.raises(InputError, match=r"abbreviations .*'xx_ent'"):
        Segmenter(pipeline="xx_ent", abbreviations=("Pat.",))
