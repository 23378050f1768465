r"""Hard cases by language: marks, markup, quotations, single capitals, stops of other scripts.

Each line of `hard_cases/LANGUAGE.txt` is a text, with "|" where it is cut; "⏎" stands for a line
end and `\u200b` for that character. `\n` is a backslash and an n, as double escaping leaves them.
"""

from pathlib import Path

import pytest

from localjudge.text import Segmenter

FOLDER = Path(__file__).parent / "hard_cases"
CASES = [
    (file.stem, line)
    for file in sorted(FOLDER.glob("*.txt"))
    for line in file.read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize(("language", "line"), CASES)
def test_a_hard_case_is_cut_at_the_bars(language: str, line: str) -> None:
    marked = line.replace("⏎", "\n").replace("\\u200b", "\u200b")
    expected = [part.strip() for part in marked.split("|")]
    assert [span.text for span in Segmenter(language)(marked.replace("|", ""))] == expected


@pytest.mark.parametrize("language", ["ja", "zh", "hi", "ar", "de", "fr", "es", "en"])
def test_each_language_has_at_least_thirty_hard_cases(language: str) -> None:
    cases = (FOLDER / f"{language}.txt").read_text(encoding="utf-8")
    assert len(cases.splitlines()) >= 30
