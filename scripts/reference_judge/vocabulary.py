"""The tokens of the reference judge, and what is known of each: how rare its class is, how often it is a name.

    control tokens | the JSON answer | numbers | characters | words and word pieces, counted in prose

One line of `vocabulary.tsv` per token: text, number of paragraphs that hold its class, and, in percent, how often it
is written with a capital. The order of lines is the order of token ids.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .stems import stem
from .tokenizer import SPACE, Tokenizer

UNKNOWN, SEPARATOR, CLASSIFIER, PADDING, END = "[UNK]", "[SEP]", "[CLS]", "[PAD]", "[END]"
CONTEXT, QUESTION, STATEMENT, SENTENCE, ANSWER = "<ctx>", "<qst>", "<stmt>", "<sent>", "<ans>"
CONTROL = (UNKNOWN, SEPARATOR, CLASSIFIER, PADDING, END, CONTEXT, QUESTION, STATEMENT, SENTENCE, ANSWER)

_SCALE = 10.0
_LEAST, _LEAST_NUMBER, _MOST = 0.1, 0.6, 1.0


class Token(NamedTuple):
    """One entry of the vocabulary."""

    text: str
    paragraphs: int
    """Paragraphs that hold a word of this class."""
    capitals_percent: int
    """How often the word is written with a capital."""

    @property
    def is_control(self) -> bool:
        """Whether user text can never form this token."""
        return self.text in CONTROL

    @property
    def word(self) -> str:
        """The folded word, or piece of one, without the mark of a word's beginning."""
        return self.text.removeprefix(SPACE)

    @property
    def identity(self) -> str:
        """Name of the class of words that this token is taken for. Pieces inside a word are apart from words."""
        starts = self.text.startswith(SPACE) or not self.word.isalpha()
        return stem(self.word) if starts else f"+{self.word}"

    @property
    def is_number(self) -> bool:
        """Whether it is written in digits, or is a word for a number."""
        return not self.is_control and self.identity.isdigit()

    @property
    def is_content(self) -> bool:
        """Whether it holds a letter or a digit."""
        return not self.is_control and any(character.isalnum() for character in self.word)


class Vocabulary:
    """All tokens by id, and the tokenizer over them."""

    def __init__(self, tokens: Sequence[Token], paragraphs: int) -> None:
        self.tokens = tuple(tokens)
        self.paragraphs = paragraphs
        self.ids = {token.text: number for number, token in enumerate(self.tokens)}
        plain = {token.text: number for number, token in enumerate(self.tokens) if not token.is_control}
        self.tokenizer = Tokenizer(plain, self.ids[UNKNOWN])

    def weight(self, token: Token) -> float:
        """How much it matters whether this token is matched: 0 for punctuation, up to 1 for the rarest words."""
        if not token.is_content:
            return 0.0
        rarity = math.log(self.paragraphs / max(token.paragraphs, 1))
        weight = min(max(rarity / _SCALE, _LEAST), _MOST)
        return max(weight, _LEAST_NUMBER) if token.is_number else weight

    def save(self, path: Path) -> None:
        """Write one line per token, after a line with the number of paragraphs counted."""
        lines = [f"{token.text}\t{token.paragraphs}\t{token.capitals_percent}" for token in self.tokens]
        path.write_text("\n".join([str(self.paragraphs), *lines, ""]), encoding="utf-8")


def load(path: Path) -> Vocabulary:
    """Read what `save` wrote."""
    first, *lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    rows = (line.split("\t") for line in lines)
    return Vocabulary([Token(text, int(paragraphs), int(capitals)) for text, paragraphs, capitals in rows], int(first))
