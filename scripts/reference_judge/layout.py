"""Where things stand in the vector that runs through the network, and what each token brings into it.

    0       64       96      128      160      192
    | IDENTITY | FACTS | LEFT  | PREVIOUS | NOTES |
      ±1/8 code  known   codes of the       what the
      of the     of the  words before,      layers find out
      class      token   written by layer 0

A token's row in the embedding fills the first two. It is stored as Q8_0: blocks of 32 values, each an integer from
-127 to 127 times the block's scale. Every value here is chosen so that this rounding loses nothing that matters: codes
are all of one size, facts are whole 127ths of one.

BALLAST is a constant so large that the root mean square of every vector is the same to six digits. RMSNorm then
divides by a constant, and the weights after it see the vector as it is.
"""

import hashlib
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from . import vocabulary as names
from .vocabulary import Token, Vocabulary

WIDTH = 192
IDENTITY = range(0, 64)
CODE_LENGTH = 30
LEFT = range(96, 96 + CODE_LENGTH)
PREVIOUS = range(128, 128 + CODE_LENGTH)
LEFT_CODE = range(32, 32 + CODE_LENGTH)
PREVIOUS_CODE = range(0, CODE_LENGTH)
"""The bits of the identity that stand for a word in its neighbours' vectors."""

BALLAST_SIZE = 4064.0
"""127 times 32: exact in Q8_0."""
GRID = 127
LOG_SPAN = 8.0


def _numbered(first: int, *labels: str) -> dict[str, int]:
    return {label: first + place for place, label in enumerate(labels)}


FACT = _numbered(
    64,
    "one", "log_weight", "weight", "name", "number", "number_weight", "is_a_marker", "is_b_marker", "is_answer_marker",
    "is_question", "is_digit", "is_close", "is_word",
)  # fmt: skip
OUTPUT = {"verdict": 126, "end": 127, "digit": 158, "close": 159}
"""Read by the tied output matrix. `verdict` shares its block of 32 with no output that is used at the same time,
because llama.cpp rounds the activations of a block to 127ths of the largest."""
BALLAST = 191
NOTE = _numbered(
    160,
    "in_a", "in_b", "in_answer", "asks_relevance",
    "matched", "matched_pair", "matched_place", "share_of_b",
    "missing_name", "missing_number", "missing_weight", "missing_number_weight", "first",
    "mean_missing", "mean_missing_name", "mean_missing_number", "mean_missing_pair", "mean_missing_place",
    "worst", "worst_number", "coverage",
)  # fmt: skip

Floats = NDArray[np.float64]


def identity_code(identity: str) -> Floats:
    """64 values of ±1/8, the bits of the name's checksum: unit length, and nearly orthogonal to all others."""
    bits = np.unpackbits(np.frombuffer(hashlib.sha256(identity.encode()).digest()[:8], dtype=np.uint8))
    return (bits.astype(np.float64) * 2 - 1) / 8


def log_weight(weight: float) -> float:
    """Logarithm of a weight on the grid of the embedding: -LOG_SPAN for a weight of 0."""
    floor = -LOG_SPAN if weight <= 0 else max(math.log(weight), -LOG_SPAN)
    return _on_grid(floor / LOG_SPAN) * LOG_SPAN


def facts(vocabulary: Vocabulary, token: Token) -> dict[str, float]:
    """What the embedding says of a token, by the name of the fact: whole 127ths, none beyond ±1."""
    weight = vocabulary.weight(token)
    known = {
        "one": 1.0,
        "log_weight": log_weight(weight) / LOG_SPAN,
        "weight": weight,
        "name": token.capitals_percent / 100 if not token.is_number else 0.0,
        "number": float(token.is_number),
        "number_weight": weight * token.is_number,
        "is_a_marker": float(token.text in (names.CONTEXT, names.QUESTION)),
        "is_b_marker": float(token.text in (names.STATEMENT, names.SENTENCE)),
        "is_answer_marker": float(token.text == names.ANSWER),
        "is_question": float(token.text == names.QUESTION),
        "is_digit": float(token.text in ("0", "1")),
        "is_close": float(token.text == "}"),
        "is_word": float(not token.is_control),
    }
    return {name: _on_grid(value) for name, value in known.items()}


def embedding(vocabulary: Vocabulary) -> NDArray[np.float32]:
    """The row of every token, shape (tokens, WIDTH)."""
    rows = np.zeros((len(vocabulary.tokens), WIDTH))
    rows[:, BALLAST] = BALLAST_SIZE
    for row, token in zip(rows, vocabulary.tokens, strict=True):
        if not token.is_control:
            row[IDENTITY.start : IDENTITY.stop] = identity_code(token.identity)
        for name, value in facts(vocabulary, token).items():
            row[FACT[name]] = value
        for place, value in _answers(token):
            row[place] = value
    return rows.astype(np.float32)


def _answers(token: Token) -> Iterator[tuple[int, float]]:
    """What each token of the answer reads from the last vector."""
    if token.text in ("0", "1"):
        yield OUTPUT["verdict"], 1.0 if token.text == "1" else -1.0
        yield OUTPUT["digit"], 1.0
    elif token.text == "}":
        yield OUTPUT["close"], 1.0
    elif token.text == names.END:
        yield OUTPUT["end"], 1.0


def _on_grid(value: float) -> float:
    return round(value * GRID) / GRID
