"""Clinical, legal, financial, scientific and administrative text in seven languages is split as its author says.

The author of the cases did not see the rules. A text is the `sentences` of a row joined by one space. The rules were
developed on `dev` (227 of 227 right). On `heldout`, opened once, they were right in 239 of 246, and the general
defects were fixed. No label was changed.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import spacy

from localjudge.text import sentences

FOLDER = Path(__file__).parent / "expert_sentences"


LANGUAGES = {"de", "en", "es", "fr", "it", "nl", "pt"}


def read(half: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


CASES = {half: read(half) for half in ("dev", "heldout")}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{half}-{number}") for half, cases in CASES.items() for number, case in enumerate(cases)],
)
def test_expert_texts_are_split_as_annotated(case: dict[str, Any]) -> None:
    assert [span.text for span in sentences(" ".join(case["sentences"]), case["language"])] == case["sentences"]


def test_both_halves_cover_every_language_and_domain() -> None:
    """227 and 246, at least 15 per language, and no case in both halves."""
    assert {half: len(cases) for half, cases in CASES.items()} == {"dev": 227, "heldout": 246}
    for cases in CASES.values():
        languages = Counter(case["language"] for case in cases)
        assert set(languages) == LANGUAGES
        assert min(languages.values()) >= 15
        assert {case["domain"] for case in cases} >= {"clinical", "legal", "financial"}
    dev, heldout = ({tuple(case["sentences"]) for case in cases} for cases in CASES.values())
    assert not dev & heldout


Segment = Callable[[str], list[int]]


def boundaries(text: str, ends: Iterable[int]) -> set[int]:
    return {sum(map(len, text[:end].split())) for end in ends} - {0, sum(map(len, text.split()))}


def f1(documents: Iterable[dict[str, Any]], segment: Segment) -> float:
    right = count = 0
    for document in documents:
        predicted = boundaries(document["text"], segment(document["text"]))
        annotated = boundaries(document["text"], document["sentence_ends"])
        right, count = right + len(predicted & annotated), count + len(predicted) + len(annotated)
    return 2 * right / count


def sentencizer() -> Segment:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")

    def segment(text: str) -> list[int]:
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        lines = zip(starts, text.splitlines(keepends=True), strict=False)
        return [start + sentence.end_char for start, line in lines for sentence in nlp(line).sents]

    return segment


@pytest.mark.parametrize("dataset", ["UD_English-EWT", "UD_English-GUM"])
def test_rules_beat_the_spacy_sentencizer(labelled_data: Path, dataset: str) -> None:
    rows = map(json.loads, (labelled_data / "segmentation.dev.jsonl").read_text(encoding="utf-8").splitlines())
    part = [row for row in rows if row["dataset"] == dataset]
    assert f1(part, lambda text: [span.end for span in sentences(text)]) > f1(part, sentencizer()) + 0.01
