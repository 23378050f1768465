"""Estimate the memory of a model and its context.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes (keys and values, F16)
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width))
               x n_ubatch x 4 bytes

For layers without attention, the cache is an upper bound, without their states. A classifier (an
encoder with a classification head) has no cache, and evaluates its whole context at once, with
flash attention. Although it writes no token, llama.cpp keeps room for the logits of each one:

    working    (vocabulary + n_ctx / 2 + max(feed forward, 2 x width) + 4 x width) x n_ctx x 4 bytes
"""

import re

from localjudge.engine import hardware
from localjudge.engine.llamacpp.gguf import Header
from localjudge.types import readable
from localjudge.words import option_name

UBATCH = 512
"""Tokens that llama.cpp evaluates at once."""
_MAX_DEFAULT_CONTEXT = 8192
_MAX_DEFAULT_CLASSIFIER_CONTEXT = 512
_F16_BYTES = 2
_F32_BYTES = 4
_OUT_OF_MEMORY = re.compile(
    "cannot allocate memory|resource temporarily unavailable|insufficient memory|out of memory|"
    "bad_alloc|MemoryError|(failed|unable) to (allocate|reserve)",
    re.IGNORECASE,
)


def context_for(model: Header, wanted: int | None) -> int:
    """Return the tokens of context for a model, at most as in its training."""
    if not wanted and model.is_classifier:
        wanted = _MAX_DEFAULT_CLASSIFIER_CONTEXT
    return min(wanted or _MAX_DEFAULT_CONTEXT, model.size("context_length"))


def needed_bytes(model: Header, n_ctx: int) -> int:
    """Estimate the memory of a model and its context of `n_ctx` tokens."""
    return model.weight_bytes + cache_bytes(model, n_ctx) + working_bytes(model, n_ctx)


def cache_bytes(model: Header, n_ctx: int) -> int:
    """Estimate the memory of keys and values, by the module's formula."""
    if model.is_classifier:
        return 0
    heads = model.size("attention.head_count")
    head_width = 0
    if heads:
        head_width = model.size("embedding_length") // heads
    key_width = model.size("attention.key_length", head_width)
    value_width = model.size("attention.value_length", head_width)
    per_layer = model.keys.get(f"{model.text('general.architecture')}.attention.head_count_kv")
    if isinstance(per_layer, tuple):
        key_value_heads = sum(heads for heads in per_layer if isinstance(heads, int))
    else:
        attending = model.size("block_count") // max(1, model.size("full_attention_interval", 1))
        key_value_heads = attending * model.size("attention.head_count_kv", heads)
    cached_numbers = int(key_value_heads * (key_width + value_width))
    return n_ctx * cached_numbers * _F16_BYTES


def working_bytes(model: Header, n_ctx: int) -> int:
    """Estimate the memory of one step, by the module's formula."""
    heads = model.size("attention.head_count")
    width = model.size("embedding_length")
    feed_forward = model.size("feed_forward_length")
    vocabulary = model.lengths.get("tokenizer.ggml.tokens", 0)
    if model.is_classifier:
        numbers = vocabulary + n_ctx // 2 + max(feed_forward, 2 * width) + 4 * width
        return numbers * n_ctx * _F32_BYTES
    streams = 2 * (n_ctx + feed_forward + 2 * width)
    return (max(heads * n_ctx, vocabulary) + streams) * UBATCH * _F32_BYTES


def needed_and_free(model: Header, n_ctx: int) -> str:
    """Say how much memory a judge needs, and how much is free."""
    free = hardware.available_bytes()
    room = "the amount of free memory is unknown"
    if free is not None:
        room = f"{readable(free)} are free"
    return (
        f"about {readable(needed_bytes(model, n_ctx))} (weights {readable(model.weight_bytes)}, "
        f"cache for {n_ctx:,} tokens {readable(cache_bytes(model, n_ctx))}, "
        f"working space {readable(working_bytes(model, n_ctx))}), and {room}"
    )


def memory_hint() -> str:
    """Return what a user can do about too little memory."""
    context = option_name("n_ctx")
    layers = option_name("gpu_layers")
    return (
        f"use a smaller model or quantisation, a shorter context ({context}) or fewer layers on a "
        f"GPU ({layers}); or free memory, or raise its limit (ulimit -v, the container's or the "
        "job's)"
    )


def is_out_of_memory(message: str) -> bool:
    """Return whether a message of llama.cpp or the system says that memory or threads lack."""
    return bool(_OUT_OF_MEMORY.search(message))
