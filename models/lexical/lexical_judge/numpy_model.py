"""The same judge in plain NumPy, without a network.

    texts ─> token ids ─> parts ─> matches of each word of B in contexts and question
          ─> features ─> z ─> sigmoid

`attribution` and `relevance` cut texts into the same pieces as the prompt profile `lexical`.

Every softmax over two outcomes (matched, not matched) is written out as sums of exponentials.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import committed as names
from . import layout, network
from .committed import Floats, Scalars, Vocabulary
from .network import STEEPNESS

FORCED_ATTRIBUTION = '{"attributed":'
FORCED_RELEVANCE = '{"relevant":'
_CONTEXT = 1
_QUESTION = 2
_B = 3
_ANSWER = 4


def attribution(vocabulary: Vocabulary, contexts: Sequence[str], statement: str) -> list[int]:
    """Token ids of "can this statement be attributed to these contexts?"."""
    return [
        *_contexts(vocabulary, contexts),
        *_part(vocabulary, names.STATEMENT, statement),
        *_answer(vocabulary, FORCED_ATTRIBUTION),
    ]


def relevance(
    vocabulary: Vocabulary, contexts: Sequence[str], question: str, judged: str
) -> list[int]:
    """Return the token ids of a sentence or chunk to judge for this question.

    A chunk is judged without contexts.
    """
    return [
        *_contexts(vocabulary, contexts),
        *_part(vocabulary, names.QUESTION, question),
        *_part(vocabulary, names.SENTENCE, judged),
        *_answer(vocabulary, FORCED_RELEVANCE),
    ]


def _contexts(vocabulary: Vocabulary, contexts: Sequence[str]) -> list[int]:
    tokens: list[int] = []
    for context in contexts:
        tokens += _part(vocabulary, names.CONTEXT, context)
    return tokens


def _part(vocabulary: Vocabulary, marker: str, text: str) -> list[int]:
    return [vocabulary.ids[marker], *vocabulary.tokenizer.encode(text)]


def _answer(vocabulary: Vocabulary, forced: str) -> list[int]:
    return _part(vocabulary, names.ANSWER, forced)


class Words(NamedTuple):
    """What is known of the tokens of a prompt, one row per token."""

    identity: Floats
    previous: Floats
    """Part of the identity of the word before."""
    facts: dict[str, Floats]
    part: NDArray[np.int64]
    """0 before the first marker, then the part of each word."""


class NumpyJudge:
    """Scores prompts given as token ids."""

    def __init__(self, vocabulary: Vocabulary, scalars: Scalars) -> None:
        self._scalars = scalars
        known = [layout.facts(token) for token in vocabulary.tokens]
        self._facts = {name: np.array([row[name] for row in known]) for name in known[0]}
        self._identity = np.array([layout.identity_code(token) for token in vocabulary.tokens])

    def log_odds(self, tokens: Sequence[int]) -> float:
        """Log of the odds of label 1, for a prompt that ends in the answer's part."""
        rule = self._rule(np.asarray(tokens))
        found = self.features(tokens)
        return rule["constant"] + sum(
            weight * found[name] for name, weight in rule.items() if name != "constant"
        )

    def features(self, tokens: Sequence[int]) -> dict[str, float]:
        """The results of layer 2, by name."""
        words = self._words(np.asarray(tokens))
        if (words.part == _QUESTION).any():
            return {"coverage": _coverage(words)}
        return _missing(words)

    def _rule(self, ids: NDArray[np.int64]) -> dict[str, float]:
        if not self._facts["is_question"][ids].any():
            return self._scalars.attribution
        return (
            self._scalars.relevance if self._facts["is_context"][ids].any() else self._scalars.chunk
        )

    def _words(self, ids: NDArray[np.int64]) -> Words:
        facts = {name: values[ids] for name, values in self._facts.items()}
        kinds = ("is_context", "is_question", "is_b_marker", "is_answer_marker")
        markers = sum(
            part * facts[kind]
            for part, kind in zip((_CONTEXT, _QUESTION, _B, _ANSWER), kinds, strict=True)
        )
        identity = self._identity[ids]
        previous = np.zeros((len(ids), len(layout.PREVIOUS)))
        previous[1:] = network.CODE_SCALE * identity[:-1, list(layout.PREVIOUS_CODE)]
        previous[markers > 0] = 0
        return Words(
            identity, previous, facts, np.maximum.accumulate(markers).round().astype(np.int64)
        )


def _missing(words: Words) -> dict[str, float]:
    """The features of attribution: the part of B that is missing in the contexts."""
    given = words.part == _CONTEXT
    judged = words.part == _B
    same = words.identity[judged] @ words.identity[given].T
    pair = same + words.previous[judged] @ words.previous[given].T
    marker = words.facts["is_context"][given] > 0
    matched = _mass(network.MATCH_GAIN * same, network.MATCH_GAIN * network.MATCH_THRESHOLD, marker)
    matched_pair = _mass(
        network.PAIR_GAIN * pair, network.PAIR_GAIN * network.PAIR_THRESHOLD, marker
    )
    missing = _soft_step(1 - matched)
    facts = {name: values[judged] for name, values in words.facts.items()}
    weight = _normalised(layout.LOG_SPAN * facts["log_weight"])
    return {
        "mean_missing": float(weight @ (1 - matched)),
        "mean_missing_pair": float(weight @ (1 - matched_pair)),
        "missing_names": _missing_names(matched, facts),
        "worst_number": _soft_maximum(missing * facts["number_weight"]),
    }


def _missing_names(matched: Floats, facts: dict[str, Floats]) -> float:
    marker = facts["is_b_marker"] * (layout.LOG_SPAN + math.log(network.ASSUMED_NAMES))
    weight = _normalised(layout.LOG_SPAN * facts["log_name_weight"] + marker)
    return float(weight @ (facts["is_word"] - matched))


def _mass(logits: Floats, threshold: float, marker: NDArray[np.bool_]) -> Floats:
    """Share of attention that goes to words rather than to the markers, shape (words of B,)."""
    logits = np.where(marker, threshold, logits)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights[:, ~marker].sum(axis=1) / weights.sum(axis=1))


def _coverage(words: Words) -> float:
    """Relevance: the question's words in B, and how distinctive they are among the contexts."""
    asked = words.part == _QUESTION
    judged = words.part == _B
    logits = layout.LOG_SPAN * words.facts["log_question_weight"]
    repeated = network.REPEATED * (1 - _first(words.identity[asked], words.identity[judged]))
    covered = np.exp(logits[judged] + network.COVERED + repeated)
    found = covered @ _distinctive(words.identity[words.part == _CONTEXT], words.identity[judged])
    return float(math.exp(-network.COVERED) * found / (covered.sum() + np.exp(logits[asked]).sum()))


def _first(asked: Floats, judged: Floats) -> Floats:
    """1 for the first occurrence in B of a word that is in the question, else 0."""
    in_question = np.exp(network.MATCH_GAIN * (judged @ asked.T - 1)).sum(axis=1)
    in_b = np.tril(np.exp(network.MATCH_GAIN * (judged @ judged.T - 1))).sum(axis=1)
    ramp = network.REPEAT_SLOPE * (network.REPEAT_LIMIT - in_b / (in_question + in_b))
    return _soft_step(ramp) - _soft_step(ramp - 1)


def _distinctive(contexts: Floats, judged: Floats) -> Floats:
    """1 / (1 + n) for a word of B with n occurrences in the contexts."""
    matches = np.exp(network.MATCH_GAIN * (judged @ contexts.T - network.SAME_WORD)).sum(axis=1)
    return np.asarray(1 / (1 + matches))


def _soft_step(values: Floats) -> Floats:
    """silu(20 x) / 20: x where it is positive, nearly 0 elsewhere."""
    return np.asarray(values / (1 + np.exp(-np.clip(STEEPNESS * values, -700, 700))))


def _soft_maximum(values: Floats) -> float:
    return float(_normalised(network.WORST_GAIN * values) @ values)


def _normalised(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
