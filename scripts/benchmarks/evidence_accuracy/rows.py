"""Statements with the sentences of a text, and which of these are evidence.

relevance.dev.jsonl    claims (WiCE) and questions, with labelled sentences
train_qa.jsonl.gz      SQuAD: a question and its answer as a statement; the only sentence with
                       the answer is evidence, among those of four paragraphs
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from localjudge.text import Segmenter

SETS = ("wice", "hotpotqa", "clapnq", "selqa", "squad2", "qed", "squad")
_OTHER_PARAGRAPHS = 3


class LabelledStatement(NamedTuple):
    """A statement or question, sentences, and for each whether it is evidence."""

    id: str
    text: str
    sentences: list[str]
    is_evidence: list[bool]


def read_statements(folder: Path, name: str, limit: int) -> list[LabelledStatement]:
    """Return at most `limit` statements that have evidence and another sentence."""
    read = _of_squad(folder) if name == "squad" else _of_relevance(folder, name)
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
