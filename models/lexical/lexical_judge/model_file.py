"""Write vocabulary, embedding and layers as a GGUF file of the architecture `llama`.

The table of replacements is packed as in llama.cpp: a trie in a double array, then the
replacements.

    size of the array in bytes | array of 32-bit units | replacements, each ended by a zero byte

A node at place p has a base b, and its child for byte c is at b XOR c; the unit there contains c,
so that a wrong turn is noticed. No two nodes have the same base. A node that ends an entry keeps
its value (the offset of the replacement) at place b. After Yata et al., "A compact static
double-array keeping character codes" (2007), in the form that the library darts-clone gave it.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter
from gguf.quants import quantize

from . import committed as names
from .committed import HEAD_WIDTH, LONGEST, Inputs, Token
from .layout import BALLAST, BALLAST_SIZE, OUTPUT, WIDTH, embedding
from .network import FREQUENCY_BASE, HEADS, PRODUCTS, frequency_factors, layers

_NORMAL = 1
_UNKNOWN = 2
_CONTROL = 3
_LEAF = 1 << 8
_VALUE = 1 << 31
_BASE_SHIFT = 10
_LARGEST_BASE = 1 << 21
_END = 0

Node = dict[int, Union["Node", int]]
"""Children by byte; under _END, the value of the entry that ends here."""


def write(inputs: Inputs, path: Path) -> None:
    """Write the judge's GGUF file: a function of the committed inputs."""
    writer = GGUFWriter(path, "llama")
    for name, value in {**_shape(), **_tokens(inputs)}.items():
        value_type = GGUFValueType.get_type(value)
        if isinstance(value, list | bytes):
            value_type = GGUFValueType.ARRAY
        elif type(value) is int:
            value_type = GGUFValueType.UINT32
        writer.add_key_value(name, value, value_type)
    rows = quantize(embedding(inputs.vocabulary), GGMLQuantizationType.Q8_0)
    writer.add_tensor("token_embd.weight", rows, raw_dtype=GGMLQuantizationType.Q8_0)
    undo = BALLAST_SIZE / math.sqrt(WIDTH)
    everything = np.full(WIDTH, undo, np.float32)
    answer = np.zeros(WIDTH, np.float32)
    everything[BALLAST] = 0.0
    answer[list(OUTPUT.values())] = undo
    writer.add_tensor("output_norm.weight", answer)
    writer.add_tensor("rope_freqs.weight", frequency_factors(inputs.scalars.frequencies))
    for number, layer in enumerate(layers(inputs.scalars)):
        writer.add_tensor(f"blk.{number}.attn_norm.weight", everything)
        writer.add_tensor(f"blk.{number}.ffn_norm.weight", everything)
        for name, values in layer.tensors().items():
            number_type = "<f2"
            if name.endswith(".bias"):
                number_type = "<f4"
            writer.add_tensor(f"blk.{number}.{name}", values.astype(number_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def charsmap(table: Mapping[str, str]) -> bytes:
    """The bytes of `tokenizer.ggml.precompiled_charsmap`."""
    offsets: dict[str, int] = {}
    replacements = bytearray()
    for replacement in dict.fromkeys(table.values()):
        offsets[replacement] = len(replacements)
        replacements += replacement.encode() + b"\0"
    root: Node = {}
    for key, replacement in sorted(
        (text.encode(), replacement) for text, replacement in table.items()
    ):
        node = root
        for byte in key:
            child = node.setdefault(byte, {})
            assert isinstance(child, dict), "no key holds a zero byte"
            node = child
        node[_END] = offsets[replacement]
    units = _DoubleArray().place(root)
    array = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(array)) + array + bytes(replacements)


class _DoubleArray:
    """Units filled so far, which places are taken, and which bases."""

    def __init__(self) -> None:
        self._units: dict[int, int] = {0: 0}
        self._bases: set[int] = set()
        self._search_from: dict[int, int] = {}

    def place(self, root: Node) -> list[int]:
        """Give every node of the trie its place, and return all units."""
        waiting: list[tuple[int, Node]] = [(0, root)]
        while waiting:
            place, node = waiting.pop()
            base = self._base_for(sorted(node))
            self._units[place] |= (place ^ base) << _BASE_SHIFT | (_LEAF if _END in node else 0)
            for byte, child in node.items():
                if isinstance(child, dict):
                    self._units[base ^ byte] = byte
                    waiting.append((base ^ byte, child))
                else:
                    self._units[base] = _VALUE | child
        # A query may leave the last filled place by any byte: the array ends at a whole block.
        return [self._units.get(place, 0) for place in range((max(self._units) | 0xFF) + 1)]

    def _base_for(self, labels: list[int]) -> int:
        free = self._search_from.get(len(labels), 1)
        base = free ^ labels[0]
        while base in self._bases or any(base ^ label in self._units for label in labels):
            free += 1
            base = free ^ labels[0]
        # Where a node of this size found no room, a later one of the same size hardly will.
        self._search_from[len(labels)] = free
        if base >= _LARGEST_BASE:
            raise ValueError("the table of replacements is too large for a double array")
        self._bases.add(base)
        self._units.update({base ^ label: 0 for label in labels})
        return base


def _shape() -> dict[str, Any]:
    return {
        "general.name": "localjudge lexical judge",
        "general.description": (
            "A lexical coverage judge, computed in closed form. Not a language model."
        ),
        "general.license": "MIT",
        "llama.context_length": LONGEST,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 3,
        "llama.feed_forward_length": PRODUCTS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.attention.key_length": HEAD_WIDTH,
        "llama.attention.value_length": HEAD_WIDTH,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.rope.dimension_count": HEAD_WIDTH,
        "llama.rope.freq_base": FREQUENCY_BASE,
    }


def _tokens(inputs: Inputs) -> dict[str, Any]:
    vocabulary = inputs.vocabulary
    return {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [token.text for token in vocabulary.tokens],
        "tokenizer.ggml.scores": [-token.cost for token in vocabulary.tokens],
        "tokenizer.ggml.token_type": [_kind(token) for token in vocabulary.tokens],
        "tokenizer.ggml.precompiled_charsmap": charsmap(inputs.table),
        "tokenizer.ggml.unknown_token_id": vocabulary.ids[names.UNKNOWN],
        "tokenizer.ggml.padding_token_id": vocabulary.ids[names.PADDING],
        "tokenizer.ggml.eos_token_id": vocabulary.ids[names.END],
        "tokenizer.ggml.bos_token_id": vocabulary.ids[names.PADDING],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": True,
        "tokenizer.ggml.remove_extra_whitespaces": True,
    }


def _kind(token: Token) -> int:
    if token.text == names.UNKNOWN:
        return _UNKNOWN
    return _CONTROL if token.is_control else _NORMAL
