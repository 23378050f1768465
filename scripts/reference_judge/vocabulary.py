"""The tokens of the reference judge, and what is known of each: how much it matters, how often it is a name.

    control tokens | the JSON answer | numbers | characters | words and word pieces, counted in prose

One line of `vocabulary.tsv` per token: text, weight and question weight in hundredths, capitals in percent. The order
of lines is the order of token ids.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .normalisation import Normaliser
from .stems import stem
from .tokenizer import SPACE, Tokenizer

UNKNOWN, PADDING, END = "<unk>", "<pad>", "<end>"
CONTEXT, QUESTION, STATEMENT, SENTENCE, ANSWER = "<ctx>", "<qst>", "<stmt>", "<sent>", "<ans>"
CONTROL = (UNKNOWN, PADDING, END, CONTEXT, QUESTION, STATEMENT, SENTENCE, ANSWER)

_PIECE_COST, _LETTER_COST, _FIRST_LETTER_COST = 1.0, 1.5, 1.6
"""Cuts into few pieces are cheap, and a lone letter comes rather at the end of a word than at its beginning."""


class Token(NamedTuple):
    """One entry of the vocabulary."""

    text: str
    weight: float = 0.0
    """How much it matters, from 0 (signs) to 1, whether the word is found in the context."""
    question_weight: float = 0.0
    """How much it matters, from 0 to 1, whether this word of a question is found in a sentence."""
    capitals: float = 0.0
    """Share of the word's uses that begin with a capital."""

    @property
    def is_control(self) -> bool:
        """Whether user text can never form this token."""
        return self.text in CONTROL

    @property
    def word(self) -> str:
        """The normalised word, or piece of one, without the mark of a word's beginning."""
        return self.text.removeprefix(SPACE)

    @property
    def identity(self) -> str:
        """Name of the class of words that this token is taken for. Pieces inside a word are apart from words."""
        inside = not self.text.startswith(SPACE) and self.word.isalnum()
        return f"+{self.word}" if inside else stem(self.word)

    @property
    def is_number(self) -> bool:
        """Whether it is written in digits, or is a word for a number."""
        digits = self.identity.removeprefix("+")
        return not self.is_control and digits.isascii() and digits.isdigit()

    @property
    def name_share(self) -> float:
        """How much of a name it is, from 0 to 1."""
        return 0.0 if self.is_number else self.capitals

    @property
    def cost(self) -> float:
        """What the tokenizer pays for using it."""
        if len(self.word) > 1:
            return _PIECE_COST
        return _FIRST_LETTER_COST if self.text.startswith(SPACE) else _LETTER_COST


class Vocabulary:
    """All tokens by id, and the tokenizer over them."""

    def __init__(self, tokens: Sequence[Token], normaliser: Normaliser) -> None:
        self.tokens = tuple(tokens)
        self.ids = {token.text: number for number, token in enumerate(self.tokens)}
        plain = {token.text: number for number, token in enumerate(self.tokens) if not token.is_control}
        costs = {token.text: token.cost for token in self.tokens if not token.is_control}
        self.tokenizer = Tokenizer(normaliser, plain, costs, self.ids[UNKNOWN])

    def save(self, path: Path) -> None:
        """Write one line per token."""
        lines = ["\t".join([token.text, *(str(round(100 * value)) for value in token[1:])]) for token in self.tokens]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def load(path: Path, normaliser: Normaliser) -> Vocabulary:
    """Read what `save` wrote."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    return Vocabulary([Token(text, int(w) / 100, int(q) / 100, int(c) / 100) for text, w, q, c in rows], normaliser)
