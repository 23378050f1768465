"""Write one answer under a grammar: which tokens come next, and what the verdict is.

    request    "Decide ..." (ours)   "Paris ..." (user's)   "<|im_end|>..." (ours)
    tokens     [begin] tokens ...    tokens ...             tokens ... {"attributed":
    answer     {"attributed":        forced: the grammar allows no other token
               0 | 1                 verdict: p_yes = softmax over the valid tokens, by label
               }                     forced: known without a model call

Text of a reason is chosen greedily. `constraints` says what is forced, `logits` how a verdict is
read. An engine evaluates the pending tokens and passes the logits on, until the answer is finished.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.constraints import Choice, CompiledGrammar, Constraints, Position
from localjudge.engine.logits import greedy, nearest_label, read_verdict
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
            token = self._decide_label(choice, logits)
        else:
            token = self._continue_reason(choice, logits)
        self._position = self._constraints.advance(self._position, token, self._grammar.grammar)
        self._text += self._position.text
        if not self.finished:
            self.continued_tokens += len(self.pending)

    def _decide_label(self, choice: Choice, logits: NDArray[np.floating[Any]]) -> int:
        """Read the verdict and return the most likely token of its label."""
        p_yes, valid_mass = read_verdict(self._grammar.verdict_before_reason or choice, logits)
        self._verdict = (p_yes, valid_mass)
        self._reason_tokens = 0
        tokens = choice.labels[nearest_label(p_yes, choice.labels)]
        return int(tokens[np.argmax(logits[tokens])])

    def _continue_reason(self, choice: Choice, logits: NDArray[np.floating[Any]]) -> int:
        """Return the most likely token of a reason, or of its end if it is too long."""
        self.free_tokens += 1
        self._reason_tokens += 1
        if self._reason_tokens > self._grammar.grammar.reason_tokens:
            choice = self._constraints.closing(choice)
        return greedy(choice.valid, logits)

    def answer(self) -> Answer:
        if self._verdict is None:
            raise ValueError("the answer has no verdict yet")
        p_yes, valid_mass = self._verdict
        raw = self._text.decode()
        reason = None
        if self._grammar.grammar.reason_tokens:
            reason = json.loads(raw).get("reason")
        return Answer(p_yes=p_yes, valid_mass=valid_mass, raw=raw, reason=reason)
