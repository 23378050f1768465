"""Decode requests into answers under a grammar, for any engine that evaluates tokens.

    request    "Decide ..." (ours)   "Paris ..." (user's)   "<|im_end|>..." (ours)
    path       [begin] tokens ...    tokens ...             tokens ... {"attributed":
    answer     {"attributed":        forced: the grammar allows no other token
               0 | 1                 verdict: p_yes = softmax over the valid tokens, by label
               }                     forced: known without a model call

A position where every valid token begins a label ("1", "1}") is a verdict; other positions are free
text of a reason, chosen greedily. A forced space is left to the verdict's token if every label has
a token with a leading space. Forced text is tokenised like user text because it may quote the user.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial, reduce
from itertools import chain
from typing import Any, NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.protocol import EngineStats
from localjudge.engine.requests import equal_requests, require_room, tokenize_node
from localjudge.engine.tokens import ChatTemplate, Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.types import Answer, ChatEnds, Grammar, NoAnswer, VerdictRequest

TokenPath = tuple[tuple[int, ...], ...]  # tokens of each node of one request, root first


def depth_first(paths: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the indices of the paths in an order that evaluates each distinct node once."""
    _, numbered_paths = _number_nodes(paths)
    return sorted(range(len(paths)), key=numbered_paths.__getitem__)


def distinct_tokens(paths: Sequence[TokenPath]) -> int:
    """Return the tokens of all paths, with shared beginnings counted once."""
    numbers, _ = _number_nodes(paths)
    return sum(len(node) for _, node in numbers)


def _number_nodes(
    paths: Sequence[Sequence[Any]],
) -> tuple[dict[tuple[int, Any], int], list[list[int]]]:
    """Number the nodes of a tree with these paths, from 1.

    Returns the number of each node by (number of its parent, node), and each path as numbers.
    """
    numbers: dict[tuple[int, Any], int] = {}
    numbered_paths = []
    for path in paths:
        numbered = [0]
        for node in path:
            numbered.append(numbers.setdefault((numbered[-1], node), len(numbers) + 1))
        numbered_paths.append(numbered)
    return numbers, numbered_paths


def shared_nodes(resident: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """Return the number of nodes with which both paths begin."""
    count = 0
    for resident_node, wanted_node in zip(resident, wanted, strict=False):
        if resident_node != wanted_node:
            break
        count += 1
    return count


_STRING = r'[^"\\\x00-\x1F\x7F-\x9F]'
# Tokens that llguidance allows or forbids together: the same mask, in a quarter of the time.
_SLICES = [_STRING + "{1,10}", _STRING + "{1,30}", _STRING + "+"]
_REASON_END = '"'  # the first character after a reason, which cannot contain it
# Maximum number of tokens that end a reason: the rest of a character, which may be escaped, and
# the quotation mark.
_CLOSING_TOKENS = 4


class Choice(NamedTuple):
    """Position with several valid tokens.

    `valid` masks the tokens that the grammar allows (vocabulary,). `labels` has the ascending token
    ids of each label; it is empty for free text.
    """

    valid: NDArray[np.bool_]
    labels: dict[float, NDArray[np.intp]]

    @property
    def can_write_all_labels(self) -> bool:
        return all(tokens.size for tokens in self.labels.values())


class Reading(NamedTuple):
    """Verdict from the logits.

    `label` is the value nearest to `p_yes`, `valid_mass` the share of valid tokens.
    """

    label: float
    p_yes: float
    valid_mass: float


class Position(NamedTuple):
    """Position in an answer.

    `forced` are the tokens since the last decision and `text` their bytes. `choice` is None at the
    end.
    """

    matcher: llguidance.LLMatcher
    forced: tuple[int, ...]
    text: bytes
    choice: Choice | None


class CompiledGrammar(NamedTuple):
    """Grammar in one vocabulary.

    `longest` counts the tokens of an answer up to its last decision.
    """

    grammar: Grammar
    start: Position
    longest: int


class Constraints:
    """Grammars compiled for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Tokens(vocabulary)), slices=_SLICES
        )
        self._compiled: dict[str, CompiledGrammar] = {}
        # Not bound to self: a vocabulary in a cycle of references would be freed too late.
        self._label_masks = cache(partial(_label_masks, vocabulary.pieces))
        self._closing = np.array(
            [piece.startswith(_REASON_END.encode()) for piece in vocabulary.pieces]
        )
        self._blank = np.array([not piece.strip() for piece in vocabulary.pieces])

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Compile a grammar. Raises ModelError if the vocabulary cannot write its answers."""
        key = grammar.model_dump_json()
        if key not in self._compiled:
            matcher = llguidance.LLMatcher(
                self._tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern)
            )
            if matcher.is_error():
                raise ModelError(
                    f"the grammar {grammar.name!r} cannot be compiled: {matcher.get_error()}"
                )
            start = self._next_position(matcher, (), b"", grammar)
            self._compiled[key] = CompiledGrammar(grammar, start, self._longest(start, grammar))
        return self._compiled[key]

    def advance(self, position: Position, token: int, grammar: Grammar) -> Position:
        matcher = position.matcher.deep_copy()
        _consume(matcher, [token], grammar)
        return self._next_position(matcher, (token,), self._vocabulary.pieces[token], grammar)

    def closing(self, choice: Choice) -> Choice:
        """Return the choice among the tokens that end a reason, if any is valid."""
        closing = choice.valid & self._closing
        if not closing.any():
            return choice
        return choice._replace(valid=closing)

    def _next_position(
        self,
        matcher: llguidance.LLMatcher,
        tokens: tuple[int, ...],
        text: bytes,
        grammar: Grammar,
    ) -> Position:
        try:
            forced = matcher.compute_ff_bytes().decode()
        except UnicodeDecodeError:  # inside a character; its other bytes are still to be chosen
            forced = ""
        if forced.endswith(" "):
            spaceless = forced.rstrip(" ")
            ahead = matcher.deep_copy()
            following = self._vocabulary.user(spaceless)
            _consume(ahead, following, grammar)
            choice = self._choice(ahead, grammar, blanks=False)
            if choice.labels and choice.can_write_all_labels:
                return Position(ahead, (*tokens, *following), text + spaceless.encode(), choice)
        if forced:
            following = self._vocabulary.user(forced)
            _consume(matcher, following, grammar)
            tokens = (*tokens, *following)
            text += forced.encode()
        if matcher.is_accepting():
            return Position(matcher, tokens, text, None)
        choice = self._choice(matcher, grammar)
        if not choice.can_write_all_labels:
            raise ModelError(
                f"this model's tokens cannot write every answer of the grammar {grammar.name!r}",
            )
        return Position(matcher, tokens, text, choice)

    def _choice(
        self, matcher: llguidance.LLMatcher, grammar: Grammar, *, blanks: bool = True
    ) -> Choice:
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        valid = np.unpackbits(bits, count=self._vocabulary.size, bitorder="little").view(np.bool_)
        if not blanks:
            valid = valid & ~self._blank
        masks = self._label_masks(tuple(grammar.labels.items()))
        begins_a_label = np.logical_or.reduce(list(masks.values()))
        if (valid & ~begins_a_label).any():
            return Choice(valid, {})
        labels = {label: np.flatnonzero(valid & mask) for label, mask in masks.items()}
        return Choice(valid, labels)

    def _longest(self, start: Position, grammar: Grammar) -> int:
        """Return the tokens of an answer with the shortest reasons, plus the growth of reasons."""
        tokens = len(start.forced)
        has_reasons = False
        position = start
        while position.choice:
            if not position.choice.labels:
                has_reasons = True
            soonest_closed = int(np.argmax(self.closing(position.choice).valid))
            position = self.advance(position, soonest_closed, grammar)
            if position.choice:
                tokens += len(position.forced)
            else:
                tokens += 1
        if has_reasons:
            tokens += grammar.reason_tokens + _CLOSING_TOKENS
        return tokens


def read_verdict(choice: Choice, logits: NDArray[np.floating[Any]]) -> Reading:
    """Read the verdict from logits (vocabulary,). Raises SampleError if they are not finite."""
    scores = logits.astype(np.float64)
    _require_finite(scores.max(), *scores[choice.valid])
    by_label = {label: _log_sum_exp(scores[ids]) for label, ids in choice.labels.items()}
    valid_mass = float(np.exp(reduce(np.logaddexp, by_label.values()) - _log_sum_exp(scores)))
    p_yes = 0.0
    for label, score in by_label.items():
        p_yes += label * _share(score, by_label.values())
    p_yes = min(p_yes, 1.0)
    nearest = min(by_label, key=lambda label: (abs(label - p_yes), -label))
    return Reading(nearest, p_yes, valid_mass)


def _label_masks(
    pieces: Sequence[bytes], literals: tuple[tuple[str, float], ...]
) -> dict[float, NDArray[np.bool_]]:
    """Return masks (vocabulary,) of tokens that begin the literal of a label or begin with it."""
    masks = {label: np.zeros(len(pieces), np.bool_) for label in sorted(dict(literals).values())}
    spellings = [(literal.encode(), masks[label]) for literal, label in literals]
    for token, piece in enumerate(pieces):
        written = piece.strip()
        if not written:
            continue
        for spelled, mask in spellings:
            if written.startswith(spelled) or spelled.startswith(written):
                mask[token] = True
    return masks


def _share(score: float, scores: Iterable[float]) -> float:
    total = 0.0  # not `sum`, which rounds differently between Python versions
    for other in scores:
        total += np.exp(np.clip(other - score, -700, 700))
    return float(1 / total)


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = scores.max()
    return float(peak + np.log(np.exp(scores - peak).sum()))


def greedy(valid: NDArray[np.bool_], logits: NDArray[np.floating[Any]]) -> int:
    """Return the first of the most likely valid tokens.

    Raises SampleError if the logits are not finite.
    """
    allowed = np.where(valid, logits, -np.inf)
    _require_finite(logits.max(), allowed.max())
    return int(np.argmax(allowed))


def _require_finite(*logits: float) -> None:
    if not np.isfinite(logits).all():  # a maximum is NaN if any element is NaN
        raise SampleError(
            "the model gave logits that are not numbers: its file or the build is damaged"
        )


class _Tokens:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos
        self.bos_token_id = vocabulary.begin
        self.tokens = vocabulary.pieces
        self.special_token_ids = sorted(vocabulary.reserved)
        self._vocabulary = vocabulary

    def __call__(self, text: bytes) -> list[int]:
        return self._vocabulary.trusted(text.decode(errors="replace"))


def _consume(matcher: llguidance.LLMatcher, tokens: list[int], grammar: Grammar) -> None:
    if not matcher.consume_tokens(tokens):
        problem = f"this model's tokens cannot follow the grammar {grammar.name!r}"
        raise ModelError(f"{problem}: {matcher.get_error()}")


class ConstrainedAnswer:
    """Answer in progress."""

    def __init__(
        self,
        constraints: Constraints,
        shape: CompiledGrammar,
        explanation: CompiledGrammar | None,
    ) -> None:
        written = explanation or shape
        if written.start.forced != shape.start.forced:
            name = shape.grammar.name
            raise ModelError(
                f"{written.grammar.name!r} does not begin as {name!r}, which it explains"
            )
        self._constraints = constraints
        self._grammar = written.grammar
        self._verdict_without_reason: Choice | None = None
        if explanation:
            self._verdict_without_reason = shape.start.choice
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


class DecodingEngine(ABC):
    """Base class of engines. Decodes equal requests once. Subclasses evaluate the tokens."""

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
        self._node = lru_cache(maxsize=4096)(partial(tokenize_node, vocabulary))
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
