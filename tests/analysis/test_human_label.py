import json
import math
import unicodedata
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError, Run
from tests.analysis.conftest import written
from tests.conftest import ScriptedRun

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


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    """A run of 300 statements."""
    rows = [
        {"id": str(n), "reference": f"Number {n} is so.", "retrieved_contexts": ["It is."]}
        for n in range(300)
    ]
    return scripted_run("run", rows, {}, metrics=["context_recall"])


def sheet(run: Run, words: Sequence[object]) -> Path:
    """Return a sheet with these words as labels."""
    drawn = run.label(run.directory.with_name("drawn.jsonl"), sample=len(words))
    rows = [json.loads(line) for line in drawn.read_text(encoding="utf-8").splitlines()]
    drawn.unlink()
    for row, word in zip(rows, words, strict=True):
        row["human"] = word
    return written(run.directory.with_name("sheet.jsonl"), *rows)


def read(run: Run, words: Sequence[object]) -> list[Any]:
    """Return the labels that these words become; None if the word is none."""
    file = sheet(run, words)
    wanted = [json.loads(line)["sample_id"] for line in file.read_text().splitlines()]
    run.read_labels(file, "ann")
    lines = (run.directory / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    stored = {row["sample_id"]: row["human"] for row in map(json.loads, lines)}
    labels = [stored.get(name) for name in wanted]
    return [None if label == "?" else label for label in labels]  # kept as "not sure"


def test_words_for_yes_are_1_words_for_no_are_0_and_empty_cells_are_no_label(run: Run) -> None:
    words = [(human, word) for human, words in ANSWERS.items() for word in words]
    labels = read(run, [word for _, word in words])
    assert list(zip(labels, [word for _, word in words], strict=True)) == words
    assert not any(isinstance(label, bool) for label in labels)


@pytest.mark.parametrize(
    "word",
    ["maybe", "2", "10", "0,5", "1,5", "-1", "01", "1.0.0", "¹²", 2, 0.5, -1, [1], {}, "j'"],
)
def test_other_values_are_refused(run: Run, word: object) -> None:
    with pytest.raises(DataError, match="expected 1 or 0"):
        run.read_labels(sheet(run, [word]), "ann")


def test_case_blanks_and_unicode_form_do_not_matter(run: Run) -> None:
    """MacOS writes an accent as a separate character."""
    words: list[tuple[int, str]] = []
    forms: list[Any] = ["NFC", "NFD"]
    for word, form, blanks in product(
        ["sí", "sì", "não", "да"], forms, ["", " ", "\t", "\n", "\xa0", " \n\xa0\t"]
    ):
        for written_word in (word, word.upper()):
            spelled = unicodedata.normalize(form, written_word)
            words.append((0 if word == "não" else 1, blanks + spelled + blanks))
    assert read(run, [word for _, word in words]) == [human for human, _ in words]
