"""Weighs words by what their presence says, counted in questions whose answer is known to stand in a paragraph.

    weight of a class = log( P(found | right text) / P(found | wrong text) )
                      - log( P(missing | right text) / P(missing | wrong text) )

For attribution, a question with its answer stands for a statement; the right text is its paragraph, the wrong one the
next paragraph of the same article. For relevance, the right text is the sentence with the answer, the wrong ones are
the other sentences of the paragraph. Rare classes lean on the average of the classes that are about as rare.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from .labelled import Paragraph

_PRIOR_STRENGTH = 20.0
_CERTAIN_RIGHT, _CERTAIN_WRONG = 0.01, 0.003
_FULL_WEIGHT, _LEAST = 6.0, 0.01
_RARITY_STEPS = 10

Classes = Callable[[str], frozenset[str]]


class Trials(NamedTuple):
    """How often a class was looked for, and found, in right and wrong texts."""

    right: Counter[str]
    found_right: Counter[str]
    wrong: Counter[str]
    found_wrong: Counter[str]

    @classmethod
    def none(cls) -> "Trials":
        """No trial yet."""
        return cls(Counter(), Counter(), Counter(), Counter())

    def add(self, asked: frozenset[str], right: frozenset[str], wrong: Sequence[frozenset[str]]) -> None:
        """Look for every class asked for in the right text and in the wrong ones."""
        self.right.update(asked)
        self.found_right.update(asked & right)
        for text in wrong:
            self.wrong.update(asked)
            self.found_wrong.update(asked & text)


def statement_trials(articles: Iterable[Sequence[Paragraph]], classes: Classes) -> Trials:
    """Questions with their answers, looked for in paragraphs."""
    trials = Trials.none()
    for paragraphs in articles:
        held = [classes(paragraph.text) for paragraph in paragraphs]
        for place, paragraph in enumerate(paragraphs):
            following = held[(place + 1) % len(held)]
            for question, answer in paragraph.answered:
                trials.add(classes(f"{question} {answer}"), held[place], [following])
    return trials


def question_trials(articles: Iterable[Sequence[Paragraph]], classes: Classes) -> Trials:
    """Questions, looked for in the sentences of the paragraph that answers them."""
    trials = Trials.none()
    for paragraph in (paragraph for paragraphs in articles for paragraph in paragraphs):
        held = [classes(sentence) for sentence in paragraph.sentences]
        for question, answer in paragraph.answered:
            right = [place for place, sentence in enumerate(paragraph.sentences) if answer in sentence]
            if len(right) == 1:
                wrong = held[: right[0]] + held[right[0] + 1 :]
                trials.add(classes(question), held[right[0]], wrong)
    return trials


def weights(trials: Trials, rarity: Mapping[str, float]) -> dict[str, float]:
    """Weight of every class in `rarity` (0 common to 1 rare), from 0.01 to 1."""
    right = _rates(trials.right, trials.found_right, rarity, _CERTAIN_RIGHT)
    wrong = _rates(trials.wrong, trials.found_wrong, rarity, _CERTAIN_WRONG)
    return {name: _weight(right(name), wrong(name)) for name in rarity}


def _weight(right: float, wrong: float) -> float:
    evidence = math.log(right / wrong) - math.log((1 - right) / (1 - wrong))
    return min(max(evidence / _FULL_WEIGHT, _LEAST), 1.0)


def _rates(
    tried: Counter[str], found: Counter[str], rarity: Mapping[str, float], certain: float
) -> Callable[[str], float]:
    """Share of trials in which a class was found, drawn to the average of its rarity, and never 0 or 1."""
    tried_at: dict[int, float] = defaultdict(float)
    found_at: dict[int, float] = defaultdict(float)
    for name, trials in tried.items():
        tried_at[_step(rarity, name)] += trials
        found_at[_step(rarity, name)] += found[name]

    def rate(name: str) -> float:
        step = _step(rarity, name)
        average = found_at[step] / tried_at[step] if tried_at[step] else 0.5
        share = (found[name] + _PRIOR_STRENGTH * average) / (tried[name] + _PRIOR_STRENGTH)
        return min(max(share, certain), 1 - certain)

    return rate


def _step(rarity: Mapping[str, float], name: str) -> int:
    return round(_RARITY_STEPS * rarity.get(name, 1.0))
