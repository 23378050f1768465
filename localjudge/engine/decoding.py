"""Decode requests into answers under a grammar, for any engine that evaluates tokens.

    request    "Decide ..." (ours)   "Paris ..." (user's)   "<|im_end|>..." (ours)
    path       [begin] tokens ...    tokens ...             tokens ... {"attributed":
    answer     {"attributed":        forced: the grammar allows no other token
               0 | 1                 verdict: p_yes = softmax over the valid tokens, by label
               }                     forced: known without a model call

Text of a reason is chosen greedily. `constraints` says what is forced, `logits` how a verdict is
read.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.chat_template import ChatTemplate
from localjudge.engine.constraints import Choice, CompiledGrammar, Constraints, Position
from localjudge.engine.logits import Reading, greedy, read_verdict
from localjudge.engine.prompt_tree import TokenPath, depth_first, distinct_tokens
from localjudge.engine.protocol import EngineStats
from localjudge.engine.requests import equal_requests, require_room, tokenize_node
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest

_NODES_KEPT = 4096


class TokenizedRequest(NamedTuple):
    """Tokens of the prompt and the answer's forced beginning, and the answer's grammars."""

    path: TokenPath
    grammar: CompiledGrammar
    explanation: CompiledGrammar | None

    @property
    def longest(self) -> int:
        prompt = sum(map(len, self.path)) - len(self.grammar.start.forced)
        return prompt + (self.explanation or self.grammar).longest

    def require_room(self, tokens: int) -> None:
        """Raise SampleError if an unfinished answer has used its tokens."""
        if tokens >= self.longest:
            raise SampleError(
                f"the answer did not end within the {self.longest} tokens kept for it"
            )


class ConstrainedAnswer:
    """Answer in progress.

    An `explanation` is written in place of the `verdict` that it continues.
    """

    def __init__(
        self,
        constraints: Constraints,
        verdict: CompiledGrammar,
        explanation: CompiledGrammar | None,
    ) -> None:
        written = explanation or verdict
        if written.start.forced != verdict.start.forced:
            name = verdict.grammar.name
            raise ModelError(
                f"{written.grammar.name!r} does not begin as {name!r}, which it explains"
            )
        self._constraints = constraints
        self._grammar = written.grammar
        self._verdict_without_reason: Choice | None = None
        if explanation:
            self._verdict_without_reason = verdict.start.choice
        self._position: Position = written.start
        self._text = written.start.text
        self._readings: list[Reading] = []
        self._reason_tokens = 0
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
        token = self._choose_token(choice, logits)
        self._position = self._constraints.advance(self._position, token, self._grammar)
        self._text += self._position.text
        if not self.finished:
            self.continued_tokens += len(self.pending)

    def _choose_token(self, choice: Choice, logits: NDArray[np.floating[Any]]) -> int:
        if choice.labels:
            return self._decide_label(choice, logits)
        return self._continue_reason(choice, logits)

    def _decide_label(self, choice: Choice, logits: NDArray[np.floating[Any]]) -> int:
        """Read the verdict and return the most likely token of its label."""
        # Read as if no reason followed: before a reason, other tokens may express the label.
        reading = read_verdict(self._verdict_without_reason or choice, logits)
        self._verdict_without_reason = None
        self._readings.append(reading)
        self._reason_tokens = 0
        tokens = choice.labels[reading.label]
        return int(tokens[np.argmax(logits[tokens])])

    def _continue_reason(self, choice: Choice, logits: NDArray[np.floating[Any]]) -> int:
        """Return the most likely token of a reason, or of its end if it is too long."""
        self.free_tokens += 1
        self._reason_tokens += 1
        if self._reason_tokens > self._grammar.reason_tokens:
            choice = self._constraints.closing(choice)
        return greedy(choice.valid, logits)

    def answer(self) -> Answer:
        [reading] = self._readings
        raw = self._text.decode()
        reason = None
        if self._grammar.reason_tokens:
            reason = json.loads(raw).get("reason")
        return Answer(p_yes=reading.p_yes, valid_mass=reading.valid_mass, raw=raw, reason=reason)


class DecodingEngine(ABC):
    """Base class of engines that write answers. Decodes equal requests once.

    Subclasses evaluate the tokens.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        capacity: int,
        begin_of_text: bool,
        template: ChatTemplate | None,
    ) -> None:
        self.vocabulary = vocabulary
        self.capacity = capacity
        self._template = template
        self._constraints = Constraints(vocabulary)
        self._begin: tuple[int, ...] = ()
        if begin_of_text and vocabulary.begin is not None:
            self._begin = (vocabulary.begin,)
        self._node = lru_cache(maxsize=_NODES_KEPT)(partial(tokenize_node, vocabulary))
        self._unique_tokens = 0
        self._generated_tokens = 0
        self._seconds_total = 0.0

    @property
    def chat_ends(self) -> ChatEnds | None:
        if self._template is None:
            return None
        return self._template.ends

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        if self._template is None:
            return None
        return self._template.without_ends

    def tokenize(self, request: VerdictRequest) -> TokenizedRequest:
        """Tokenize a request.

        Raises SampleError for unreadable text, ModelError for an unusable grammar.
        """
        nodes = [self._node(node) for node in request.path]
        if self._begin and nodes[0][:1] != self._begin:
            nodes[0] = self._begin + nodes[0]
        grammar = self._constraints.compile(request.grammar)
        nodes[-1] += grammar.start.forced
        explanation = None
        if request.explanation:
            explanation = self._constraints.compile(request.explanation)
        return TokenizedRequest(tuple(nodes), grammar, explanation)

    def length(self, request: VerdictRequest) -> int:
        return self.tokenize(request).longest

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        paths = []
        for request in requests:
            with suppress(SampleError):
                paths.append(self.tokenize(request).path)
        return distinct_tokens(paths)

    def read_back(self, request: VerdictRequest) -> str | None:
        vocabulary = self.vocabulary
        if not vocabulary.exact:
            return None
        path, grammar, _ = self.tokenize(request)
        tokens = list(chain.from_iterable(path))
        prompt = tokens[: len(tokens) - len(grammar.start.forced)]
        text = vocabulary.decode(prompt).decode(errors="replace")
        begin = vocabulary.decode(list(self._begin)).decode(errors="replace")
        if request.path[0][0].text.startswith(begin):
            return text
        return text.removeprefix(begin)

    @abstractmethod
    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        """Complete the answer. Raises SampleError if this is impossible."""

    @property
    @abstractmethod
    def _evaluated(self) -> tuple[int, float]:
        """Tokens and seconds."""

    @property
    def stats(self) -> EngineStats:
        evaluated, seconds = self._evaluated
        return EngineStats(
            unique_tokens=self._unique_tokens,
            evaluated_tokens=evaluated,
            generated_tokens=self._generated_tokens,
            seconds_inside=seconds,
            seconds_total=self._seconds_total,
        )

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        started = time.perf_counter()
        questions: list[tuple[TokenizedRequest, list[int]]] = []
        refused: list[tuple[int, NoAnswer]] = []
        for indices in equal_requests(requests):
            try:
                questions.append((self._tokenize_if_it_fits(requests[indices[0]]), indices))
            except SampleError as error:
                no_answer = NoAnswer(error=error.in_one_line)
                refused += [(index, no_answer) for index in indices]
        paths = [question.path for question, _ in questions]
        self._unique_tokens += distinct_tokens(paths)
        self._seconds_total += time.perf_counter() - started
        yield from refused
        for place in depth_first(paths):
            question, indices = questions[place]
            answer = self._decode(question)
            for index in indices:
                yield index, answer

    def _tokenize_if_it_fits(self, request: VerdictRequest) -> TokenizedRequest:
        tokenized = self.tokenize(request)
        require_room(tokenized.longest, self.capacity, "the prompt and the longest answer have")
        return tokenized

    def _decode(self, request: TokenizedRequest) -> Answer | NoAnswer:
        started = time.perf_counter()
        answer = ConstrainedAnswer(self._constraints, request.grammar, request.explanation)
        try:
            self._write(answer, request)
            return answer.answer()
        except SampleError as error:
            return NoAnswer(error=error.in_one_line)
        finally:
            self._unique_tokens += answer.continued_tokens
            self._generated_tokens += answer.free_tokens
            self._seconds_total += time.perf_counter() - started
