"""Turns text into token ids by the cheapest cut of each word: a mirror of llama.cpp's unigram tokenizer.

    "▁" + word, cut so that the costs of its pieces are least; of equal cuts, the one with the longest last piece
    "parishioner" -> "▁parish" "ion" "er"

A character that the vocabulary lacks becomes the unknown token, and the rest of the word stays.
"""

from collections.abc import Mapping

from .normalisation import Normaliser

SPACE = "▁"
_UNKNOWN_PENALTY = 10.0


class Tokenizer:
    """Cheapest cuts with the given pieces: their ids and costs by text."""

    def __init__(
        self, normaliser: Normaliser, ids: Mapping[str, int], costs: Mapping[str, float], unknown: int
    ) -> None:
        self._normaliser = normaliser
        self._ids = ids
        self._costs = costs
        self._unknown = unknown
        self._unknown_cost = max(costs.values()) + _UNKNOWN_PENALTY
        self._longest = max(map(len, ids))
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text: markers in it stay text."""
        return [token for word in self._normaliser.words(text) if word for token in self._word(word)]

    def words(self, text: str) -> list[str]:
        """The normalised words that are cut into tokens."""
        return [word for word in self._normaliser.words(text) if word]

    def _word(self, word: str) -> list[int]:
        if word not in self._known:
            self._known[word] = self._cut(SPACE + word)
        return self._known[word]

    def _cut(self, text: str) -> list[int]:
        cheapest: list[tuple[float, int, int]] = [(0.0, 0, 0)] + [(float("inf"), 0, 0)] * len(text)
        for start in range(len(text)):
            before = cheapest[start][0]
            for end in range(start + 1, min(len(text), start + self._longest) + 1):
                piece = text[start:end]
                if piece in self._ids and before + self._costs[piece] < cheapest[end][0]:
                    cheapest[end] = (before + self._costs[piece], start, self._ids[piece])
            if text[start] not in self._ids and before + self._unknown_cost < cheapest[start + 1][0]:
                cheapest[start + 1] = (before + self._unknown_cost, start, self._unknown)
        return self._traced(cheapest)

    def _traced(self, cheapest: list[tuple[float, int, int]]) -> list[int]:
        """Pieces from the end to the beginning, turned round; runs of unknown characters become one token."""
        tokens: list[int] = []
        end = len(cheapest) - 1
        while end:
            _, end, token = cheapest[end]
            if not (token == self._unknown and tokens and tokens[-1] == token):
                tokens.append(token)
        return tokens[::-1]
