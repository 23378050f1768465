"""Labelled questions: development rows, training rows, and rows that are made from contexts without people.

made, 1    a sentence of the context
made, 0    the same with a number, a name or a negation changed; a sentence of another document
"""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reference_judge.labelled import Example, examples

from .states import Asked

LONGEST_CONTEXT, LONGEST_STATEMENT, SHORTEST_STATEMENT = 1000, 500, 40
_VERB = re.compile(r"\b(is|was|are|were|has|have|had|can|could|will|would)\b(?! not)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")


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
    parts = [people[: numbers.train], list(_made([asked.example for asked in people], chance))[: numbers.made]]
    for task, most in numbers._asdict().items():
        if task not in ("train", "made"):
            parts.append([Asked("dev", task, each) for each in _short(examples(folder, task), chance)][:most])
    placed = [((place + 0.5) / len(part), asked) for part in parts for place, asked in enumerate(part)]
    return [asked for _, asked in sorted(placed, key=lambda each: each[0])]


def _short(every: Sequence[Example], chance: random.Random) -> list[Example]:
    """In random order, as many of each label."""
    short = [each for each in every if len(each.given) <= LONGEST_CONTEXT and len(each.judged) <= LONGEST_STATEMENT]
    sides = [chance.sample(side, len(side)) for side in ([e for e in short if e.label == n] for n in (0, 1))]
    return [each for pair in zip(*sides, strict=False) for each in pair]


def _made(people: Sequence[Example], chance: random.Random) -> Iterator[Asked]:
    contexts = list(dict.fromkeys((each.dataset, each.given) for each in people))
    names = [name for _, text in contexts for name in _NAME.findall(text)]
    for place, (dataset, text) in enumerate(contexts):
        sentences = _sentences(text)
        if not sentences:
            continue
        other = contexts[(place + 1) % len(contexts)][1]
        strange = _sentences(other)
        chosen = chance.choice(sentences)
        wrong = [each for each in (_changed(chosen, names, chance), *chance.sample(strange, bool(strange))) if each]
        for statement, label in ((chosen, 1), *((each, 0) for each in wrong[place % 2 :][:1])):
            yield Asked("made", "attribution", Example(dataset, text, text, statement, label))


def _sentences(text: str) -> list[str]:
    found = re.split(r"(?<=[.!?])\s+|\n+", text)
    return [sentence for sentence in found if SHORTEST_STATEMENT <= len(sentence) <= LONGEST_STATEMENT]


def _changed(sentence: str, names: Sequence[str], chance: random.Random) -> str | None:
    """With another number, another name or a negation, whatever can be had; None if nothing can."""
    ways = [
        re.sub(r"\d+", lambda match: str(int(match[0]) + chance.randint(1, 9)), sentence, count=1),
        _NAME.sub(lambda _: chance.choice(names), sentence, count=1),
        _VERB.sub(r"\1 not", sentence, count=1),
    ]
    return next((each for each in chance.sample(ways, 3) if each != sentence), None)
