"""Labelled statements made into samples whose right score is known: the share of their sentences that is supported.

    contexts    one for each sentence, and in no other sample
    answer      2, 3 or 4 sentences; of those of six samples, 9 are supported and 9 are not, in random order

Only statements that are one sentence by any rule are taken: a capital, no full stop inside, and one at the end. None
begins as if another stood before it: evaluators that word claims of their own would make one of both.
"""

import random
import re
from pathlib import Path
from typing import NamedTuple

from reference_judge.labelled import examples

BLOCK = 6
_LEANING = "It|Its|He|His|She|Her|They|Their|This|These|That|Those|However|Also|Some|In fact|On the other"
_SENTENCE = re.compile(rf"(?!(?:{_LEANING})\b)[A-Z][^.!?\n]{{30,250}}\.")
_LONGEST_CONTEXT = 900


class Sample(NamedTuple):
    """What every evaluator is shown, but for the labels."""

    name: str
    contexts: list[str]
    sentences: list[str]
    labels: list[int]


def make_samples(folder: Path, rows: int) -> list[Sample]:
    """The first so many; fewer make the same beginning. Raises ValueError if there are not enough statements."""
    chance, seen = random.Random(0), set()
    statements: tuple[list[tuple[str, str]], ...] = ([], [])
    for example in chance.sample(labelled := examples(folder, "attribution"), len(labelled)):
        if len(example.given) <= _LONGEST_CONTEXT and _SENTENCE.fullmatch(example.judged) and example.given not in seen:
            seen.add(example.given)
            statements[example.label].append((example.given, example.judged))
    samples: list[Sample] = []
    while len(samples) < rows:
        labels = chance.sample([0, 1] * 9, 18)
        for size in (2, 3, 4, 4, 3, 2):
            share, labels = labels[:size], labels[size:]
            if any(share.count(label) > len(statements[label]) for label in (0, 1)):
                raise ValueError(f"the statements are enough for {len(samples)} samples: ask for no more with --rows")
            contexts, sentences = zip(*(statements[label].pop() for label in share), strict=True)
            samples.append(Sample(f"{len(samples) + 1}", list(contexts), list(sentences), share))
    return samples[:rows]
