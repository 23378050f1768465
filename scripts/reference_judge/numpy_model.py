"""The same judge in plain NumPy: what the network computes, without a network.

    token ids ─> parts A and B ─> matches of each word of B in A ─> features ─> z ─> sigmoid

Every softmax over two outcomes (matched, not matched) is written out as sums of exponentials.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import heads, layout
from .circuit import STEEPNESS
from .layout import Floats
from .scalars import Scalars
from .vocabulary import Vocabulary

_PART_A, _PART_B = 1, 2


class Words(NamedTuple):
    """What is known of the tokens of a prompt, one row per token."""

    identity: Floats
    previous: Floats
    """Part of the identity of the word before."""
    facts: dict[str, Floats]
    part: NDArray[np.int64]
    """0 before the first marker, 1 in A, 2 in B, 3 in the answer."""


class NumpyJudge:
    """Scores prompts given as token ids."""

    def __init__(self, vocabulary: Vocabulary, scalars: Scalars) -> None:
        self._scalars = scalars
        known = [layout.facts(token) for token in vocabulary.tokens]
        self._facts = {name: np.array([row[name] for row in known]) for name in known[0]}
        self._identity = np.array([layout.identity_code(token) for token in vocabulary.tokens])

    def logit(self, tokens: Sequence[int]) -> float:
        """Log of the odds of label 1, for a prompt that ends in the answer's part."""
        ids = np.asarray(tokens)
        rule = self._scalars.relevance if self._facts["is_question"][ids].any() else self._scalars.attribution
        found = self.features(tokens)
        return rule["constant"] + sum(weight * found[name] for name, weight in rule.items() if name != "constant")

    def features(self, tokens: Sequence[int]) -> dict[str, float]:
        """What layer 2 finds out, by name."""
        words = self._words(np.asarray(tokens))
        return _features(words, words.part == _PART_A, words.part == _PART_B)

    def _words(self, ids: NDArray[np.int64]) -> Words:
        facts = {name: values[ids] for name, values in self._facts.items()}
        markers = facts["is_a_marker"] + 2 * facts["is_b_marker"] + 3 * facts["is_answer_marker"]
        identity = self._identity[ids]
        previous = np.zeros((len(ids), len(layout.PREVIOUS)))
        previous[1:] = heads.CODE_SCALE * identity[:-1, list(layout.PREVIOUS_CODE)]
        previous[markers > 0] = 0
        return Words(identity, previous, facts, np.maximum.accumulate(markers).round().astype(np.int64))


def _features(words: Words, given: NDArray[np.bool_], judged: NDArray[np.bool_]) -> dict[str, float]:
    same = words.identity[judged] @ words.identity[given].T
    pair = same + words.previous[judged] @ words.previous[given].T
    marker = words.facts["is_a_marker"][given] > 0
    matched = _mass(heads.MATCH_GAIN * same, heads.MATCH_GAIN * heads.MATCH_THRESHOLD, marker)
    matched_pair = _mass(heads.PAIR_GAIN * pair, heads.PAIR_GAIN * heads.PAIR_THRESHOLD, marker)
    missing = _soft_step(1 - matched)
    facts = {name: values[judged] for name, values in words.facts.items()}
    weight = _normalised(layout.LOG_SPAN * facts["log_weight"])
    asked = layout.LOG_SPAN * words.facts["log_question_weight"]
    return {
        "mean_missing": float(weight @ (1 - matched)),
        "mean_missing_pair": float(weight @ (1 - matched_pair)),
        "missing_names": _missing_names(matched, facts),
        "worst_number": _soft_maximum(missing * facts["number_weight"]),
        "coverage": _coverage(asked[given], asked[judged] + heads.REPEATED * (1 - _first(words, given, judged))),
    }


def _missing_names(matched: Floats, facts: dict[str, Floats]) -> float:
    marker = facts["is_b_marker"] * (layout.LOG_SPAN + math.log(heads.ASSUMED_NAMES))
    weight = _normalised(layout.LOG_SPAN * facts["log_name_weight"] + marker)
    return float(weight @ (facts["is_word"] - matched))


def _mass(logits: Floats, threshold: float, marker: NDArray[np.bool_]) -> Floats:
    """Share of attention that goes to words rather than to the markers, shape (words of B,)."""
    logits = np.where(marker, threshold, logits)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights[:, ~marker].sum(axis=1) / weights.sum(axis=1))


def _first(words: Words, given: NDArray[np.bool_], judged: NDArray[np.bool_]) -> Floats:
    """1 for a word of B that is in A and stands in B for the first time, else 0."""
    here = words.identity[judged]
    in_a = np.exp(heads.MATCH_GAIN * (here @ words.identity[given].T - 1)).sum(axis=1)
    in_b = np.tril(np.exp(heads.MATCH_GAIN * (here @ here.T - 1))).sum(axis=1)
    ramp = heads.REPEAT_SLOPE * (heads.REPEAT_LIMIT - in_b / (in_a + in_b))
    return _soft_step(ramp) - _soft_step(ramp - 1)


def _coverage(given: Floats, judged: Floats) -> float:
    covered, asked = np.exp(judged).sum(), np.exp(given).sum()
    return float(covered / (covered + asked))


def _soft_step(values: Floats) -> Floats:
    """silu(20 x) / 20: x where it is positive, nearly 0 elsewhere."""
    return np.asarray(values / (1 + np.exp(-np.clip(STEEPNESS * values, -700, 700))))


def _soft_maximum(values: Floats) -> float:
    return float(_normalised(heads.WORST_GAIN * values) @ values)


def _normalised(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
