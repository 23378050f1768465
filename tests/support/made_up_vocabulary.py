"""Tokenizers for random models: three synthetic vocabularies, and vocabularies of GGUF files.

bytes     byte-pair encoding: 256 bytes, a few words, control tokens of a chat model
words     the same with more words, a leading space, and a begin token before every text
pieces    SentencePiece: a space before every text, letters, single bytes for other characters
unigrams  SentencePiece's unigram model, as in encoders: words with log-probabilities, an unknown
          token
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gguf import GGUFReader, GGUFValueType

_LATIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _LATIN]
_SPELLED = {byte: chr(byte) for byte in _LATIN} | {
    byte: chr(256 + place) for place, byte in enumerate(_OTHERS)
}
"""Printable characters for bytes in byte-pair vocabularies."""
_WORDS = (
    " the",
    " yes",
    " no",
    "yes",
    "no",
    "Yes",
    " context",
    " statement",
    '":',
    ' "',
    " 19",
    "37",
    "été",
    "[INST]",
    "INST",
)

Keys = dict[str, Any]
"""Metadata by name."""


class Tokenizer(NamedTuple):
    """Metadata of a tokenizer and its number of tokens."""

    keys: Keys
    size: int


class Typed(NamedTuple):
    """A metadata value with its type; `element` is the type of list elements."""

    value: Any
    kind: GGUFValueType
    element: GGUFValueType | None


def byte_vocabulary() -> Tokenizer:
    """A byte-pair vocabulary of 256 bytes, a few words, and the control tokens of a chat model."""
    space = _SPELLED[ord(" ")]
    merges = ["t h", "th e", f"{space} the", "i n", "a n", "an d", '" :', "a t"]
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return _byte_pairs(
        "gpt-2", merges, control, ["<|tool|>", "   "], end="<|im_end|>", begins=False
    )


def word_vocabulary() -> Tokenizer:
    """A byte-pair vocabulary with ` yes`, ` 19` and `été` as tokens, with headers and thoughts."""
    merges: dict[str, None] = {}  # in their order, each once
    for word in _WORDS:
        letters = [_SPELLED[byte] for byte in word.encode()]
        merges |= {
            f"{''.join(letters[:end])} {letters[end]}": None for end in range(1, len(letters))
        }
    control = [
        "<|begin_of_text|>",
        "<|eot_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|><|end|>",
    ]
    user_defined = ["<think>", "</think>", "日", "  "]
    return _byte_pairs("llama-bpe", [*merges], control, user_defined, end="<|eot_id|>", begins=True)


def _byte_pairs(
    splitter: str,
    merges: list[str],
    control: list[str],
    user_defined: list[str],
    *,
    end: str,
    begins: bool,
) -> Tokenizer:
    """Build a byte-pair vocabulary. The first control token begins a text."""
    words = [merge.replace(" ", "") for merge in merges]
    tokens = [*(_SPELLED[byte] for byte in range(256)), *words, *control, *user_defined]
    keys: Keys = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": splitter,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (256 + len(words))
        + [3] * len(control)
        + [4] * len(user_defined),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index(control[0]),
        "tokenizer.ggml.eos_token_id": tokens.index(end),
        "tokenizer.ggml.add_bos_token": begins,
    }
    return Tokenizer(keys, len(tokens))


def piece_vocabulary() -> Tokenizer:
    """A SentencePiece vocabulary that puts a space before every text and falls back to bytes."""
    control = ["<unk>", "<s>", "</s>"]
    marked = ["<start_of_turn>", "<end_of_turn>"]
    letters = [chr(code) for code in range(33, 127)]
    pieces = ["▁", *letters, "▁t", "he", "▁the", "in", "at"]
    tokens = [*control, *(f"<0x{byte:02X}>" for byte in range(256)), *marked, *pieces]
    types = [2, 3, 3] + [6] * 256 + [4] * len(marked) + [1] * len(pieces)
    keys: Keys = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * (259 + len(marked))
        + [-float(place) for place in range(len(pieces))],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
    }
    return Tokenizer(keys, len(tokens))


def unigram_vocabulary() -> Tokenizer:
    """A unigram vocabulary: letters, digits and some words, with rarer words less probable."""
    control = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = [chr(code) for code in range(33, 127)]
    starts = [f"▁{letter}" for letter in letters]
    words = ["▁the", "▁bridge", "▁opened", "▁river", "▁19", "36", "ing", "ed", "er", "in"]
    pieces = ["▁", *letters, *starts, *words]
    tokens = [*control, *pieces, "<mask>"]
    word_scores = [-4.0 - place for place in range(len(words))]
    scores = [*[-2.0], *[-9.0] * len(letters), *[-8.0] * len(starts), *word_scores]
    keys: Keys = {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(control) + scores + [0.0],
        "tokenizer.ggml.token_type": [3, 3, 3, 2] + [1] * len(pieces) + [3],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.seperator_token_id": 2,  # llama.cpp's spelling
        "tokenizer.ggml.padding_token_id": 1,
        "tokenizer.ggml.mask_token_id": len(tokens) - 1,
        "tokenizer.ggml.token_type_count": 1,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
        "tokenizer.ggml.remove_extra_whitespaces": True,
    }
    return Tokenizer(keys, len(tokens))


@cache
def read_tokenizer(file: Path) -> Tokenizer:
    """Return the tokenizer of a GGUF file, without its chat template."""
    keys: Keys = {}
    for name, field in GGUFReader(file).fields.items():
        if name.startswith("tokenizer.") and name != "tokenizer.chat_template":
            element = None
            if len(field.types) > 1:
                element = field.types[-1]
            keys[name] = Typed(field.contents(), field.types[0], element)
    return Tokenizer(keys, len(keys["tokenizer.ggml.tokens"].value))


MADE_UP = {"bytes": byte_vocabulary, "pieces": piece_vocabulary, "words": word_vocabulary}
"""Vocabularies that can write every text."""
