"""The committed inputs of the judge, in `models/lexical/`. The model file is built from them.

normalisation.tsv    replacements in a text before it is cut into tokens:
                     code points, and their replacement, in hexadecimal
equivalents.txt      words that count as the same
vocabulary.tsv       a token per line, in the order of ids:
                     text, weight and question weight in hundredths, capitals in percent
                     control tokens | the JSON answer | numbers | characters | words and pieces
scalars.json         the numbers that are fitted or solved, not designed
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .text import SPACE, Normaliser, Tokenizer, load_table, stem

FOLDER = Path(__file__).resolve().parents[1]
MODELS = FOLDER.parent
MODEL = MODELS / "lexical.gguf"
HEAD_WIDTH = 128
PAIRS = 12
LONGEST = 8192

Floats = NDArray[np.float64]

UNKNOWN = "<unk>"
PADDING = "<pad>"
END = "<end>"
CONTEXT = "<ctx>"
QUESTION = "<qst>"
STATEMENT = "<stmt>"
SENTENCE = "<sent>"
ANSWER = "<ans>"
CONTROL = (UNKNOWN, PADDING, END, CONTEXT, QUESTION, STATEMENT, SENTENCE, ANSWER)

_PIECE_COST = 1.0
_LETTER_COST = 1.5
_FIRST_LETTER_COST = 1.6
"""Few pieces are cheap, and a single letter is cheaper at the end of a word than at its start."""


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
        """Name of the class of words that this token is taken for.

        Pieces inside a word are apart from words.
        """
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
        """Its cost for the tokenizer."""
        if len(self.word) > 1:
            return _PIECE_COST
        return _FIRST_LETTER_COST if self.text.startswith(SPACE) else _LETTER_COST


class Vocabulary:
    """All tokens by id, and the tokenizer over them."""

    def __init__(self, tokens: Sequence[Token], normaliser: Normaliser) -> None:
        self.tokens = tuple(tokens)
        self.ids = {token.text: number for number, token in enumerate(self.tokens)}
        plain = {
            token.text: number for number, token in enumerate(self.tokens) if not token.is_control
        }
        costs = {token.text: token.cost for token in self.tokens if not token.is_control}
        self.tokenizer = Tokenizer(normaliser, plain, costs, self.ids[UNKNOWN])

    def save(self, path: Path) -> None:
        """Write one line per token."""
        lines = [
            "\t".join([token.text, *(str(round(100 * value)) for value in token[1:])])
            for token in self.tokens
        ]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")


class Bump(NamedTuple):
    """The logit of a head at chosen distances: a sum of cosines, made of rotary positions.

        logit(distance n) = sum over k of
                            cosine[k] * cos(frequency[k] * n) + sine[k] * sin(frequency[k] * n)

    A rotary pair of dimensions turns with the position, so the product of a constant query and a
    constant key depends only on their distance. Twelve pairs with frequencies without a common
    measure are enough for a logit that is 20 higher at one distance than at any other, up to the
    longest text.
    """

    cosine: tuple[float, ...]
    sine: tuple[float, ...]

    def logits(
        self, frequencies: Sequence[float], distances: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The logit at each distance, up to a constant."""
        angles = np.multiply.outer(distances, np.array(frequencies))
        return np.asarray(
            np.cos(angles) @ np.array(self.cosine) + np.sin(angles) @ np.array(self.sine)
        )


class Scalars(NamedTuple):
    """Everything that `scalars.json` holds."""

    frequencies: tuple[float, ...]
    previous: Bump
    """Highest at distance 1."""
    attribution: dict[str, float]
    """Weight of each feature in the logit of "attributed", and `constant`."""
    relevance: dict[str, float]
    """The same for "relevant", of a sentence beside the contexts."""
    chunk: dict[str, float]
    """The same for "relevant" or "useful", of a chunk without contexts."""

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(self._asdict(), indent=1) + "\n", encoding="utf-8")


class Inputs(NamedTuple):
    """All that the model file is a function of."""

    table: Mapping[str, str]
    vocabulary: Vocabulary
    scalars: Scalars


def load_vocabulary(path: Path, normaliser: Normaliser) -> Vocabulary:
    """Read what `Vocabulary.save` wrote."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    return Vocabulary(
        [Token(text, int(w) / 100, int(q) / 100, int(c) / 100) for text, w, q, c in rows],
        normaliser,
    )


def load(folder: Path = FOLDER) -> Inputs:
    """Read all files."""
    table = load_table(folder / "normalisation.tsv")
    numbers = json.loads((folder / "scalars.json").read_text(encoding="utf-8"))
    numbers |= {
        "frequencies": tuple(numbers["frequencies"]),
        "previous": Bump(*map(tuple, numbers["previous"])),
    }
    return Inputs(
        table,
        load_vocabulary(folder / "vocabulary.tsv", Normaliser(table)),
        Scalars(**numbers),
    )
