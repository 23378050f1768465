"""Which tokens are legal, and what each would mean: a grammar compiled for one vocabulary by llguidance.

    {"attributed":   forced: the grammar allows nothing else, so it is put behind the prompt and costs no decision
    0 | 1            the verdict: p_yes = softmax over the legal tokens, summed by label
    }                forced: known without asking

A token is legal if the grammar's own mask allows it; several may carry the same label ("1", "1}").
"""

from typing import NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.vocabulary import Vocabulary
from localjudge.errors import ModelError
from localjudge.types import Answer, Grammar, Label


class VerdictPoint(NamedTuple):
    """Where a grammar leaves the model its one decision."""

    forced: list[int]
    """Tokens before the decision."""
    legal: dict[Label, NDArray[np.intp]]
    """Token ids that carry each label, ascending."""
    raw: dict[Label, str]
    """The whole answer for each label."""

    def read(self, logits: NDArray[np.float32]) -> Answer:
        """The answer that the logits (shape: vocabulary) hold at the decision."""
        scores = logits.astype(np.float64)
        everything = np.logaddexp.reduce(scores)
        no, yes = (np.logaddexp.reduce(scores[self.legal[label]]) for label in (0, 1))
        p_yes = float(1.0 / (1.0 + np.exp(np.clip(no - yes, -700, 700))))
        return Answer(
            p_yes=p_yes,
            legal_mass=float(np.exp(np.logaddexp(no, yes) - everything)),
            raw=self.raw[1 if yes >= no else 0],
        )


class Constraints:
    """Compiles grammars for one vocabulary, each once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens(vocabulary)))
        self._compiled: dict[tuple[str, str], VerdictPoint] = {}

    def verdict_point(self, grammar: Grammar) -> VerdictPoint:
        """Where the grammar decides. Raises ModelError if this vocabulary cannot write its answers."""
        key = (grammar.name, grammar.pattern)
        if key not in self._compiled:
            self._compiled[key] = self._compile(grammar)
        return self._compiled[key]

    def _compile(self, grammar: Grammar) -> VerdictPoint:
        matcher = llguidance.LLMatcher(self._tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern))
        forced_text = matcher.compute_ff_bytes()
        forced = self._vocabulary.trusted(forced_text.decode())
        if not matcher.consume_tokens(forced):
            raise ModelError(
                f"the grammar {grammar.name!r} cannot be followed with this model's tokens: {matcher.get_error()}"
            )
        by_label: dict[Label, list[int]] = {0: [], 1: []}
        raw: dict[Label, str] = {}
        for token in _allowed(matcher.compute_bitmask()):
            label = self._label(token, grammar)
            by_label[label].append(token)
            if label not in raw:
                raw[label] = (forced_text + self._finish(matcher, token)).decode()
        if not all(by_label.values()):
            raise ModelError(f"this model's tokens cannot write every answer of the grammar {grammar.name!r}")
        legal: dict[Label, NDArray[np.intp]] = {label: np.array(ids, dtype=np.intp) for label, ids in by_label.items()}
        return VerdictPoint(forced, legal, raw)

    def _label(self, token: int, grammar: Grammar) -> Label:
        """The label whose literal this token begins, or that begins this token."""
        piece = self._vocabulary.pieces[token].decode().strip()
        for literal, label in grammar.labels.items():
            if piece.startswith(literal) or literal.startswith(piece):
                return label
        raise ModelError(f"the grammar {grammar.name!r} allows {piece!r}, which stands for no label")

    def _finish(self, matcher: llguidance.LLMatcher, token: int) -> bytes:
        """Text of the rest of the answer once the token is chosen."""
        branch = matcher.deep_copy()
        branch.consume_token(token)
        return self._vocabulary.pieces[token].strip() + branch.compute_ff_bytes()


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


def _allowed(bitmask: bytes) -> list[int]:
    """Token ids whose bit is set, ascending."""
    bits = np.unpackbits(np.frombuffer(bitmask, dtype=np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]
