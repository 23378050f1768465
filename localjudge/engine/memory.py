"""Estimate the memory of a model and its context, and read how much is free.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes (keys and values, F16)
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width))
               x n_ubatch x 4 bytes

For layers without attention, the cache is an upper bound, without their states. A classifier (an
encoder with a classification head) has no cache, and evaluates its whole context at once, with
flash attention. Although it writes no token, llama.cpp keeps room for the logits of each one:

    working    (vocabulary + n_ctx / 2 + max(feed forward, 2 x width) + 4 x width) x n_ctx x 4 bytes
"""

import os
import re
import sys
from pathlib import Path

from localjudge.engine.gguf import Header
from localjudge.types import readable
from localjudge.words import option_name

UBATCH = 512
"""Tokens that llama.cpp evaluates at once."""
_MAX_DEFAULT_CONTEXT = 8192
_MAX_DEFAULT_CLASSIFIER_CONTEXT = 512
_F16_BYTES = 2
_F32_BYTES = 4
_CGROUPS = Path("/sys/fs/cgroup")
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
    free = available_bytes()
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


def available_bytes() -> int | None:
    """Return the least free memory of machine, control group and address space."""
    group = ""
    for line in _lines("/proc/self/cgroup"):
        if line.startswith("0::"):
            group = line[3:]
    bounds = [_available_memory(), room_in_groups(group), room_in_address_space()]
    return min((bound for bound in bounds if bound is not None), default=None)


def _available_memory() -> int | None:
    """Return the free memory of the machine, or all of its memory if the system does not tell."""
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def room_in_address_space() -> int | None:
    """Return the bytes that this process may still map."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    sizes = _lines("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not sizes:
        return None
    return max(0, limit - int(sizes[0].split()[0]) * resource.getpagesize())


def room_in_groups(group: str) -> int | None:
    """Return the least free memory of a control group (version 2) and its parents."""
    here = _CGROUPS / group.lstrip("/")
    rooms: list[int] = []
    for folder in (here, *here.parents):
        limit = _lines(folder / "memory.max")
        used = _lines(folder / "memory.current")
        if not folder.is_relative_to(_CGROUPS) or not used or limit in ([], ["max"]):
            continue
        cached = 0
        for line in _lines(folder / "memory.stat"):
            name, size = line.split()
            if name in ("active_file", "inactive_file"):
                cached += int(size)
        rooms.append(max(0, int(limit[0]) - int(used[0]) + cached))
    return min(rooms, default=None)


def _lines(file: str | Path) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
