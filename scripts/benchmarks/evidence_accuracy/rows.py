"""Statements with the sentences of a text, and which of these are evidence.

relevance.dev.jsonl    claims (WiCE) and questions, with labelled sentences
train_qa.jsonl.gz      SQuAD: a question and its answer as a statement; the only sentence with
                       the answer is evidence, among those of four paragraphs
attribution.dev.jsonl, attribution.train.large.jsonl.gz
                       FEVER-Symmetric: a supported claim and its sentence, among sentences of other
                       claims and, if there is one, the sentence that refutes the same claim
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.text import Segmenter

SETS = ("wice", "hotpotqa", "clapnq", "selqa", "squad2", "qed", "squad", "fever")
_OTHER_PARAGRAPHS = 3
_FEVER_SENTENCES = 32


class LabelledStatement(NamedTuple):
    """A statement or question, sentences, and for each whether it is evidence."""

    id: str
    text: str
    sentences: list[str]
    is_evidence: list[bool]


def read_statements(folder: Path, name: str, limit: int) -> list[LabelledStatement]:
    """Return at most `limit` statements that have evidence and another sentence."""
    if name == "squad":
        read = _of_squad(folder)
    elif name == "fever":
        read = _of_fever(folder)
    else:
        read = _of_relevance(folder, name)
    statements: list[LabelledStatement] = []
    for statement in read:
        if any(statement.is_evidence) and not all(statement.is_evidence):
            statements.append(statement)
        if len(statements) == limit:
            break
    return statements


def _of_relevance(folder: Path, name: str) -> Iterator[LabelledStatement]:
    with (folder / "relevance.dev.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["dataset"] == name:
                labels = [bool(label) for label in row["relevant"]]
                yield LabelledStatement(row["id"], row["question"], row["sentences"], labels)


def _of_squad(folder: Path) -> Iterator[LabelledStatement]:
    with gzip.open(folder / "train_qa.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    draw = random.Random(0)
    cut = Segmenter("en")
    for number, row in enumerate(draw.sample(rows, len(rows))):
        pair = draw.choice(row["qas"])
        texts = [row["context"]]
        texts += [other["context"] for other in draw.sample(rows, _OTHER_PARAGRAPHS)]
        sentences: list[str] = []
        for text in texts:
            sentences += [span.text for span in cut(text)]
        labels = [pair["answer"] in sentence for sentence in sentences]
        if sum(labels) == 1:
            statement = f"{pair['question']} {pair['answer']}"
            yield LabelledStatement(f"squad-{number}", statement, sentences, labels)


def _of_fever(folder: Path) -> Iterator[LabelledStatement]:
    rows = _read_fever(folder)
    draw = random.Random(0)
    for row in rows:
        if row["label"] != 1:
            continue
        sentences = [other["context"] for other in rows if other["statement"] == row["statement"]]
        others = draw.sample(rows, _FEVER_SENTENCES)
        for other in others:
            if other["context"] not in sentences:
                sentences.append(other["context"])
        sentences = sentences[:_FEVER_SENTENCES]
        draw.shuffle(sentences)
        labels = [sentence == row["context"] for sentence in sentences]
        yield LabelledStatement(row["id"], row["statement"], sentences, labels)


def _read_fever(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of FEVER-Symmetric, each with one sentence as its context."""
    lines = (folder / "attribution.dev.jsonl").read_text(encoding="utf-8").splitlines()
    with gzip.open(folder / "attribution.train.large.jsonl.gz", "rt", encoding="utf-8") as more:
        lines += more.readlines()
    rows: dict[str, dict[str, Any]] = {}
    for line in lines:
        row = json.loads(line)
        if row["dataset"] == "feversym":
            rows.setdefault(row["id"], {**row, "label": int(row["label"])})
    return list(rows.values())
