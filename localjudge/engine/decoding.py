"""Write one answer under a grammar: which tokens come next, and what the verdict is.

    request    "Decide ..." (ours)   "Paris ..." (user's)   "<|im_end|>..." (ours)
    tokens     [begin] tokens ...    tokens ...             tokens ... {"attributed":
    answer     {"attributed":        forced: the grammar allows no other token
               0 | 1                 verdict: p_yes = softmax over the valid tokens, by label
               }                     forced: known without a model call

Text of a reason is chosen greedily. `constraints` says what is forced. An engine evaluates the
pending tokens and passes the logits on, until the answer is finished.
"""

import json
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.constraints import Choice, CompiledGrammar, Constraints, Position
from localjudge.errors import SampleError
from localjudge.types import Answer


class ConstrainedAnswer:
    """Answer in progress."""

    def __init__(self, constraints: Constraints, grammar: CompiledGrammar) -> None:
        self._constraints = constraints
        self._grammar = grammar
        self._position: Position = grammar.start
        self._text = grammar.start.text
        self._verdict: tuple[float, float] | None = None  # p_yes and valid mass
        self._reason_tokens = 0  # since the verdict or the start
        self.free_tokens = 0  # of reasons
        self.continued_tokens = 0  # to evaluate after the forced beginning

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens to evaluate before `take`."""
        return self._position.forced

    @property
    def finished(self) -> bool:
        return self._position.choice is None

    def take(self, logits: NDArray[np.floating[Any]]) -> None:
        """Decide from the logits (vocabulary,) after the pending tokens.

        Raises SampleError if they are not finite.
        """
        choice = self._position.choice
        if choice is None:
            raise ValueError("the answer is finished")
        if choice.labels:
            p_yes, valid_mass = read_verdict(self._grammar.verdict_before_reason or choice, logits)
            self._verdict = (p_yes, valid_mass)
            self._reason_tokens = 0
            tokens = choice.labels[nearest_label(p_yes, choice.labels)]
            token = int(tokens[np.argmax(logits[tokens])])
        else:
            self.free_tokens += 1
            self._reason_tokens += 1
            if self._reason_tokens > self._grammar.grammar.reason_tokens:
                choice = self._constraints.closing(choice)
            token = greedy(choice.valid, logits)
        self._position = self._constraints.advance(self._position, token, self._grammar.grammar)
        self._text += self._position.text
        if not self.finished:
            self.continued_tokens += len(self.pending)

    def answer(self) -> Answer:
        if self._verdict is None:
            raise ValueError("the answer has no verdict yet")
        p_yes, valid_mass = self._verdict
        raw = self._text.decode()
        reason = None
        if self._grammar.grammar.reason_tokens:
            reason = json.loads(raw).get("reason")
        return Answer(p_yes=p_yes, valid_mass=valid_mass, raw=raw, reason=reason)


def read_verdict(choice: Choice, logits: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return p_yes, the expected label, and the probability of valid tokens.

    `logits` (vocabulary,). Raises SampleError if they are not finite.
    """
    scores = logits.astype(np.float64)
    _require_finite(scores.max(), *scores[choice.valid])
    by_label = {label: _log_sum_exp(scores[ids]) for label, ids in choice.labels.items()}
    valid_mass = float(np.exp(reduce(np.logaddexp, by_label.values()) - _log_sum_exp(scores)))
    p_yes = 0.0
    for label, score in by_label.items():
        total = 0.0  # not `sum`, which rounds differently between Python versions
        for other in by_label.values():
            total += np.exp(np.clip(other - score, -700, 700))
        share = float(1 / total)
        p_yes += label * share
    return min(p_yes, 1.0), valid_mass


def nearest_label(p_yes: float, labels: Iterable[float]) -> float:
    """Return the label nearest to `p_yes`, the larger one of two."""
    return min(labels, key=lambda label: (abs(label - p_yes), -label))


def greedy(valid: NDArray[np.bool_], logits: NDArray[np.floating[Any]]) -> int:
    """Return the first of the most likely valid tokens.

    Raises SampleError if the logits are not finite.
    """
    allowed = np.where(valid, logits, -np.inf)
    _require_finite(logits.max(), allowed.max())
    return int(np.argmax(allowed))


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = scores.max()
    return float(peak + np.log(np.exp(scores - peak).sum()))


def _require_finite(*logits: float) -> None:
    if not np.isfinite(logits).all():  # a maximum is NaN if any element is NaN
        raise SampleError(
            "the model gave logits that are not numbers: its file or the build is damaged"
        )
