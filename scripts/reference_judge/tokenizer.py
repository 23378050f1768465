"""Turns text into token ids by greedy longest match: a mirror of llama.cpp's WPM tokenizer.

    "▁" + word, then from the left the longest entry of the vocabulary, again and again
    "parishioner" -> "▁parish" "ion" "er"

A word with a character that the vocabulary lacks becomes the unknown token.
"""

from collections.abc import Mapping

from .words import words

SPACE = "▁"


class Tokenizer:
    """Greedy longest match over the given texts, which are numbered by their place."""

    def __init__(self, ids: Mapping[str, int], unknown: int) -> None:
        self._ids = ids
        self._unknown = unknown
        self._longest = max(map(len, ids))
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text: markers in it stay text."""
        return [token for word in words(text) for token in self.word(word)]

    def word(self, word: str) -> list[int]:
        """Token ids of one folded word."""
        if word not in self._known:
            self._known[word] = self._match(SPACE + word)
        return self._known[word]

    def _match(self, text: str) -> list[int]:
        tokens, start = [], 0
        while start < len(text):
            end = min(len(text), start + self._longest)
            while end > start and text[start:end] not in self._ids:
                end -= 1
            if end == start:
                return [self._unknown]
            tokens.append(self._ids[text[start:end]])
            start = end
        return tokens
