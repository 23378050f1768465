"""Does a model fit into memory? Estimated from its header, before it is loaded.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes          attention keys and values, F16
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width)) x n_ubatch x 4 bytes
                                     the largest matrix of one step, the masks, and what passes between layers

The formulas follow llama.cpp's buffers without flash attention; a test holds them against what it allocates. For models
whose layers are not all attention, and which do not say which are, the cache is an upper bound; the states that the
other layers keep (tens of MiB for a model of billions of weights) are not counted.
"""

import re
from typing import NamedTuple

from localjudge.engine import hardware
from localjudge.engine.hardware import readable
from localjudge.engine.llamacpp.model_check import CheckedModel
from localjudge.errors import OutOfResource
from localjudge.option_spelling import option_name

UBATCH = 512
"""Tokens that llama.cpp evaluates at once."""
_MAX_DEFAULT_CONTEXT = 8192
_BYTES_OF_F16 = 2
_BYTES_OF_F32 = 4
_REFUSED = re.compile(
    "cannot allocate memory|resource temporarily unavailable|insufficient memory|out of memory|bad_alloc|MemoryError|"
    "(failed|unable) to (allocate|reserve)",
    re.IGNORECASE,
)


def what_to_do() -> str:
    """The hint about too little memory."""
    return (
        f"use a smaller model or quantisation, a shorter context ({option_name('n_ctx')}) or fewer layers on a GPU "
        f"({option_name('gpu_layers')}); or free memory, or raise its limit (ulimit -v, the container's or the job's)"
    )


class MemoryNeed(NamedTuple):
    """Bytes that a judge takes."""

    weights: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def context_for(model: CheckedModel, wanted: int | None) -> int:
    """Tokens of context that a model gets: at most its own."""
    return min(wanted or _MAX_DEFAULT_CONTEXT, model.number("context_length"))


def needed(model: CheckedModel, *, n_ctx: int, n_ubatch: int) -> MemoryNeed:
    """Estimate for a context of `n_ctx` tokens, evaluated in steps of `n_ubatch`."""
    heads = model.number("attention.head_count")
    width = model.number("embedding_length")
    head_width = width // heads if heads else 0
    key_and_value = model.number("attention.key_length", head_width) + model.number(
        "attention.value_length", head_width
    )
    cache = n_ctx * _key_value_heads(model, heads) * key_and_value * _BYTES_OF_F16
    vocabulary = model.header.lengths.get("tokenizer.ggml.tokens", 0)
    streams = 2 * (n_ctx + model.number("feed_forward_length") + 2 * width)
    working = (max(heads * n_ctx, vocabulary) + streams) * n_ubatch * _BYTES_OF_F32
    return MemoryNeed(model.weight_bytes, cache, working)


def require(model: CheckedModel, need: MemoryNeed, *, n_ctx: int) -> None:
    """Raise OutOfResource with the numbers if the model does not fit into what is free."""
    free = hardware.available_bytes()
    if free is not None and need.total > free:
        raise OutOfResource(
            f"{model.header.path} does not fit into memory: it needs {beside_free(need, n_ctx)}", hint=what_to_do()
        )


def beside_free(need: MemoryNeed, n_ctx: int) -> str:
    """The numbers, for a message: how much is needed, for what, and how much is free."""
    free = hardware.available_bytes()
    room = "the system does not tell how much is free" if free is None else f"{readable(free)} are free"
    return (
        f"about {readable(need.total)} (weights {readable(need.weights)}, cache for {n_ctx:,} tokens "
        f"{readable(need.cache)}, working space {readable(need.working)}), and {room}"
    )


def was_refused(said: str) -> bool:
    """Whether a library or a process says here that the system gave it no more memory, or no thread for want of it."""
    return bool(_REFUSED.search(said))


def _key_value_heads(model: CheckedModel, heads: int) -> int:
    """Summed over the layers."""
    layers = model.number("block_count")
    per_layer = model.header.keys.get(f"{model.header.text('general.architecture')}.attention.head_count_kv")
    if isinstance(per_layer, tuple):
        return sum(per_layer)
    attending = layers // max(1, model.number("full_attention_interval", 1))
    return attending * model.number("attention.head_count_kv", heads)
