"""Build samples from labelled statements. The true score is the share of supported statements.

    contexts    one for each sentence, and in no other sample
    answer      2, 3 or 4 sentences in random order; 9 of the 18 sentences of six samples are
                supported

Every statement is one sentence by any rule: it starts with a capital and has its only full stop at
the end. None refers to a previous sentence ("It", "However"), because evaluators that rephrase
claims would merge the two.
"""

import json
import random
import re
from pathlib import Path
from typing import NamedTuple

BLOCK = 6
_REFERRING = (
    "It|Its|He|His|She|Her|They|Their|This|These|That|Those|However|Also|Some|In fact|On the other"
)
_SENTENCE = re.compile(rf"(?!(?:{_REFERRING})\b)[A-Z][^.!?\n]{{30,250}}\.")
_LONGEST_CONTEXT = 900


class Sample(NamedTuple):
    """Input of an evaluator, without labels."""

    name: str
    contexts: list[str]
    sentences: list[str]
    labels: list[int]


def make_samples(folder: Path, count: int) -> list[Sample]:
    """Return the first N samples, independent of N.

    Raises ValueError if there are too few statements.
    """
    rng = random.Random(0)
    seen = set()
    statements: tuple[list[tuple[str, str]], ...] = ([], [])
    rows = [
        json.loads(line) for line in (folder / "attribution.dev.jsonl").read_bytes().splitlines()
    ]
    for row in rng.sample(rows, len(rows)):
        context = row["context"]
        statement = row["statement"]
        if (
            len(context) <= _LONGEST_CONTEXT
            and _SENTENCE.fullmatch(statement)
            and context not in seen
        ):
            seen.add(context)
            statements[int(row["label"])].append((context, statement))
    samples: list[Sample] = []
    while len(samples) < count:
        block = rng.sample([0, 1] * 9, 18)
        for size in (2, 3, 4, 4, 3, 2):
            labels = block[:size]
            block = block[size:]
            if any(labels.count(label) > len(statements[label]) for label in (0, 1)):
                raise ValueError(
                    f"there are enough statements for {len(samples)} samples: use a smaller --rows",
                )
            contexts, sentences = zip(*(statements[label].pop() for label in labels), strict=True)
            samples.append(Sample(f"{len(samples) + 1}", list(contexts), list(sentences), labels))
    return samples[:count]
