"""Answer requests by the outputs of a classification head, for any engine that evaluates tokens.

    request    "<s>{share}" (ours)   "Paris ..." (user's)   "</s>" (ours)   ...
    tokens     0 190                 2123 ...               2               ...
    outputs    2.71 = z              p_yes = sigmoid(scale x z + bias)
    answer     {"attributed":1}      the grammar's text for the label nearest to p_yes

The model writes nothing, so all of its probability is on valid answers. One sequence is evaluated
at a time.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import chain

import llguidance
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.protocol import EngineStats
from localjudge.engine.requests import equal_requests, require_room, tokenize_node
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.types import (
    SHARE_PLACE,
    Answer,
    ChatEnds,
    ClassifierReading,
    Grammar,
    NoAnswer,
    Node,
    Piece,
    VerdictRequest,
)

_NODES_KEPT = 4096
_LARGEST_EXPONENT = 700.0
_ONE_HALF = 0.5


class ClassifyingEngine(ABC):
    """Base class of engines for models with a classification head. Evaluates equal requests once.

    `outputs` are the names of the head's outputs. Subclasses evaluate the tokens.
    """

    shares_prefixes = True  # nothing can be shared: every token reads all others

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        outputs: Sequence[str],
        capacity: int,
        begin_of_text: bool,
    ) -> None:
        self.vocabulary = vocabulary
        self.outputs = tuple(outputs)
        self.capacity = capacity
        self._begin: tuple[int, ...] = ()
        if begin_of_text and vocabulary.begin is not None:
            self._begin = (vocabulary.begin,)
        self._tokens_of = lru_cache(maxsize=_NODES_KEPT)(partial(_tokens_by_piece, vocabulary))
        self._seconds_total = 0.0

    @property
    def chat_ends(self) -> ChatEnds | None:
        return None

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        return None

    def tokenize(self, request: VerdictRequest) -> tuple[tuple[int, ...], int]:
        """Return the tokens of a request, and how many of them are its first text.

        Raises SampleError for unreadable text, ModelError for a request for another kind of model.
        """
        reading = self._require_reading(request)
        pieces: list[tuple[Piece, tuple[int, ...]]] = []
        for node in request.path:
            pieces += self._tokens_of(node)
        texts = [tokens for piece, tokens in pieces if not piece.trusted]
        first, others = _first_and_others(texts)
        step: tuple[int, ...] = ()
        if reading.share:
            step = (reading.share[self._step(first, others, len(reading.share))],)
        tokens = list(self._begin)
        for piece, piece_tokens in pieces:
            if piece.trusted and SHARE_PLACE in piece.text:
                before, after = piece.text.split(SHARE_PLACE, 1)
                tokens += [*self.vocabulary.trusted(before), *step, *self.vocabulary.trusted(after)]
            else:
                tokens += piece_tokens
        if self._begin and tokens[1:2] == list(self._begin):
            del tokens[0]
        return tuple(tokens), len(first)

    def _require_reading(self, request: VerdictRequest) -> ClassifierReading:
        if request.reading is None or request.explanation is not None:
            raise ModelError(
                "this model gives probabilities of classes and writes no text",
                hint="use a prompt profile for its outputs",
            )
        if len(request.reading.outputs) != len(self.outputs):
            outputs = ", ".join(self.outputs)
            expected = ", ".join(request.reading.outputs)
            raise ModelError(
                f"the model's outputs are {outputs}, and the prompt profile expects {expected}",
                hint="use a prompt profile for its outputs",
            )
        return request.reading

    def _step(self, first: Sequence[int], others: frozenset[int], steps: int) -> int:
        """Return the step of a share: of the first text's tokens, in the other texts.

        Tokens are weighted by their information.
        """
        total = 0.0
        covered = 0.0
        for token in first:
            information = max(0.0, -self.vocabulary.score(token))
            total += information
            if token in others:
                covered += information
        if not total:
            return 0
        share = covered / total
        return min(steps - 1, math.floor(steps * share))

    def length(self, request: VerdictRequest) -> int:
        tokens, _ = self.tokenize(request)
        return len(tokens)

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        total = 0
        for indices in equal_requests(requests):
            with suppress(SampleError):
                total += self.length(requests[indices[0]])
        return total

    def read_back(self, request: VerdictRequest) -> str | None:
        if not self.vocabulary.exact or self._require_reading(request).share:
            return None
        all_tokens, _ = self.tokenize(request)
        tokens = list(all_tokens)
        begin = self.vocabulary.decode(list(self._begin)).decode(errors="replace")
        if not request.path[0][0].text.startswith(begin):
            tokens = tokens[len(self._begin) :]
        return self.vocabulary.decode(tokens).decode(errors="replace")

    @property
    def stats(self) -> EngineStats:
        tokens, seconds = self._evaluated
        return EngineStats(
            unique_tokens=tokens,
            evaluated_tokens=tokens,
            seconds_inside=seconds,
            seconds_total=self._seconds_total,
        )

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        for indices in equal_requests(requests):
            started = time.perf_counter()
            answer = self._answer(requests[indices[0]])
            self._seconds_total += time.perf_counter() - started
            for index in indices:
                yield index, answer

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        try:
            tokens, first_count = self.tokenize(request)
            beginning = f"the prompt (first text: {first_count} tokens) has"
            require_room(len(tokens), self.capacity, beginning)
            outputs = self._outputs_for(tokens)
            return answer_from(outputs, self._require_reading(request), request.grammar)
        except SampleError as error:
            return NoAnswer(error=error.in_one_line)

    @abstractmethod
    def _outputs_for(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Return the head's outputs, shape (outputs,)."""

    @property
    @abstractmethod
    def _evaluated(self) -> tuple[int, float]:
        """Tokens and seconds."""


def answer_from(
    outputs: NDArray[np.float32], reading: ClassifierReading, grammar: Grammar
) -> Answer:
    """Read the answer from the head's outputs. Raises SampleError if they are not finite."""
    scores = outputs.astype(np.float64)
    if not np.isfinite(scores).all():
        raise SampleError(
            "the model gave outputs that are not numbers: its file or the build is damaged"
        )
    z = float(scores[0])
    if len(reading.outputs) > 1:
        is_yes = np.array([name in reading.yes for name in reading.outputs])
        z = _log_sum_exp(scores[is_yes]) - _log_sum_exp(scores[~is_yes])
    exponent = min(max(reading.scale * z + reading.bias, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    p_yes = 1 / (1 + math.exp(-exponent))
    no, yes = answer_texts(grammar)
    text = no
    if p_yes >= _ONE_HALF:
        text = yes
    return Answer(p_yes=p_yes, valid_mass=1.0, raw=text)


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = float(scores.max())
    return peak + math.log(float(np.exp(scores - peak).sum()))


@cache
def answer_texts(grammar: Grammar) -> tuple[str, str]:
    """Return the grammar's only texts with the values 0 and 1.

    Raises ModelError if it has other answers.
    """
    texts = {value: _text_with(literal, grammar) for literal, value in grammar.labels.items()}
    if set(texts) != {0, 1}:
        raise ModelError(
            "a model with a classification head answers yes or no, "
            f"and the grammar {grammar.name!r} has other answers",
        )
    return texts[0], texts[1]


def _text_with(literal: str, grammar: Grammar) -> str:
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(
        tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern)
    )
    text = matcher.compute_ff_bytes() + literal.encode()
    can_follow = matcher.consume_tokens(tokenizer.tokenize_bytes(text))
    if can_follow:
        rest = matcher.compute_ff_bytes()
        text += rest
        matcher.consume_tokens(tokenizer.tokenize_bytes(rest))
    if not (can_follow and matcher.is_accepting()):
        raise ModelError(f"an answer of the grammar {grammar.name!r} contains more than yes or no")
    return text.decode()


def _first_and_others(texts: Sequence[Sequence[int]]) -> tuple[Sequence[int], frozenset[int]]:
    if not texts:
        return (), frozenset()
    return texts[0], frozenset(chain.from_iterable(texts[1:]))


def _tokens_by_piece(vocabulary: Vocabulary, node: Node) -> list[tuple[Piece, tuple[int, ...]]]:
    return [(piece, tokenize_node(vocabulary, (piece,))) for piece in node]
