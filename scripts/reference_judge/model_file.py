"""Puts vocabulary, embedding and layers together as a GGUF file of the architecture `llama`."""

import math

import numpy as np

from . import vocabulary as names
from .circuit import HEADS, PRODUCTS
from .gguf_file import Tensor, Value, file_bytes, float16, float32, q8_0
from .heads import layers
from .layout import BALLAST, BALLAST_SIZE, OUTPUT, WIDTH, embedding
from .positions import FREQUENCY_BASE, HEAD_WIDTH, LONGEST, frequency_factors
from .scalars import Scalars
from .vocabulary import Vocabulary

_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


def model_bytes(vocabulary: Vocabulary, scalars: Scalars) -> bytes:
    """The judge's GGUF file: a function of the committed inputs alone."""
    return file_bytes({**_shape(), **_tokens(vocabulary)}, _tensors(vocabulary, scalars))


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


def _tokens(vocabulary: Vocabulary) -> dict[str, Value]:
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [token.text for token in vocabulary.tokens],
        "tokenizer.ggml.token_type": [_kind(token.text) for token in vocabulary.tokens],
        "tokenizer.ggml.unknown_token_id": vocabulary.ids[names.UNKNOWN],
        "tokenizer.ggml.seperator_token_id": vocabulary.ids[names.SEPARATOR],
        "tokenizer.ggml.cls_token_id": vocabulary.ids[names.CLASSIFIER],
        "tokenizer.ggml.bos_token_id": vocabulary.ids[names.CLASSIFIER],
        "tokenizer.ggml.padding_token_id": vocabulary.ids[names.PADDING],
        "tokenizer.ggml.eos_token_id": vocabulary.ids[names.END],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
    }


def _kind(text: str) -> int:
    if text == names.UNKNOWN:
        return _UNKNOWN
    return _CONTROL if text in names.CONTROL else _NORMAL


def _tensors(vocabulary: Vocabulary, scalars: Scalars) -> dict[str, Tensor]:
    undo = BALLAST_SIZE / math.sqrt(WIDTH)
    everything = np.full(WIDTH, undo)
    everything[BALLAST] = 0.0
    answer = np.zeros(WIDTH)
    answer[list(OUTPUT.values())] = undo
    tensors = {
        "token_embd.weight": q8_0(embedding(vocabulary)),
        "output_norm.weight": float32(answer),
        "rope_freqs.weight": float32(frequency_factors(scalars.frequencies)),
    }
    for number, layer in enumerate(layers(scalars)):
        tensors[f"blk.{number}.attn_norm.weight"] = float32(everything)
        tensors[f"blk.{number}.ffn_norm.weight"] = float32(everything)
        for name, values in layer.tensors(number).items():
            tensors[name] = float32(values) if name.endswith(".bias") else float16(values)
    return tensors
