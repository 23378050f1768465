"""The same judge in plain NumPy: what the network computes, without a network.

    token ids ─> parts A and B ─> matches of each word of B in A ─> features ─> z ─> sigmoid

Every softmax over two outcomes (matched, not matched) is written out as sums of exponentials.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import heads, layout
from .circuit import STEEPNESS
from .layout import Floats
from .positions import Bump
from .scalars import Scalars
from .vocabulary import Vocabulary

_PART_A, _PART_B = 1, 2
_WINDOW = 24
"""Distances beyond this are out of every bump's reach."""


class Words(NamedTuple):
    """What is known of the tokens of a prompt, one row per token."""

    identity: Floats
    previous: Floats
    left: Floats
    log_weight: Floats
    facts: dict[str, Floats]
    part: NDArray[np.int64]
    """0 before the first marker, 1 in A, 2 in B, 3 in the answer."""


class NumpyJudge:
    """Scores prompts given as token ids."""

    def __init__(self, vocabulary: Vocabulary, scalars: Scalars) -> None:
        self._scalars = scalars
        known = [layout.facts(vocabulary, token) for token in vocabulary.tokens]
        self._facts = {name: np.array([row[name] for row in known]) for name in known[0]}
        self._identity = np.array(
            [
                np.zeros(len(layout.IDENTITY)) if token.is_control else layout.identity_code(token.identity)
                for token in vocabulary.tokens
            ]
        )

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
        log_weight = facts["log_weight"] * layout.LOG_SPAN
        wall = np.where(markers > 0, layout.LOG_SPAN + 1.1, 0.0)
        words = (markers == 0)[:, None]
        scale = heads.CODE_SCALE
        previous = self._mean_of(identity[:, list(layout.PREVIOUS_CODE)] * scale, self._scalars.previous, 0 * wall)
        left = self._mean_of(identity[:, list(layout.LEFT_CODE)] * scale, self._scalars.left, log_weight + wall)
        part = np.maximum.accumulate(markers).round().astype(np.int64)
        return Words(identity, previous * words, left * words, log_weight, facts, part)

    def _mean_of(self, codes: Floats, bump: Bump, preference: Floats) -> Floats:
        """Softmax mean of the codes at the bump's distances before each token."""
        distances = np.arange(_WINDOW)
        shape = bump.logits(self._scalars.frequencies, distances)
        places = np.arange(len(codes))[:, None] - distances
        logits = np.where(places >= 0, shape + preference[np.maximum(places, 0)], -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return np.asarray(np.einsum("pd,pdc->pc", weights, codes[np.maximum(places, 0)]))


def _features(words: Words, given: NDArray[np.bool_], judged: NDArray[np.bool_]) -> dict[str, float]:
    here, there = words.identity[judged], words.identity[given]
    same = here @ there.T
    pair = same + words.previous[judged] @ words.previous[given].T
    place = heads.PLACE_WORD * same + heads.PLACE_LEFT * words.left[judged] @ words.left[given].T
    marker = words.facts["is_a_marker"][given] > 0
    matched = _mass(heads.MATCH_GAIN * same, heads.MATCH_GAIN * heads.MATCH_THRESHOLD, marker)
    matched_pair = _mass(heads.PAIR_GAIN * pair, heads.PAIR_GAIN * heads.PAIR_THRESHOLD, marker)
    matched_place = _mass(heads.PLACE_GAIN * place, heads.PLACE_GAIN * heads.PLACE_THRESHOLD, marker)
    missing = _soft_step(1 - matched)
    facts = {name: values[judged] for name, values in words.facts.items()}
    log_weight = words.log_weight[judged]
    weight = _normalised(log_weight)
    first = _first(words, given, judged)
    return {
        "mean_missing": float(weight @ (1 - matched)),
        "mean_missing_name": float(weight @ (missing * facts["name"])),
        "mean_missing_number": float(weight @ (missing * facts["number"])),
        "mean_missing_pair": float(weight @ (1 - matched_pair)),
        "mean_missing_place": float(weight @ (1 - matched_place)),
        "worst": _soft_maximum(missing * facts["weight"]),
        "worst_number": _soft_maximum(missing * facts["number_weight"]),
        "coverage": _coverage(words.log_weight[given], log_weight + heads.REPEATED * (1 - first)),
    }


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
