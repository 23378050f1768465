"""One answer in the making: says which tokens to evaluate next, and decides from the logits behind them.

    pending    {"reason":"        -> logits -> a token of the reason      one by one, each the most likely legal one
    pending    ","attributed":    -> logits -> the verdict                forced tokens in one batch
    finished   }                                                          what follows the last decision costs nothing

The model is not in here: an engine evaluates `pending`, calls `take` with the logits behind it, and does so again
until the answer is finished. Decisions depend on the logits alone, so equal logits give equal answers.
"""

import json
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp.constraint import Choice, CompiledGrammar, Constraints, Position, Reading, greedy, read
from localjudge.errors import ModelError
from localjudge.types import Answer, Grammar

_REASON = "reason"
_GROUP = f"(?P<{_REASON}>"


class ConstrainedAnswer:
    """An answer that is being written, from its forced beginning to its end."""

    def __init__(self, constraints: Constraints, shape: CompiledGrammar, explanation: CompiledGrammar | None) -> None:
        written = explanation or shape
        if written.start.forced != shape.start.forced:
            raise ModelError(
                f"an explanation by {written.grammar.name!r} does not begin as {shape.grammar.name!r} does"
            )
        self._constraints = constraints
        self._grammar = written.grammar
        self._verdict_alone = shape.start.choice if explanation else None
        self._position: Position = written.start
        self._text = written.start.text
        self._readings: list[Reading] = []
        self._reason_tokens = 0
        self.free_tokens = 0
        """Tokens that the model chose for reasons."""
        self.continued_tokens = 0
        """Tokens to evaluate behind the forced beginning."""

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens to evaluate before `take`."""
        return self._position.forced

    @property
    def finished(self) -> bool:
        """Whether nothing is left to decide."""
        return self._position.choice is None

    @property
    def wanted(self) -> tuple[int, ...]:
        """Tokens whose logits decide the verdict that is next; none where the next token is one of a reason."""
        choice = self._position.choice
        if choice is None or not choice.labels:
            return ()
        legal = choice.legal | self._verdict_alone.legal if self._verdict_alone else choice.legal
        return tuple(int(token) for token in np.flatnonzero(legal))

    @property
    def reason_left(self) -> int:
        """How many tokens the reason may still take before it is closed."""
        return max(self._grammar.reason_tokens - self._reason_tokens, 0)

    def is_legal(self, token: int) -> bool:
        """Whether the token may come next."""
        return self._position.choice is not None and bool(self._position.choice.legal[token])

    def take(self, logits: NDArray[np.floating[Any]]) -> None:
        """Decide from the logits behind the pending tokens, shape (vocabulary,).

        Raises SampleError if they are not numbers.
        """
        choice = self._position.choice
        if choice is None:
            raise ValueError("the answer is finished")
        if choice.labels:
            self._go_on(self._verdict(choice, logits))
            return
        self.free_tokens += 1
        self._reason_tokens += 1
        if self._reason_tokens > self._grammar.reason_tokens:
            choice = self._constraints.closing(choice, self._grammar)
        self._go_on(greedy(choice.legal, logits))

    @property
    def reason_end(self) -> str:
        """The character that ends a reason."""
        return self._grammar.reason_end

    def answers(self) -> tuple[Answer, ...]:
        """One answer for each verdict, in their order."""
        entries = _entries(self._text.decode(), self._grammar)
        return tuple(
            Answer(p_yes=reading.p_yes, legal_mass=reading.legal_mass, raw=entry.raw, reason=entry.reason)
            for reading, entry in zip(self._readings, entries, strict=True)
        )

    def _verdict(self, choice: Choice, logits: NDArray[np.floating[Any]]) -> int:
        """Read the verdict, and give the token that writes it down.

        Where a reason follows, other tokens may carry the label than where none does: it is read as if none did.
        """
        reading = read(self._verdict_alone or choice, logits)
        self._verdict_alone = None
        self._readings.append(reading)
        self._reason_tokens = 0
        carriers = choice.labels[reading.label]
        return int(carriers[np.argmax(logits[carriers])])

    def _go_on(self, token: int) -> None:
        self._position = self._constraints.after(self._position, token, self._grammar)
        self._text += self._position.text
        if not self.finished:
            self.continued_tokens += len(self.pending)


class _Entry(NamedTuple):
    raw: str
    reason: str | None


def _entries(raw: str, grammar: Grammar) -> list[_Entry]:
    """The text of each verdict, verbatim, with its reason: the whole answer, or the entries of its one list."""
    if not grammar.reason_tokens:
        return [_Entry(raw, None)]
    if _GROUP in grammar.pattern:
        found = re.fullmatch(grammar.pattern, raw)
        return [_Entry(raw, found[_REASON].strip() if found else None)]
    if grammar.verdicts == 1 and not raw.partition(":")[2].startswith("["):
        return [_Entry(raw, json.loads(raw).get(_REASON))]
    decoder = json.JSONDecoder()
    entries, place = [], raw.index("[") + 1
    for _ in range(grammar.verdicts):
        entry, end = decoder.raw_decode(raw, place)
        entries.append(_Entry(raw[place:end], entry.get(_REASON)))
        place = end + 1
    return entries
