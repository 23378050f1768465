r"""From rows to steps: statements about one context share its tokens, and rows of many lengths share a step unpadded.

    context | question | statement | Supported?      a path of the judge's prompt
       \____ question | statement | Supported?      a second statement reads the same context and not its sibling

A branch continues at the position where its context ends, as llama.cpp continues a shared prefix. The standard
library only.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .rows import Row

BEGIN, END = 1, 2
"""<|im_start|> and <|im_end|>: no text of a user's turns into them."""
ANSWERS = ("No", "Yes")
"""Their places are the labels."""

Tokenize = Callable[[str], list[int]]


class Branch(NamedTuple):
    """The tokens of a question and a statement after a context, and the label."""

    tokens: list[int]
    label: int


class Group(NamedTuple):
    """Statements about one context."""

    dataset: str
    context: list[int]
    branches: list[Branch]

    @property
    def size(self) -> int:
        """Tokens in the group."""
        return len(self.context) + sum(len(branch.tokens) for branch in self.branches)

    @property
    def longest(self) -> int:
        """Tokens of its longest row."""
        return len(self.context) + max(len(branch.tokens) for branch in self.branches)


def context_tokens(context: str, tokenize: Tokenize) -> list[int]:
    """Return the first part of a prompt."""
    return [BEGIN, *tokenize(context)]


def branch_tokens(question: str | None, statement: str, tokenize: Tokenize) -> list[int]:
    """Return the second part of a prompt. Our words and the user's are cut into tokens apart from each other."""
    asked = [BEGIN, *tokenize("Question:"), *tokenize(f" {question}")] if question else []
    return [*asked, BEGIN, *tokenize("Statement:"), *tokenize(f" {statement}"), END, *tokenize("Supported?\n")]


def group_rows(rows: Iterable[Row], tokenize: Tokenize, rng: random.Random, *, branches: int = 8) -> list[Group]:
    """Return the rows in groups of one context, each of at most `branches` rows, in random order."""
    by_context: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_context[row.dataset, row.context].append(row)
    groups = []
    for (dataset, context), siblings in by_context.items():
        rng.shuffle(siblings)
        tokens = context_tokens(context, tokenize)
        for start in range(0, len(siblings), branches):
            part = siblings[start : start + branches]
            made = [Branch(branch_tokens(row.question, row.statement, tokenize), row.label) for row in part]
            groups.append(Group(dataset, tokens, made))
    rng.shuffle(groups)
    return groups


def mix(groups: Iterable[Group], shares: dict[str, float], rng: random.Random) -> list[Group]:
    """Return the groups so that each data set has its share of the rows of every part, until it is used up."""
    rows_before: dict[str, float] = defaultdict(float)
    places = []
    for group in groups:
        share = shares.get(group.dataset, 0.01)
        places.append((rows_before[group.dataset] + rng.random() * len(group.branches)) / share)
        rows_before[group.dataset] += len(group.branches)
    order = sorted(range(len(places)), key=places.__getitem__)
    groups = list(groups)
    return [groups[i] for i in order]


def short_first(groups: Sequence[Group], limit: int, rows: int) -> list[Group]:
    """Return the groups with about `rows` rows of at most `limit` tokens first, then all others in their order."""
    first, rest, count = [], [], 0
    for group in groups:
        if count < rows and group.longest <= limit:
            first.append(group)
            count += len(group.branches)
        else:
            rest.append(group)
    return first + rest


def steps(groups: Sequence[Group], rows: int) -> list[list[Group]]:
    """Return consecutive groups in steps of at least `rows` rows."""
    made: list[list[Group]] = []
    step: list[Group] = []
    for group in groups:
        step.append(group)
        if sum(len(member.branches) for member in step) >= rows:
            made.append(step)
            step = []
    return made


def packs(groups: Iterable[Group], tokens: int) -> list[list[Group]]:
    """Return the groups in packs of at most `tokens` tokens, or one group: what the model reads at once."""
    made: list[list[Group]] = []
    size = 0
    for group in groups:
        if not made or size + group.size > tokens:
            made.append([])
            size = 0
        made[-1].append(group)
        size += group.size
    return made
