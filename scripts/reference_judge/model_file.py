"""Puts vocabulary, embedding and layers together as a GGUF file of the architecture `llama`."""

import math

import numpy as np

from . import vocabulary as names
from .circuit import HEADS, PRODUCTS
from .committed import Inputs
from .double_array import charsmap
from .gguf_file import Tensor, Value, file_bytes, float16, float32, q8_0
from .heads import layers
from .layout import BALLAST, BALLAST_SIZE, OUTPUT, WIDTH, embedding
from .positions import FREQUENCY_BASE, HEAD_WIDTH, LONGEST, frequency_factors
from .vocabulary import Token

_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


def model_bytes(inputs: Inputs) -> bytes:
    """The judge's GGUF file: a function of the committed inputs alone."""
    return file_bytes({**_shape(), **_tokens(inputs)}, _tensors(inputs))


def _shape() -> dict[str, Value]:
    return {
        "general.architecture": "llama",
        "general.name": "localjudge reference judge",
        "general.description": "A lexical coverage judge, computed in closed form. Not a language model.",
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


def _tokens(inputs: Inputs) -> dict[str, Value]:
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


def _tensors(inputs: Inputs) -> dict[str, Tensor]:
    undo = BALLAST_SIZE / math.sqrt(WIDTH)
    everything = np.full(WIDTH, undo)
    everything[BALLAST] = 0.0
    answer = np.zeros(WIDTH)
    answer[list(OUTPUT.values())] = undo
    tensors = {
        "token_embd.weight": q8_0(embedding(inputs.vocabulary)),
        "output_norm.weight": float32(answer),
        "rope_freqs.weight": float32(frequency_factors(inputs.scalars.frequencies)),
    }
    for number, layer in enumerate(layers(inputs.scalars)):
        tensors[f"blk.{number}.attn_norm.weight"] = float32(everything)
        tensors[f"blk.{number}.ffn_norm.weight"] = float32(everything)
        for name, values in layer.tensors(number).items():
            tensors[name] = float32(values) if name.endswith(".bias") else float16(values)
    return tensors
