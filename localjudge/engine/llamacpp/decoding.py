"""Answers on their way through the cells, one after the other.

instructions ─ context ─ statement 1 {"attributed":     the path is held, the answer grows behind it
instructions ─ context                                  and goes, before the next begins
"""

from typing import NamedTuple

from localjudge.engine.llamacpp.constrained_answer import ConstrainedAnswer
from localjudge.engine.llamacpp.constraint import Constraints
from localjudge.engine.llamacpp.kv_cache import KVCache, TokenRun
from localjudge.engine.llamacpp.prefix_cache import PrefixCache
from localjudge.engine.llamacpp.tokenized import TokenizedRequest
from localjudge.errors import SampleError
from localjudge.types import Answer, NoAnswer


class Decoded(NamedTuple):
    """An answer for each verdict, or why there is none, and what it took.

    `continued` counts the tokens evaluated behind the answer's forced beginning, `free` those that the model chose for
    reasons.
    """

    answers: tuple[Answer, ...] | NoAnswer
    continued: int
    free: int


class IsolatedDecoder:
    """Decodes every answer by itself: nothing but its own path is in the cells."""

    def __init__(self, constraints: Constraints, cache: KVCache) -> None:
        self._constraints = constraints
        self._cache = cache
        self._prefix = PrefixCache(cache)

    def decode(self, request: TokenizedRequest) -> Decoded:
        """The answer to one request. Only what its path does not share with the one before is evaluated."""
        answer = ConstrainedAnswer(self._constraints, request.grammar, request.explanation)
        answers: tuple[Answer, ...] | NoAnswer
        try:
            self._write(answer, request)
            answers = answer.answers()
        except SampleError as error:
            self._prefix.wipe()  # the cells may hold what is not a number
            answers = NoAnswer(error=error.in_one_line)
        return Decoded(answers, answer.continued_tokens, answer.free_tokens)

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        """Evaluate and decide until the answer is finished. Raises SampleError if it cannot be."""
        run = TokenRun(self._prefix.hold(request.path[:-1]), request.path[-1])
        while not answer.finished:
            answer.take(self._cache.logits_behind(run))
            run = TokenRun(run.end, answer.pending)
            if not answer.finished and run.end >= request.longest:
                raise SampleError(f"the answer did not end within the {request.longest} tokens kept for it")
