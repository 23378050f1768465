"""Numbers out of a stranger's JSON: what is missing, or none, is an error that says where."""

import math
from collections.abc import Sequence
from typing import Any

from localjudge.errors import ModelError

_ROUNDING = 1e-3
_LEAST = -1e39  # where single precision ends


def inside(reply: Any, *way: str | int) -> Any:
    """The value at the end of this way of keys and places. Raises ModelError where it leads nowhere."""
    found = reply
    for step in way:
        try:
            found = found[step]
        except (LookupError, TypeError) as error:
            spelled = ".".join(map(str, way))
            raise ModelError(f"the server's answer has no {spelled}: is it of a version that is too old?") from error
    return found


def whole(value: Any, what: str, *, most: int | None = None) -> int:
    """A whole number from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (most is not None and value > most):
        raise ModelError(f"the server gives {value!r:.40} as {what}")
    return value


def log_probability(value: Any) -> float:
    """A natural logarithm of a probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _ROUNDING:
        raise ModelError(f"the server gives {value!r:.40} as the logarithm of a probability")
    return min(float(value), 0.0)


def tokens_in(value: Any, vocabulary_size: int) -> list[int]:
    """A list of tokens."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ModelError(f"the server gives {value!r:.40} as a list of tokens")
    return [whole(token, "a token", most=vocabulary_size - 1) for token in value]


def by_token(rows: Any, vocabulary_size: int) -> dict[int, float]:
    """Logarithms of probabilities by token, from rows with `id` and `logprob`.

    Raises ModelError for what is none, and for probabilities that add up to more than 1.
    """
    if not isinstance(rows, list):
        raise ModelError(f"the server gives {rows!r:.40} as a list of probabilities")
    found = {
        whole(inside(row, "id"), "a token", most=vocabulary_size - 1): log_probability(inside(row, "logprob"))
        for row in rows
    }
    total = math.fsum(map(math.exp, found.values()))
    if total > 1 + _ROUNDING:
        raise ModelError(f"the server's probabilities add up to {total:.3g}")
    return found
