"""Reads the labelled development data: pairs of texts, a label, and the data set that each comes from.

attribution.dev.jsonl   dataset, context, statement, label
relevance.dev.jsonl     dataset, question, sentences[], relevant[]
"""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

TASKS = ("attribution", "relevance")


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class Paragraph(NamedTuple):
    """A paragraph with questions that it answers."""

    text: str
    answered: list[tuple[str, str]]
    """Questions with their answers."""

    @property
    def sentences(self) -> list[str]:
        """The text cut after full stops."""
        return [sentence for sentence in _SENTENCE_END.split(self.text) if sentence]


class Example(NamedTuple):
    """One labelled question to the judge."""

    dataset: str
    group: str
    """Examples that share their context or question, and are not independent."""
    given: str
    """The context, or the question."""
    judged: str
    """The statement, or the sentence."""
    label: int


def examples(folder: Path, task: str) -> list[Example]:
    """All examples of a task, in the order of the file."""
    rows = _rows(folder / f"{task}.dev.jsonl")
    if task == "attribution":
        return [Example(r["dataset"], r["context"], r["context"], r["statement"], int(r["label"])) for r in rows]
    return [
        Example(row["dataset"], row["id"], row["question"], sentence, int(label))
        for row in rows
        for sentence, label in zip(row["sentences"], row["relevant"], strict=True)
    ]


def articles(folder: Path) -> list[list[Paragraph]]:
    """Paragraphs with answered questions, by article."""
    by_title: dict[str, list[Paragraph]] = defaultdict(list)
    for row in _rows(folder / "train_qa.jsonl.gz"):
        answered = [(pair["question"], pair["answer"]) for pair in row["qas"]]
        by_title[row["title"]].append(Paragraph(row["context"], answered))
    return list(by_title.values())


def prose(folder: Path) -> list[str]:
    """Paragraphs of plain prose."""
    return [row["text"] for row in _rows(folder / "train_prose.jsonl.gz")]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    yield from map(json.loads, lines)
