"""Tokenizers for random models: two made-up vocabularies, and those of GGUF files.

bytes     byte-pair encoding: 256 bytes, a few words, control tokens of a chat model
pieces    SentencePiece: a space before every text, letters, single bytes for all else
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gguf import GGUFReader, GGUFValueType

Keys = dict[str, Any]
"""Metadata by name."""


class Tokenizer(NamedTuple):
    """Metadata that make up a tokenizer, and how many tokens it has."""

    keys: Keys
    size: int


class Typed(NamedTuple):
    """A value of metadata with its type; `element` is that of a list's values."""

    value: Any
    kind: GGUFValueType
    element: GGUFValueType | None


def byte_vocabulary() -> Tokenizer:
    """A byte-pair vocabulary of 256 bytes, a few words, and the control tokens of a chat model."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stands_for = {byte: chr(byte) for byte in printable}
    stands_for |= {byte: chr(256 + place) for place, byte in enumerate(b for b in range(256) if b not in stands_for)}
    space = stands_for[ord(" ")]
    merges = ["t h", "th e", f"{space} the", "i n", "a n", "an d", '" :', "a t"]
    words = [merge.replace(" ", "") for merge in merges]
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    user_defined = ["<|tool|>", "   "]
    tokens = [*(stands_for[byte] for byte in range(256)), *words, *control, *user_defined]
    types = [1] * (256 + len(words)) + [3] * len(control) + [4] * len(user_defined)
    end = tokens.index("<|endoftext|>")
    keys: Keys = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.add_bos_token": False,
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
        "tokenizer.ggml.scores": [0.0] * (259 + len(marked)) + [-float(place) for place in range(len(pieces))],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
    }
    return Tokenizer(keys, len(tokens))


@cache
def vocabulary_of(file: Path) -> Tokenizer:
    """The tokenizer of a GGUF file, without its chat template."""
    keys: Keys = {}
    for name, field in GGUFReader(file).fields.items():
        if name.startswith("tokenizer.") and name != "tokenizer.chat_template":
            keys[name] = Typed(field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    return Tokenizer(keys, len(keys["tokenizer.ggml.tokens"].value))
