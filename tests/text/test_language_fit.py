import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from localjudge.text.language_guess import language_warning, row_language_warning
from localjudge.text.languages import languages, load_words
from tests.text.test_sentence_cases import EXPERT

NAMES = ("de", "en", "es", "fr", "it", "nl", "pt")
TEXTS = {
    language: [" ".join(case["sentences"]) for case in EXPERT if case["language"] == language]
    for language in NAMES
}

SCRIPTS = {
    "ar": "اجتمع مجلس الإدارة أمس لمناقشة الميزانية الجديدة للشركة.",
    "el": "Το διοικητικό συμβούλιο συνεδρίασε χθες για τον προϋπολογισμό.",
    "hi": "कंपनी के नए बजट पर चर्चा करने के लिए निदेशक मंडल की कल बैठक हुई।",
    "ja": "取締役会は昨日、会社の新しい予算について話し合うために開かれました。",
    "ko": "이사회는 어제 회사의 새로운 예산을 논의하기 위해 모였습니다.",
    "ru": "Совет директоров собрался вчера, чтобы обсудить новый бюджет компании.",
    "th": "คณะกรรมการบริษัทประชุมกันเมื่อวานนี้เพื่อหารือเรื่องงบประมาณใหม่",
    "zh": "董事会昨天开会讨论了公司的新预算并且决定了明年的工作计划和安排",
}


@pytest.mark.parametrize("language", NAMES)
@pytest.mark.parametrize("configured", NAMES)
def test_each_of_the_seven_languages_is_recognised_among_the_others(
    language: str, configured: str
) -> None:
    line = language_warning(TEXTS[language], configured)
    if language == configured:
        assert line is None
    else:
        assert str(line).startswith(
            f"the texts look like language {language}, and language is {configured}: "
        )
        assert str(line).endswith(f"use language={language!r}")


@pytest.mark.parametrize("code", SCRIPTS)
def test_another_script_is_recognised_for_any_words(code: str) -> None:
    assert str(language_warning([SCRIPTS[code]] * 5, "en")).endswith(f"use language={code!r}")
    assert language_warning([SCRIPTS[code]] * 5, code) is None
    assert str(language_warning(TEXTS["en"], "ru")).startswith(
        "the texts look like language en, and language is ru"
    )


def test_languages_with_the_same_script_are_not_reported() -> None:
    assert language_warning([SCRIPTS["ru"]] * 5, "bg") is None
    assert language_warning([SCRIPTS["ar"]] * 5, "fa") is None


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["Der Patient klagt über Schmerzen und Fieber."],
        ["BP 120/80 mmHg, HR 88, RR 16. " * 20],
        ["Müller GmbH, Köln; Lindner KG, Kassel; Weber AG, Ulm. " * 20],
        ["1.5 2.5 3.5 % € " * 100],
        [*TEXTS["en"][:60], *TEXTS["de"][:60]],
        [*TEXTS["en"][:60], *[SCRIPTS["ru"]] * 20],
        [
            "The term Recht der Schuldverhältnisse (law of obligations) "
            "is used in the German code. " * 10
        ],
    ],
)
def test_short_mixed_and_wordless_texts_are_not_reported(texts: list[str]) -> None:
    assert language_warning(texts, "en") is None


@pytest.mark.parametrize("configured", ["xx", "fi", "ca"])
def test_languages_without_a_word_list_are_not_checked(configured: str) -> None:
    assert language_warning(TEXTS["de"], configured) is None


GERMAN = (
    "Sie können innerhalb eines Monats kündigen (§ 40 Abs. 1 VVG). Das gilt ab dem 1. Januar 2025."
)
ENGLISH = "The deductible is 500 euros for each claim. Report the damage within one week."
FRENCH = (
    "Vous pouvez résilier le contrat dans un mois. Cela est écrit dans les conditions de la police."
)


@pytest.mark.parametrize(
    ("texts", "language", "expected"),
    [
        ([ENGLISH] * 3 + [GERMAN], "en", "1 of 4 samples look like another language (1 like de)"),
        ([GERMAN] * 3 + [ENGLISH], "de", "1 of 4 samples look like another language (1 like en)"),
        ([ENGLISH] * 9 + [FRENCH, GERMAN, FRENCH], "en", "(2 like fr, 1 like de)"),
        ([ENGLISH] * 3 + [SCRIPTS["ja"]], "en", "(1 like ja)"),
    ],
)
def test_rows_in_another_language_are_counted(
    texts: list[str], language: str, expected: str
) -> None:
    assert expected in str(row_language_warning(texts, language))


@pytest.mark.parametrize("language", NAMES)
def test_no_row_of_a_language_looks_like_another(language: str) -> None:
    assert row_language_warning(TEXTS[language], language) is None
    assert row_language_warning(["Müller GmbH, Köln", "1.5 %", ""], language) is None
    assert row_language_warning([GERMAN], "xx") is None


class ReadText(str):
    """A text that counts the characters of its slices."""

    read = 0

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        ReadText.read += len(part)
        return part


def test_language_check_reads_a_bounded_sample_of_all_data() -> None:
    """At most 50,000 characters are read of 500 texts across the data, of 200 MB in all."""
    text = " ".join(TEXTS["de"])
    texts = [ReadText(text * 300)] * 500
    assert language_warning(texts, "en") == language_warning([text], "en")
    assert 10_000 < ReadText.read <= 50_000
    half = [" ".join(TEXTS["en"])] * 1_000
    assert language_warning([*half, *[text] * 1_000], "en") is None


def test_english_data_sets_are_not_reported(labelled_data: Path) -> None:
    for file in sorted(labelled_data.glob("*.dev.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        texts = [
            " ".join(value for value in row.values() if isinstance(value, str)) for row in rows
        ]
        assert language_warning(texts, "en") is None
        assert [text for text in texts if language_warning([text], "en")] == []
        assert row_language_warning(texts, "en") is None
    with gzip.open(labelled_data / "train_prose.jsonl.gz", "rt", encoding="utf-8") as lines:
        prose = [json.loads(line)["text"] for line, _ in zip(lines, range(2_000), strict=False)]
    assert [text for text in prose if language_warning([text], "en")] == []


CODES = {
    "Arabic": "ar", "Czech": "cs", "Danish": "da", "Dutch": "nl", "English": "en", "French": "fr",
    "German": "de", "Hindi": "hi", "Italian": "it", "Norwegian": "nb", "Persian": "fa",
    "Polish": "pl", "Portuguese": "pt", "Russian": "ru", "Spanish": "es", "Swedish": "sv",
}  # fmt: skip
GROUPS = ("never_ends", "before_number", "may_end", "often_ends", "units")


def test_the_table_of_languages_states_the_numbers_of_abbreviations() -> None:
    page = Path(__file__).parents[2] / "docs" / "data.md"
    rows = re.findall(
        r"^\| ([\w, ]+) \| (\d+) to (\d+) each", page.read_text("utf-8"), re.MULTILINE
    )
    stated: dict[str, tuple[int, int]] = {}
    counted: dict[str, tuple[int, int]] = {}
    for names, least, most in rows:
        counts = []
        for name in names.split(", "):
            words = [load_words(CODES[name], group) for group in GROUPS]
            counts.append(len(frozenset().union(*words)))
        stated[names] = int(least), int(most)
        counted[names] = min(counts), max(counts)
    assert counted == stated
    listed = ", ".join(stated).split(", ")
    assert {CODES[name] for name in listed} == set(languages())
