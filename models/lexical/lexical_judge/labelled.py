"""Read the labelled development data: pairs of texts, a label, and the name of their data set.

attribution.dev.jsonl   dataset, context, statement, label
relevance.dev.jsonl     dataset, question, sentences[], relevant[]
                        also as whole passages: the task "chunk"
"""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

TASKS = ("attribution", "relevance", "chunk")

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
    """The statement, the sentence or the chunk."""
    label: int
    beside: tuple[str, ...] = ()
    """The passages that a sentence is judged beside."""


def examples(folder: Path, task: str) -> list[Example]:
    """All examples of a task, in the order of the file."""
    if task == "attribution":
        rows = _rows(folder / "attribution.dev.jsonl")
        return [
            Example(r["dataset"], r["context"], r["context"], r["statement"], int(r["label"]))
            for r in rows
        ]
    rows = _rows(folder / "relevance.dev.jsonl")
    if task == "relevance":
        return list(chain.from_iterable(map(_sentences, rows)))
    return _of_both_labels(list(chain.from_iterable(map(_chunks, rows))))


def _sentences(row: dict[str, Any]) -> Iterator[Example]:
    beside = tuple(text for text, _ in _passages(row))
    for sentence, label in zip(row["sentences"], row["relevant"], strict=True):
        yield Example(row["dataset"], row["id"], row["question"], sentence, int(label), beside)


def _chunks(row: dict[str, Any]) -> Iterator[Example]:
    for text, label in _passages(row):
        yield Example(row["dataset"], row["id"], row["question"], text, label)


def _passages(row: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Each passage, and whether one of its sentences is relevant.

    HotpotQA's sentences begin with their title.
    """

    def title(pair: tuple[str, int]) -> str:
        return pair[0].split(": ")[0] if row["dataset"] == "hotpotqa" else ""

    for _, passage in groupby(zip(row["sentences"], row["relevant"], strict=True), key=title):
        sentences, labels = zip(*passage, strict=True)
        yield " ".join(sentences), int(any(labels))


def _of_both_labels(examples: list[Example]) -> list[Example]:
    """Those of data sets that know positive and negative examples."""
    positive, negative = (
        {example.dataset for example in examples if example.label == label} for label in (1, 0)
    )
    return [example for example in examples if example.dataset in positive & negative]


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
