"""Does a model fit into memory? Estimated from its header, before it is loaded.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes          attention keys and values, F16
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width)) x n_ubatch x 4 bytes
                                     the largest matrix of one step, the masks, and what passes between layers

The formulas follow llama.cpp's buffers without flash attention; a test holds them against what it allocates. For models
whose layers are not all attention, and which do not say which are, the cache is an upper bound; the states that the
other layers keep (tens of MiB for a model of billions of weights) are not counted.
"""

import os
from pathlib import Path
from typing import NamedTuple

from localjudge.engine.llamacpp.model_check import CheckedModel
from localjudge.errors import ModelError

_BYTES_OF_F16 = 2
_BYTES_OF_F32 = 4
_CGROUPS = Path("/sys/fs/cgroup")


class MemoryNeed(NamedTuple):
    """Bytes that a judge takes."""

    weights: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


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
    """Raise ModelError with the numbers if the model does not fit into what is free."""
    free = available_bytes()
    if free is None or need.total <= free:
        return
    raise ModelError(
        f"{model.header.path} does not fit into memory: it needs about {gib(need.total)} (weights "
        f"{gib(need.weights)}, cache for {n_ctx:,} tokens {gib(need.cache)}, working space {gib(need.working)}), "
        f"and {gib(free)} are free",
        hint="use a smaller model or quantisation, a shorter context (--n-ctx), or free memory",
    )


def available_bytes() -> int | None:
    """Memory that this process may still take: what the machine has free, or its control group, if that is less."""
    bounds = [bound for bound in (_free_on_machine(), room_in_groups(_own_group())) if bound is not None]
    return min(bounds, default=None)


def _key_value_heads(model: CheckedModel, heads: int) -> int:
    """Summed over the layers."""
    layers = model.number("block_count")
    per_layer = model.header.keys.get(f"{model.header.text('general.architecture')}.attention.head_count_kv")
    if isinstance(per_layer, tuple):
        return sum(per_layer)
    attending = layers // max(1, model.number("full_attention_interval", 1))
    return attending * model.number("attention.head_count_kv", heads)


def _free_on_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in found), None)


def room_in_groups(group: str) -> int | None:
    """Room under the tightest limit of a control group (version 2) and those that it is in; None if there is none."""
    here = _CGROUPS / group.lstrip("/")
    folders = [folder for folder in (here, *here.parents) if folder.is_relative_to(_CGROUPS)]
    return min((room for room in map(_room, folders) if room is not None), default=None)


def _own_group() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def _room(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    if limit == "max":
        return None
    files = sum(int(line.split()[1]) for line in lines if line.startswith(("active_file ", "inactive_file ")))
    return max(0, int(limit) - used + files)


def gib(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 2**30:.1f} GiB"
