"""Labelled questions: development rows, training rows, and rows that are made from contexts without people."""

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from reference_judge.labelled import Example, examples

from localjudge.doctor.made_labels import made_labels
from localjudge.text.segmenter import Segmenter

from .states import Asked

LONGEST_CONTEXT, LONGEST_STATEMENT = 1000, 500
ALLOWED = ("begin", "feversym")
"""BEGIN (CDLA-Sharing) and FEVER-Symmetric (CC BY-SA); made labels are of SQuAD's paragraphs (CC BY-SA)."""
_PEOPLES, _MADE, _LONGEST_PARAGRAPH = 300, 300, 700


class Numbers(NamedTuple):
    """How many rows: of people's labels and of made ones to fit on, and of each task to judge by."""

    train: int = 1000
    made: int = 300
    attribution: int = 400
    relevance: int = 100
    chunk: int = 0


def rows(folder: Path, numbers: Numbers) -> list[Asked]:
    """The rows of each kind, spread evenly over the whole, so that any beginning of it is a fair one."""
    chance = random.Random(0)
    people = [Asked("train", "attribution", each) for each in _short(examples(folder, "attribution", "train"), chance)]
    parts = [people[: numbers.train], list(_made([asked.example for asked in people]))[: numbers.made]]
    for task, most in numbers._asdict().items():
        if task not in ("train", "made"):
            parts.append([Asked("dev", task, each) for each in _short(examples(folder, task), chance)][:most])
    placed = [((place + 0.5) / len(part), asked) for part in parts for place, asked in enumerate(part)]
    return [asked for _, asked in sorted(placed, key=lambda each: each[0])]


def bundled_labels(folder: Path) -> list[dict[str, Any]]:
    """What bundled heads are fitted on: context, statement and label."""
    chance = random.Random(0)
    every = examples(folder, "attribution", "train")
    peoples = _short([each for each in every if each.dataset.startswith(ALLOWED)], chance)[:_PEOPLES]
    with gzip.open(folder / "train_qa.jsonl.gz", "rt", encoding="utf-8") as lines:
        paragraphs = sorted({json.loads(line)["context"] for line in lines})
    short = [text for text in paragraphs if len(text) <= _LONGEST_PARAGRAPH]
    made = list(islice(made_labels(chance.sample(short, _MADE), _sentences), _MADE))
    rows = [(each.given, each.judged, each.label) for each in peoples]
    rows += [(row.texts[0], row.statement or "", row.labels[0] or 0) for row in made]
    return [{"context": context, "statement": statement, "label": label} for context, statement, label in rows]


def _sentences(text: str) -> list[str]:
    return [span.text for span in Segmenter()(text)]


def _short(found: Sequence[Example], chance: random.Random) -> list[Example]:
    """In random order, as many of each label."""
    kept = [each for each in found if len(each.given) <= LONGEST_CONTEXT and len(each.judged) <= LONGEST_STATEMENT]
    sides = [chance.sample(side, len(side)) for side in ([e for e in kept if e.label == n] for n in (0, 1))]
    return [each for pair in zip(*sides, strict=False) for each in pair]


def _made(people: Sequence[Example]) -> Iterator[Asked]:
    dataset_of = {each.given: each.dataset for each in people}
    for row in made_labels([*dataset_of], _sentences):
        [text], [label] = row.texts, row.labels
        yield Asked("made", "attribution", Example(dataset_of[text], text, text, row.statement or "", label or 0))
