"""Write one answer under a grammar: which tokens come next, and what the verdict is.

    request    "Decide ..." (ours)   "Paris ..." (user's)   "<|im_end|>..." (ours)
    tokens     [begin] tokens ...    tokens ...             tokens ... {"attributed":
    answer     {"attributed":        forced: the grammar allows no other token
               0 | 1                 verdict: p_yes = softmax over the valid tokens, by label
               }                     forced: known without a model call

A position where every valid token begins a label ("1", "1}") decides the verdict; other choices are
free text of a reason, chosen greedily. A forced space is left to the verdict's token if every label
has a token with a leading space. Forced text is tokenised like user text because it may quote the
user.

An engine evaluates the pending tokens and passes the logits on, until the answer is finished. A
classifier writes nothing, and its answers are the `answer_texts` of the grammar.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.tokens import Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.types import Answer, Grammar

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

    `longest` counts the tokens of an answer up to and with its last decision. A verdict before its
    reason is read as if no reason followed, because other tokens may express the label then:
    `verdict_before_reason` is the choice without the reason.
    """

    grammar: Grammar
    start: Position
    longest: int
    verdict_before_reason: Choice | None = None


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

    def compile(self, grammar: Grammar, explanation: Grammar | None = None) -> CompiledGrammar:
        """Compile a grammar, or the `explanation` that adds a reason after its verdict.

        Raises ModelError if the vocabulary cannot write its answers, or if the explanation does not
        begin as the grammar.
        """
        verdict = self._compile(grammar)
        if explanation is None:
            return verdict
        explained = self._compile(explanation)
        if explained.start.forced != verdict.start.forced:
            raise ModelError(
                f"{explanation.name!r} does not begin as {grammar.name!r}, which it explains"
            )
        return explained._replace(verdict_before_reason=verdict.start.choice)

    def _compile(self, grammar: Grammar) -> CompiledGrammar:
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
            longest = len(start.forced)
            has_reasons = False
            position = start
            while position.choice:
                if not position.choice.labels:
                    has_reasons = True
                soonest_closed = int(np.argmax(self.closing(position.choice).valid))
                position = self.advance(position, soonest_closed, grammar)
                if position.choice:
                    longest += len(position.forced)
                else:
                    longest += 1
            if has_reasons:
                longest += grammar.reason_tokens + _CLOSING_TOKENS
            self._compiled[key] = CompiledGrammar(grammar, start, longest)
        return self._compiled[key]

    def advance(self, position: Position, token: int, grammar: Grammar) -> Position:
        """Return the position after choosing a token at this one."""
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
        """Return the position after `tokens`, which wrote `text`, and what they force."""
        try:
            forced = matcher.compute_ff_bytes().decode()
        except UnicodeDecodeError:  # inside a character; its other bytes are still to be chosen
            forced = ""
        if forced.endswith(" "):
            spaceless = forced.rstrip(" ")
            ahead = matcher.deep_copy()
            following = self._follow(ahead, spaceless, grammar)
            choice = self._choice(ahead, grammar, blanks=False)
            if choice.labels and choice.can_write_all_labels:
                return Position(ahead, (*tokens, *following), text + spaceless.encode(), choice)
        if forced:
            tokens = (*tokens, *self._follow(matcher, forced, grammar))
            text += forced.encode()
        if matcher.is_accepting():
            return Position(matcher, tokens, text, None)
        choice = self._choice(matcher, grammar)
        if not choice.can_write_all_labels:
            raise ModelError(
                f"this model's tokens cannot write every answer of the grammar {grammar.name!r}",
            )
        return Position(matcher, tokens, text, choice)

    def _follow(self, matcher: llguidance.LLMatcher, forced: str, grammar: Grammar) -> list[int]:
        """Move the matcher behind forced text, and return its tokens."""
        tokens = self._vocabulary.user(forced)
        _consume(matcher, tokens, grammar)
        return tokens

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


def _consume(matcher: llguidance.LLMatcher, tokens: list[int], grammar: Grammar) -> None:
    if not matcher.consume_tokens(tokens):
        problem = f"this model's tokens cannot follow the grammar {grammar.name!r}"
        raise ModelError(f"{problem}: {matcher.get_error()}")


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


class _Tokens:
    """The vocabulary as llguidance expects it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos
        self.bos_token_id = vocabulary.begin
        self.tokens = vocabulary.pieces
        self.special_token_ids = sorted(vocabulary.reserved)
        self._vocabulary = vocabulary

    def __call__(self, text: bytes) -> list[int]:
        return self._vocabulary.trusted(text.decode(errors="replace"))


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


@cache
def answer_texts(grammar: Grammar) -> tuple[str, str]:
    """Return the grammar's only texts with the values 0 and 1.

    Raises ModelError if it has other answers.
    """
    tokenizer = llguidance.LLTokenizer("byte")
    regex = llguidance.LLMatcher.grammar_from_regex(grammar.pattern)
    texts: dict[float, str] = {}
    for literal, value in grammar.labels.items():
        matcher = llguidance.LLMatcher(tokenizer, regex)
        text = matcher.compute_ff_bytes() + literal.encode()
        can_follow = matcher.consume_tokens(tokenizer.tokenize_bytes(text))
        if can_follow:
            rest = matcher.compute_ff_bytes()
            text += rest
            matcher.consume_tokens(tokenizer.tokenize_bytes(rest))
        if not (can_follow and matcher.is_accepting()):
            problem = f"an answer of the grammar {grammar.name!r} contains more than yes or no"
            raise ModelError(problem)
        texts[value] = text.decode()
    if set(texts) != {0, 1}:
        raise ModelError(
            "a model with a classification head answers yes or no, "
            f"and the grammar {grammar.name!r} has other answers",
        )
    return texts[0], texts[1]


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = scores.max()
    return float(peak + np.log(np.exp(scores - peak).sum()))


def _require_finite(*logits: float) -> None:
    if not np.isfinite(logits).all():  # a maximum is NaN if any element is NaN
        raise SampleError(
            "the model gave logits that are not numbers: its file or the build is damaged"
        )
