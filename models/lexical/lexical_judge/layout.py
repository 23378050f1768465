"""The layout of the vector that runs through the network, and the values that each token adds.

    0          63  64      76      93       96         124    127
    | IDENTITY | v | FACTS | NOTES | answer | PREVIOUS | NOTE | BALLAST |
      ±1/8 code      known   what             code of    more   a constant
      of the         of the  the layers       the word
      class          token   find out         before

A token's row in the embedding fills identity and facts. It is stored as Q8_0: blocks of 32 values,
each an integer from -127 to 127 times the block's scale. Every value is chosen so that this
rounding changes no verdict: all codes have one size, facts are whole 127ths of one, and BALLAST has
a block without other values of the embedding. BALLAST is so large that the root mean square of
every vector is the same to six digits. RMSNorm then divides by a constant, and the next weights see
the vector unchanged.
"""

import hashlib
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from . import committed as names
from .committed import Floats, Token, Vocabulary

WIDTH = 128
IDENTITY = range(0, 63)
PREVIOUS_CODE = range(0, 28)
PREVIOUS = range(96, 124)
"""Part of a word's identity code, and its copy in the vector of the next word."""

BALLAST_SIZE = 4064.0
"""127 times 32: exact in Q8_0."""
GRID = 127
LOG_SPAN = 8.0


def _numbered(first: int, *labels: str) -> dict[str, int]:
    return {label: first + place for place, label in enumerate(labels)}


FACT = _numbered(
    64,
    "one", "log_weight", "log_name_weight", "log_question_weight", "number_weight",
    "is_context", "is_question", "is_b_marker", "is_answer_marker", "is_digit", "is_close",
    "is_word",
)  # fmt: skip
OUTPUT = {"verdict": 63, "end": 93, "digit": 94, "close": 95}
"""Read by the tied output matrix.

`verdict` ("v" above) has a block of 32 to itself among the outputs, because llama.cpp rounds the
activations of a block to 127ths of the largest.
"""
NOTE = _numbered(
    76,
    "in_context", "in_question", "in_b", "in_answer", "asks_relevance", "has_context",
    "matched", "matched_pair", "share_of_b", "repeated",
    "missing_number_weight", "first", "distinctive",
    "mean_missing", "mean_missing_pair", "missing_names", "worst_number",
) | _numbered(124, "coverage")  # fmt: skip
BALLAST = 127


def identity_code(token: Token) -> Floats:
    """Return 63 bits of the class's checksum as ±1/8: of length 0.99, and nearly orthogonal.

    Control tokens have none: they have no match.
    """
    if token.is_control:
        return np.zeros(len(IDENTITY))
    bits = np.unpackbits(
        np.frombuffer(hashlib.sha256(token.identity.encode()).digest()[:8], dtype=np.uint8)
    )
    return (bits[: len(IDENTITY)].astype(np.float64) * 2 - 1) / 8


def facts(token: Token) -> dict[str, float]:
    """Return the facts of a token in the embedding, by name: whole 127ths between -1 and 1."""
    known = {
        "one": 1.0,
        "log_weight": _log(token.weight),
        "log_name_weight": _log(token.weight * token.name_share),
        "log_question_weight": _log(token.question_weight),
        "number_weight": token.weight * token.is_number,
        "is_context": float(token.text == names.CONTEXT),
        "is_question": float(token.text == names.QUESTION),
        "is_b_marker": float(token.text in (names.STATEMENT, names.SENTENCE)),
        "is_answer_marker": float(token.text == names.ANSWER),
        "is_digit": float(token.text in ("0", "1")),
        "is_close": float(token.text == "}"),
        "is_word": float(not token.is_control),
    }
    return {name: round(value * GRID) / GRID for name, value in known.items()}


def embedding(vocabulary: Vocabulary) -> NDArray[np.float32]:
    """The row of every token, shape (tokens, WIDTH)."""
    rows = np.zeros((len(vocabulary.tokens), WIDTH))
    rows[:, BALLAST] = BALLAST_SIZE
    for row, token in zip(rows, vocabulary.tokens, strict=True):
        row[IDENTITY.start : IDENTITY.stop] = identity_code(token)
        for name, value in facts(token).items():
            row[FACT[name]] = value
        for place, value in _answers(token):
            row[place] = value
    return rows.astype(np.float32)


def _answers(token: Token) -> Iterator[tuple[int, float]]:
    """The values that each token of the answer reads from the last vector."""
    if token.text in ("0", "1"):
        yield OUTPUT["verdict"], 1.0 if token.text == "1" else -1.0
        yield OUTPUT["digit"], 1.0
    elif token.text == "}":
        yield OUTPUT["close"], 1.0
    elif token.text == names.END:
        yield OUTPUT["end"], 1.0


def _log(weight: float) -> float:
    """Logarithm of a weight in units of LOG_SPAN: -1 for a weight of 0."""
    return max(math.log(weight) / LOG_SPAN, -1.0) if weight > 0 else -1.0
