"""Boundary F1 against human annotation.

A *boundary* is the end of a sentence, counted in characters of the text before it that are not white space: whether the
space after a sentence belongs to it makes no difference. The end of a document is not counted: nobody can miss it.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import spacy

from localjudge.text import sentences

Segment = Callable[[str], list[int]]


def boundaries(text: str, ends: Iterable[int]) -> set[int]:
    return {sum(map(len, text[:end].split())) for end in ends} - {0, sum(map(len, text.split()))}


def f1(documents: Iterable[dict[str, Any]], segment: Segment) -> float:
    """Pooled over the documents: 2 * right / (found + annotated)."""
    right = count = 0
    for document in documents:
        found = boundaries(document["text"], segment(document["text"]))
        annotated = boundaries(document["text"], document["sentence_ends"])
        right, count = right + len(found & annotated), count + len(found) + len(annotated)
    return 2 * right / count


def sentencizer() -> Segment:
    """spaCy's, on each line by itself."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")

    def segment(text: str) -> list[int]:
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        lines = zip(starts, text.splitlines(keepends=True), strict=False)
        return [start + sentence.end_char for start, line in lines for sentence in nlp(line).sents]

    return segment


def test_a_boundary_does_not_depend_on_white_space() -> None:
    """In "Ab. Cd. E", 3 characters stand before the first boundary and 6 before the second; the last ends the text."""
    assert boundaries("Ab. Cd. E", [3, 7, 9]) == boundaries("Ab. Cd. E", [4, 8, 9]) == {3, 6}


@pytest.mark.parametrize("dataset", ["UD_English-EWT", "UD_English-GUM"])
def test_the_rules_beat_the_sentencizer_by_a_hundredth(labelled_data: Path, dataset: str) -> None:
    rows = map(json.loads, (labelled_data / "segmentation.dev.jsonl").read_text(encoding="utf-8").splitlines())
    part = [row for row in rows if row["dataset"] == dataset]
    assert f1(part, lambda text: [span.end for span in sentences(text)]) > f1(part, sentencizer()) + 0.01
