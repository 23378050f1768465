"""Write a small GGUF model with random weights, for tests with real llama.cpp and real tokenizers.

    architecture + shape + seed          -> tensors       the same on every machine
    a vocabulary-only GGUF, or a synthetic
    vocabulary of bytes or of pieces     -> tokenizer
    F16 file -- llama_model_quantize --> Q8_0, Q4_0, Q4_K_M ...

Its answers are meaningless. Tests check what affects them and how long they take.
"""

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
import numpy as np
from gguf import GGUFValueType, GGUFWriter
from made_up_vocabulary import (
    MADE_UP,
    Keys,
    Tokenizer,
    Typed,
    byte_vocabulary,
    piece_vocabulary,
    read_tokenizer,
    unigram_vocabulary,
)
from numpy.typing import NDArray

__all__ = [
    "MADE_UP",
    "Shape",
    "Tokenizer",
    "byte_vocabulary",
    "piece_vocabulary",
    "read_tokenizer",
    "unigram_vocabulary",
    "write",
]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QUANTISATIONS = {
    "F16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}
_STATE = 16  # of a state-space layer
_KERNEL = 4  # of its convolution
_LITTLE = np.float32(0.1)
_SLOW_DECAY = np.float32(-0.005)  # a state that remembers some hundred tokens
_KINDS = {
    bool: GGUFValueType.BOOL,
    int: GGUFValueType.UINT32,
    float: GGUFValueType.FLOAT32,
    str: GGUFValueType.STRING,
    list: GGUFValueType.ARRAY,
}

Shapes = dict[str, tuple[int, ...]]
"""Tensor shapes by name, rows first."""


class Shape(NamedTuple):
    """Size of a model.

    `window` is the sliding window in tokens, for architectures with one. `outputs` names the
    outputs of a classification head; without names, it has one.
    """

    width: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 128
    context: int = 2048
    window: int = 64
    outputs: tuple[str, ...] = ()

    @property
    def head_width(self) -> int:
        """Numbers in one attention head."""
        return self.width // self.heads


class Architecture(NamedTuple):
    """Additional tensors and metadata of an architecture."""

    block: Callable[[Shape, int], Shapes]
    """Tensors of the block with this index."""
    keys: Callable[[Shape], Keys] = lambda _shape: {}
    """Metadata, named without the architecture's prefix."""
    outside: Callable[[Shape], Shapes] = lambda shape: {"output_norm.weight": (shape.width,)}
    """Tensors outside the blocks."""


def _gated(shape: Shape, _block: int = 0) -> Shapes:
    wide = (shape.feed_forward, shape.width)
    return {
        "ffn_norm.weight": (shape.width,),
        "ffn_gate.weight": wide,
        "ffn_up.weight": wide,
        "ffn_down.weight": wide[::-1],
    }


def _attention(shape: Shape, _block: int = 0) -> Shapes:
    narrow = shape.kv_heads * shape.head_width
    return {
        "attn_norm.weight": (shape.width,),
        "attn_q.weight": (shape.width, shape.width),
        "attn_k.weight": (narrow, shape.width),
        "attn_v.weight": (narrow, shape.width),
        "attn_output.weight": (shape.width, shape.width),
    }


def _llama(shape: Shape, _block: int) -> Shapes:
    return _attention(shape) | _gated(shape)


def _qwen2(shape: Shape, _block: int) -> Shapes:
    narrow = shape.kv_heads * shape.head_width
    biases: Shapes = {
        "attn_q.bias": (shape.width,),
        "attn_k.bias": (narrow,),
        "attn_v.bias": (narrow,),
    }
    return _attention(shape) | biases | _gated(shape)


def _gemma2(shape: Shape, _block: int) -> Shapes:
    post_norms: Shapes = {
        "post_attention_norm.weight": (shape.width,),
        "post_ffw_norm.weight": (shape.width,),
    }
    return _attention(shape) | post_norms | _gated(shape)


def _gemma3(shape: Shape, block: int) -> Shapes:
    return _gemma2(shape, block) | _head_norms(shape)


def _head_norms(shape: Shape) -> Shapes:
    return {"attn_q_norm.weight": (shape.head_width,), "attn_k_norm.weight": (shape.head_width,)}


def _phi3(shape: Shape, _block: int) -> Shapes:
    narrow = shape.kv_heads * shape.head_width
    return {
        "attn_norm.weight": (shape.width,),
        "attn_qkv.weight": (shape.width + 2 * narrow, shape.width),
        "attn_output.weight": (shape.width, shape.width),
        "ffn_norm.weight": (shape.width,),
        "ffn_up.weight": (2 * shape.feed_forward, shape.width),
        "ffn_down.weight": (shape.width, shape.feed_forward),
    }


def _gpt2(shape: Shape, _block: int) -> Shapes:
    width = shape.width
    wide = shape.feed_forward
    weights: Shapes = {
        "attn_qkv.weight": (3 * width, width),
        "attn_output.weight": (width, width),
        "ffn_up.weight": (wide, width),
        "ffn_down.weight": (width, wide),
    }
    norms: Shapes = {"attn_norm.weight": (width,), "ffn_norm.weight": (width,)}
    return _with_biases(weights | norms)


def _bert(shape: Shape, _block: int) -> Shapes:
    """Encoder. Every matrix and norm has a bias."""
    width = shape.width
    wide = shape.feed_forward
    square = (width, width)
    weights: Shapes = {
        "attn_q.weight": square,
        "attn_k.weight": square,
        "attn_v.weight": square,
        "attn_output.weight": square,
        "attn_output_norm.weight": (width,),
        "ffn_up.weight": (wide, width),
        "ffn_down.weight": (width, wide),
        "layer_output_norm.weight": (width,),
    }
    return _with_biases(weights)


def _bert_outside(shape: Shape) -> Shapes:
    """Embeddings, and a classification head."""
    outputs = max(1, len(shape.outputs))
    biased: Shapes = {
        "token_embd_norm.weight": (shape.width,),
        "cls.weight": (shape.width, shape.width),
        "cls.output.weight": (outputs, shape.width),
    }
    return {
        "position_embd.weight": (shape.context, shape.width),
        "token_types.weight": (1, shape.width),
        **_with_biases(biased),
    }


def _bert_keys(shape: Shape) -> Keys:
    keys: Keys = {
        "attention.layer_norm_epsilon": 1e-12,
        "attention.causal": False,
        "attention.head_count_kv": shape.heads,
        "pooling_type": llama_cpp.LLAMA_POOLING_TYPE_RANK,
    }
    if shape.outputs:
        keys["classifier.output_labels"] = list(shape.outputs)
    return keys


def _with_biases(weights: Shapes) -> Shapes:
    return weights | {name.replace("weight", "bias"): size[:1] for name, size in weights.items()}


def _mamba(shape: Shape, _block: int) -> Shapes:
    inner = 2 * shape.width
    rank = max(1, shape.width // 16)
    return {
        "attn_norm.weight": (shape.width,),
        "ssm_in.weight": (2 * inner, shape.width),
        "ssm_conv1d.weight": (inner, _KERNEL),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (rank + 2 * _STATE, inner),
        "ssm_dt.weight": (inner, rank),
        "ssm_dt.bias": (inner,),
        "ssm_a": (inner, _STATE),
        "ssm_d": (inner,),
        "ssm_out.weight": (shape.width, inner),
    }


def _lfm2(shape: Shape, block: int) -> Shapes:
    """Hybrid: convolutions with memory in even blocks, attention in odd ones."""
    if block % 2:
        return _attention(shape) | _head_norms(shape) | _gated(shape)
    return {
        "attn_norm.weight": (shape.width,),
        "shortconv.conv.weight": (shape.width, _KERNEL - 1),
        "shortconv.in_proj.weight": (3 * shape.width, shape.width),
        "shortconv.out_proj.weight": (shape.width, shape.width),
    } | _gated(shape)


def _sliding(shape: Shape) -> Keys:
    return {
        "attention.sliding_window": shape.window,
        "attention.key_length": shape.head_width,
        "attention.value_length": shape.head_width,
    }


ARCHITECTURES = {
    "llama": Architecture(_llama),
    "bert": Architecture(_bert, _bert_keys, _bert_outside),
    "qwen2": Architecture(_qwen2),
    "gemma2": Architecture(_gemma2, _sliding),
    "gemma3": Architecture(_gemma3, _sliding),
    "phi3": Architecture(_phi3, lambda shape: {"rope.dimension_count": shape.head_width}),
    "gpt2": Architecture(
        _gpt2,
        lambda shape: {
            "attention.layer_norm_epsilon": 1e-5,
            "attention.head_count_kv": shape.heads,
        },
        lambda shape: {
            "output_norm.weight": (shape.width,),
            "output_norm.bias": (shape.width,),
            "position_embd.weight": (shape.context, shape.width),
        },
    ),
    "mamba": Architecture(
        _mamba,
        lambda shape: {
            "attention.head_count": 0,
            "attention.head_count_kv": 0,
            "feed_forward_length": 0,
            "ssm.conv_kernel": _KERNEL,
            "ssm.inner_size": 2 * shape.width,
            "ssm.state_size": _STATE,
            "ssm.time_step_rank": max(1, shape.width // 16),
        },
    ),
    "lfm2": Architecture(
        _lfm2,
        lambda shape: {
            "attention.head_count_kv": [
                shape.kv_heads * (block % 2) for block in range(shape.layers)
            ],
            "shortconv.l_cache": _KERNEL - 1,
        },
        lambda shape: {"token_embd_norm.weight": (shape.width,)},
    ),
}


def write(
    path: Path,
    tokenizer: Tokenizer,
    *,
    architecture: str = "llama",
    shape: Shape = Shape(),  # noqa: B008 -- a NamedTuple is a value
    quantisation: str = "F16",
    chat_template: str | None = None,
    seed: int = 0,
) -> Path:
    """Write the model and return its path. The same arguments give the same bytes."""
    if quantisation == "F16":
        return _write_f16(path, tokenizer, architecture, shape, chat_template, seed)
    llama_cpp.llama_log_set(_quiet, ctypes.c_void_p(0))
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        plain = _write_f16(
            Path(folder) / "f16.gguf", tokenizer, architecture, shape, chat_template, seed
        )
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype = QUANTISATIONS[quantisation]
        if llama_cpp.llama_model_quantize(
            str(plain).encode(), str(path).encode(), ctypes.byref(parameters)
        ):
            raise RuntimeError(f"llama.cpp could not quantise {path} to {quantisation}")
    return path


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _quiet(_level: int, _text: bytes, _user_data: ctypes.c_void_p) -> None:
    pass


def _write_f16(
    path: Path,
    tokenizer: Tokenizer,
    architecture: str,
    shape: Shape,
    chat_template: str | None,
    seed: int,
) -> Path:
    recipe = ARCHITECTURES[architecture]
    writer = GGUFWriter(path, architecture)
    for name, value in (_common_keys(shape) | recipe.keys(shape)).items():
        _put(writer, f"{architecture}.{name}", value)
    for name, value in ({"general.file_type": 1} | tokenizer.keys).items():
        _put(writer, name, value)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    shapes: Shapes = {"token_embd.weight": (tokenizer.size, shape.width)} | recipe.outside(shape)
    for block in range(shape.layers):
        shapes |= {f"blk.{block}.{name}": size for name, size in recipe.block(shape, block).items()}
    kinds = {
        name: np.dtype(np.float16 if _is_matrix(name, size) else np.float32)
        for name, size in shapes.items()
    }
    for name, size in shapes.items():
        writer.add_tensor_info(name, size, kinds[name], int(np.prod(size)) * kinds[name].itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(seed)
    for name, size in shapes.items():
        writer.write_tensor_data(_values(name, size, random).astype(kinds[name]))
    writer.close()
    return path


def _common_keys(shape: Shape) -> Keys:
    return {
        "context_length": shape.context,
        "embedding_length": shape.width,
        "block_count": shape.layers,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }


def _put(writer: GGUFWriter, name: str, value: Any) -> None:
    if not isinstance(value, Typed):
        value = Typed(value, _KINDS[type(value)], _element(value))
    writer.add_key_value(name, *value)


def _element(value: Any) -> GGUFValueType | None:
    """llama.cpp reads single numbers as unsigned and lists of numbers as signed."""
    if not isinstance(value, list):
        return None
    return GGUFValueType.INT32 if isinstance(value[0], int) else _KINDS[type(value[0])]


def _is_matrix(name: str, size: tuple[int, ...]) -> bool:
    is_added = name.endswith(("ssm_a", "token_types.weight"))
    return len(size) > 1 and "conv" not in name.removesuffix("_proj.weight") and not is_added


def _values(name: str, size: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    """Return random values at a scale that keeps the signal stable."""
    noise: NDArray[np.float32] = random.standard_normal(size, dtype=np.float32)
    if name.endswith("ssm_a"):
        return np.broadcast_to(np.arange(1, size[1] + 1, dtype=np.float32) * _SLOW_DECAY, size)
    if name.endswith(("norm.weight", "ssm_d")):
        return np.float32(1) + noise * _LITTLE
    if name.endswith(".bias"):
        return noise * _LITTLE
    scale = np.float32(size[-1] ** -0.5)
    return noise * scale
