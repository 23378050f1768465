"""Which tokens are legal, and what each would mean: a grammar compiled for one vocabulary by llguidance.

    {"reason":"        forced: the grammar allows nothing else, so it is put behind the prompt and costs no decision
    ... text ...       free: the model chooses among the tokens that the grammar allows
    ","attributed":    forced
    0 | 1              the verdict: p_yes = softmax over the legal tokens, summed by label: the expected value
    }                  forced: known without asking

A token is legal if the grammar's own mask allows it; several may carry the same label ("1", "1}"). A place where every
legal token begins a label is a verdict; any other is free text. Labels are values in [0, 1]: of 0 and 1 the expected
value is the probability of 1, of the levels 0, .25, .5, .75, 1 it is the mean level.

Most vocabularies write a word with the space before it (" yes"). A space that is forced before a verdict is therefore
left to the verdict's token, where the vocabulary has such a token for every label: `<score>` is forced, " yes" is read.

Forced text is tokenised as user text is: an answer may quote the user, and never needs a control token.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.types import Grammar

_GRAMMARS_KEPT = 512
_STRING = r'[^"\\\x00-\x1F\x7F-\x9F]'
_SLICES = [_STRING + "{1,10}", _STRING + "{1,30}", _STRING + "+"]
"""Kinds of token that llguidance allows or forbids as one: those of Outlines' strings, for a mask in a quarter of the
time. They do not change what is legal."""
_CLOSING_TOKENS = 4
"""Tokens that a reason may take to close: the rest of a character or an escaped one, and the quotation mark."""


class Choice(NamedTuple):
    """A place where a grammar leaves the model something to decide."""

    legal: NDArray[np.bool_]
    """Which tokens the grammar allows, shape (vocabulary,)."""
    labels: dict[float, NDArray[np.intp]]
    """Token ids that carry each label, ascending; empty where the text is free."""


class Reading(NamedTuple):
    """What the logits say at a verdict."""

    label: float
    """The value that is nearest to `p_yes`."""
    p_yes: float
    legal_mass: float


class Position(NamedTuple):
    """A place in an answer, and the way there from the decision before."""

    matcher: llguidance.LLMatcher
    forced: tuple[int, ...]
    """Tokens that nothing else could stand for, up to here."""
    text: bytes
    """What they spell."""
    choice: Choice | None
    """What is to be decided here; None at the end of the answer."""


class CompiledGrammar(NamedTuple):
    """A grammar in one vocabulary's tokens."""

    grammar: Grammar
    start: Position
    longest: int
    """Tokens of the longest legal answer, up to its last decision."""


class Constraints:
    """Compiles grammars for one vocabulary, each once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens(vocabulary)), slices=_SLICES)
        self._compiled: OrderedDict[str, CompiledGrammar] = OrderedDict()
        # Bound to the pieces and not to self: a vocabulary in a cycle of references would be freed much too late.
        self._carriers = cache(partial(_carrying, vocabulary.pieces))
        self._ends = cache(partial(_ending, vocabulary.pieces))
        self._blank = np.array([not piece.strip() for piece in vocabulary.pieces])

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """The grammar in tokens. Raises ModelError if this vocabulary cannot write its answers."""
        key = grammar.model_dump_json()
        if key not in self._compiled:
            start = self._arrive(self._matcher(grammar), (), b"", grammar)
            self._compiled[key] = CompiledGrammar(grammar, start, self._longest(start, grammar))
            if len(self._compiled) > _GRAMMARS_KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return self._compiled[key]

    def after(self, position: Position, token: int, grammar: Grammar) -> Position:
        """Where the answer stands once the token is chosen; the position given stays as it was."""
        matcher = position.matcher.deep_copy()
        _consume(matcher, [token], grammar)
        return self._arrive(matcher, (token,), self._vocabulary.pieces[token], grammar)

    def closing(self, choice: Choice, grammar: Grammar) -> Choice:
        """The choice, narrowed to what ends a reason if anything does."""
        closing = choice.legal & self._ends(grammar.reason_end)
        return choice._replace(legal=closing) if closing.any() else choice

    def _matcher(self, grammar: Grammar) -> llguidance.LLMatcher:
        matcher = llguidance.LLMatcher(self._tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern))
        if matcher.is_error():
            raise ModelError(f"the grammar {grammar.name!r} cannot be compiled: {matcher.get_error()}")
        return matcher

    def _arrive(
        self, matcher: llguidance.LLMatcher, tokens: tuple[int, ...], text: bytes, grammar: Grammar
    ) -> Position:
        """Follow what is forced, up to the next choice or the end."""
        forced = _whole_characters(matcher.compute_ff_bytes())
        if forced.endswith(" "):
            before = self._before_space(matcher, forced.rstrip(" "), grammar)
            if before:
                return before._replace(forced=(*tokens, *before.forced), text=text + before.text)
        if forced:
            ahead = self._vocabulary.user(forced)
            _consume(matcher, ahead, grammar)
            tokens, text = (*tokens, *ahead), text + forced.encode()
        choice = None if matcher.is_accepting() else self._choice(matcher, grammar)
        return Position(matcher, tokens, text, choice)

    def _before_space(self, matcher: llguidance.LLMatcher, forced: str, grammar: Grammar) -> Position | None:
        """The place behind the forced text and before the space that follows it, if a verdict is read there.

        A token that is nothing but the space is none of the verdict's.
        """
        ahead = matcher.deep_copy()
        tokens = self._vocabulary.user(forced)
        _consume(ahead, tokens, grammar)
        legal = self._legal(ahead) & ~self._blank
        by_label = self._by_label(legal, grammar)
        if not by_label or not all(ids.size for ids in by_label.values()):
            return None
        return Position(ahead, tuple(tokens), forced.encode(), Choice(legal, by_label))

    def _choice(self, matcher: llguidance.LLMatcher, grammar: Grammar) -> Choice:
        legal = self._legal(matcher)
        by_label = self._by_label(legal, grammar)
        if not all(ids.size for ids in by_label.values()):
            raise ModelError(f"this model's tokens cannot write every answer of the grammar {grammar.name!r}")
        return Choice(legal, by_label)

    def _legal(self, matcher: llguidance.LLMatcher) -> NDArray[np.bool_]:
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        return np.unpackbits(bits, count=self._vocabulary.size, bitorder="little").view(np.bool_)

    def _by_label(self, legal: NDArray[np.bool_], grammar: Grammar) -> dict[float, NDArray[np.intp]]:
        """The legal tokens that carry each label; nothing where others are legal, too."""
        carriers = self._carriers(tuple(grammar.labels.items()))
        if (legal & ~np.logical_or.reduce(list(carriers.values()))).any():
            return {}
        return {label: np.flatnonzero(legal & carrier) for label, carrier in carriers.items()}

    def _longest(self, start: Position, grammar: Grammar) -> int:
        """Tokens of an answer whose reasons are as short as can be, and what longer reasons may add."""
        tokens, position, has_reasons = len(start.forced), start, False
        while position.choice:
            has_reasons |= not position.choice.labels
            tokens += 1
            position = self.after(position, self._soonest_closed(position.choice, grammar), grammar)
            tokens += len(position.forced) - 1 if position.choice else 0
        reasons = grammar.verdicts if has_reasons else 0
        return tokens + reasons * (grammar.reason_tokens + _CLOSING_TOKENS)

    def _soonest_closed(self, choice: Choice, grammar: Grammar) -> int:
        return int(np.argmax(self.closing(choice, grammar).legal))


def read(choice: Choice, logits: NDArray[np.floating[Any]]) -> Reading:
    """The verdict that the logits (shape: vocabulary) hold at a choice between labels.

    Raises SampleError if they are not numbers.
    """
    scores = logits.astype(np.float64)
    _require_numbers(scores.max(), *scores[choice.legal])
    by_label = {label: _log_sum_exp(scores[ids]) for label, ids in choice.labels.items()}
    legal_mass = float(np.exp(reduce(np.logaddexp, by_label.values()) - _log_sum_exp(scores)))
    p_yes = 0.0
    for label, score in by_label.items():
        p_yes += label * _share(score, by_label.values())
    p_yes = min(p_yes, 1.0)
    return Reading(min(by_label, key=lambda label: (abs(label - p_yes), -label)), p_yes, legal_mass)


def _carrying(pieces: Sequence[bytes], literals: tuple[tuple[str, float], ...]) -> dict[float, NDArray[np.bool_]]:
    """Which tokens begin a literal of each label, or begin with one; shape (vocabulary,)."""
    stripped = [piece.strip() for piece in pieces]
    carriers = {label: np.zeros(len(stripped), np.bool_) for _, label in sorted(literals, key=lambda one: one[1])}
    for literal, label in literals:
        wanted = literal.encode()
        carriers[label] |= [
            bool(piece) and (piece.startswith(wanted) or wanted.startswith(piece)) for piece in stripped
        ]
    return carriers


def _ending(pieces: Sequence[bytes], end: str) -> NDArray[np.bool_]:
    """Which tokens begin with the end of a reason; shape (vocabulary,)."""
    return np.array([piece.startswith(end.encode()) for piece in pieces])


def _share(score: float, scores: Iterable[float]) -> float:
    """Softmax of one of the scores. Added up one by one: `sum` of other Pythons rounds otherwise."""
    total = 0.0
    for other in scores:
        total += np.exp(np.clip(other - score, -700, 700))
    return float(1 / total)


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = scores.max()
    return float(peak + np.log(np.exp(scores - peak).sum()))


def greedy(legal: NDArray[np.bool_], logits: NDArray[np.floating[Any]]) -> int:
    """The most likely legal token, the one with the lowest id among equals.

    Raises SampleError if the logits are not numbers.
    """
    allowed = np.where(legal, logits, -np.inf)
    _require_numbers(logits.max(), allowed.max())
    return int(np.argmax(allowed))


def _require_numbers(*logits: float) -> None:
    """NumPy's largest of many is NaN if one of them is."""
    if not np.isfinite(logits).all():
        raise SampleError("the model gave logits that are not numbers: its file or the build is damaged")


class _Tokens:
    """The vocabulary in the shape that llguidance reads: bytes by token id."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos
        self.bos_token_id = vocabulary.begin
        self.tokens = vocabulary.pieces
        self.special_token_ids = sorted(vocabulary.reserved)
        self._vocabulary = vocabulary

    def __call__(self, text: bytes) -> list[int]:
        return self._vocabulary.trusted(text.decode(errors="replace"))


def _whole_characters(forced: bytes) -> str:
    """The forced text; nothing where it starts inside a character, whose bytes are then chosen one by one."""
    try:
        return forced.decode()
    except UnicodeDecodeError:
        return ""


def _consume(matcher: llguidance.LLMatcher, tokens: list[int], grammar: Grammar) -> None:
    if not matcher.consume_tokens(tokens):
        raise ModelError(
            f"the grammar {grammar.name!r} cannot be followed with this model's tokens: {matcher.get_error()}"
        )
