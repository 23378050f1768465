"""Contexts of llama.cpp with logits that depend only on the tokens.

A `KVCache` keeps one path in memory and reuses shared prefixes. Attention cells are removed from
the end. A recurrent layer (Mamba, gated delta networks, short convolutions) has one state that the
next token overwrites, so it is saved at the end of each node.

An `Encoder` reads one sequence at a time, for the outputs of a classification head. It uses flash
attention: it reads a sequence in one step, and then its bits depend neither on the length nor on
the threads. Steps of one token, by which other models write, differ between 1 and 2 threads, so
flash attention is off for them.
"""

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from localjudge.engine import memory
from localjudge.engine.llamacpp.model import complaints, delayed_interrupts, listen, llama_cpp
from localjudge.engine.memory import UBATCH
from localjudge.engine.protocol import TokenPath, shared_nodes
from localjudge.errors import ModelError, OutOfResource

_STATES_KEPT = 4
_SEQUENCE = 0
_RECURRENT_PART = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
RewindMode = Literal["cut", "checkpoint", "recompute"]
"""Remove cells, restore a saved state, or start again."""


class KVCache:
    """Context for one path.

    Raises OutOfResource for too little memory, ModelError if llama.cpp refuses.
    """

    def __init__(
        self,
        model: Any,
        *,
        n_ctx: int,
        threads: int,
        vocabulary_size: int,
        rewind_mode: RewindMode,
    ) -> None:
        self._context = open_context(model, n_ctx=n_ctx, batch=UBATCH, threads=threads)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._rewind_mode = rewind_mode
        # Positions and states after the first node, which samples share, and the latest ones.
        self._checkpoints: list[tuple[int, Any]] = []
        self._path: TokenPath = ()
        self._vocabulary_size = vocabulary_size
        self._batch = llama_cpp.llama_batch_init(UBATCH, 0, 1)
        # As NumPy arrays: filling 512 tokens one by one takes as long as evaluating them with a
        # small model.
        self._tokens = np.ctypeslib.as_array(self._batch.token, shape=(UBATCH,))
        self._positions = np.ctypeslib.as_array(self._batch.pos, shape=(UBATCH,))
        self._logits = np.ctypeslib.as_array(self._batch.logits, shape=(UBATCH,))
        np.ctypeslib.as_array(self._batch.n_seq_id, shape=(UBATCH,))[:] = 1
        for row in range(UBATCH):
            self._batch.seq_id[row][0] = _SEQUENCE
        self.evaluated_tokens = 0
        self.seconds_inside = 0.0

    def load_prefix(self, path: TokenPath) -> int:
        """Make the cells contain this path, evaluating only new tokens, and return its length."""
        shared = shared_nodes(self._path, path)
        self._path = ()
        occupied = self.rewind(sum(map(len, path[:shared])))
        position = 0
        for node in path:
            if position >= occupied:
                self.evaluate(node, position)
                self.checkpoint(position + len(node))
            position += len(node)
        self._path = path
        return position

    def logits_after(self, tokens: Sequence[int], position: int) -> NDArray[np.float32]:
        """Evaluate the tokens and return the logits after them (vocabulary,).

        They are valid until the next evaluation.
        """
        self.evaluate(tokens, position, logits=True)
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))

    def evaluate(self, tokens: Sequence[int], position: int, *, logits: bool = False) -> None:
        """Append tokens after `position` occupied cells."""
        for offset in range(0, len(tokens), UBATCH):
            step = tokens[offset : offset + UBATCH]
            start = position + offset
            count = len(step)
            self._tokens[:count] = step
            self._positions[:count] = np.arange(start, start + count)
            self._logits[:] = 0
            self._logits[count - 1] = logits and offset + count == len(tokens)
            self._batch.n_tokens = count
            started = time.perf_counter()
            status = llama_cpp.llama_decode(self._context, self._batch)
            llama_cpp.llama_synchronize(self._context)
            self.seconds_inside += time.perf_counter() - started
            self.evaluated_tokens += count
            if status != 0:
                self.clear()
                raise ModelError(f"llama.cpp could not evaluate {count} tokens (status {status})")

    def checkpoint(self, position: int) -> None:
        """Save the state at this position, if the mode needs it."""
        if self._rewind_mode != "checkpoint":
            return
        size = llama_cpp.llama_state_seq_get_size_ext(self._context, _SEQUENCE, _RECURRENT_PART)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data_ext(
            self._context, state, size, _SEQUENCE, _RECURRENT_PART
        )
        self._checkpoints.append((position, state))
        if len(self._checkpoints) > _STATES_KEPT:
            del self._checkpoints[1]

    def rewind(self, position: int) -> int:
        """Rewind to a position, or further if necessary.

        Returns the number of occupied cells.
        """
        if self._rewind_mode == "recompute":
            position = 0
        elif self._rewind_mode == "checkpoint":
            position = self._restore(position)
        if position and llama_cpp.llama_memory_seq_rm(self._memory, _SEQUENCE, position, -1):
            return position
        self._checkpoints.clear()
        llama_cpp.llama_memory_seq_rm(self._memory, _SEQUENCE, 0, -1)
        return 0

    def _restore(self, position: int) -> int:
        """Restore the last state up to a position, and return its position, or 0 without one."""
        while self._checkpoints and self._checkpoints[-1][0] > position:
            self._checkpoints.pop()
        if not self._checkpoints:
            return 0
        saved_position, state = self._checkpoints[-1]
        restored = llama_cpp.llama_state_seq_set_data_ext(
            self._context, state, len(state), _SEQUENCE, _RECURRENT_PART
        )
        if not restored:
            return 0
        return saved_position

    def clear(self) -> None:
        """Empty and overwrite all cells.

        Attention multiplies unused cells by zero, and NaN would remain NaN.
        """
        self._path = ()
        self._checkpoints.clear()
        llama_cpp.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)


def open_context(
    model: Any, *, n_ctx: int, batch: int, threads: int, classifies: bool = False
) -> Any:
    """Open a context for one sequence, evaluated in steps of `batch` tokens.

    Raises OutOfResource for too little memory, ModelError if llama.cpp refuses.
    """
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = n_ctx
    parameters.n_batch = batch
    parameters.n_ubatch = batch
    parameters.n_seq_max = 1
    parameters.n_threads = threads
    parameters.n_threads_batch = threads
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.kv_unified = True
    # Cells of a sliding window can only be cut back if all of them are kept.
    parameters.swa_full = True
    parameters.no_perf = True
    if classifies:
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        parameters.embeddings = True
        parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_RANK
    listen()
    with delayed_interrupts():
        context = llama_cpp.llama_init_from_model(model, parameters)
    if not context:
        reason = complaints()
        problem = f"llama.cpp could not open a context of {n_ctx:,} tokens"
        if not reason:
            raise OutOfResource(f"{problem}: it gave no reason", hint=memory.memory_hint())
        if memory.is_out_of_memory(reason):
            raise OutOfResource(f"{problem}: {reason}", hint=memory.memory_hint())
        raise ModelError(
            f"{problem}: {reason}",
            hint="use another conversion of the model, or update llama-cpp-python",
        )
    return context


def open_adapter(model: Any, path: Path) -> Any:
    """Load a low-rank adapter of a model. Raises ModelError if it does not fit the model."""
    listen()
    with delayed_interrupts():
        adapter = llama_cpp.llama_adapter_lora_init(model, os.fsencode(path))
    if not adapter:
        raise ModelError(
            f"llama.cpp could not load the adapter {path}: {complaints() or 'it gave no reason'}",
            hint="use the adapter that was made for this model",
        )
    return adapter


class Encoder:
    """Context of `n_ctx` tokens, evaluated in one step. Raises the errors of `open_context`."""

    def __init__(self, model: Any, *, n_ctx: int, threads: int) -> None:
        self._context = open_context(
            model, n_ctx=n_ctx, batch=n_ctx, threads=threads, classifies=True
        )
        self._outputs = llama_cpp.llama_model_n_cls_out(model)
        self._batch = llama_cpp.llama_batch_init(n_ctx, 0, 1)
        self._tokens = np.ctypeslib.as_array(self._batch.token, shape=(n_ctx,))
        np.ctypeslib.as_array(self._batch.pos, shape=(n_ctx,))[:] = np.arange(n_ctx)
        np.ctypeslib.as_array(self._batch.n_seq_id, shape=(n_ctx,))[:] = 1
        np.ctypeslib.as_array(self._batch.logits, shape=(n_ctx,))[:] = 1
        for row in range(n_ctx):
            self._batch.seq_id[row][0] = _SEQUENCE
        self._model = model
        self._adapters: dict[Path, Any] = {}
        self._adapter: Path | None = None
        self.evaluated_tokens = 0
        self.seconds_inside = 0.0

    def use(self, adapter: Path | None) -> None:
        """Evaluate the next sequences with this adapter (a GGUF file), or without one.

        llama.cpp frees adapters with their model. Raises ModelError if the file does not fit.
        """
        if adapter == self._adapter:
            return
        if adapter is not None and adapter not in self._adapters:
            self._adapters[adapter] = open_adapter(self._model, adapter)
        adapters = (llama_cpp.llama_adapter_lora_p_ctypes * 1)()
        count = 0
        if adapter is not None:
            adapters[0] = self._adapters[adapter]
            count = 1
        scales = (ctypes.c_float * 1)(1.0)
        if llama_cpp.llama_set_adapters_lora(self._context, adapters, count, scales) != 0:
            raise ModelError(f"llama.cpp could not evaluate with the adapter {adapter}")
        self._adapter = adapter

    def outputs(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Return the head's outputs for a sequence of at most `n_ctx` tokens, shape (outputs,)."""
        count = len(tokens)
        self._tokens[:count] = tokens
        self._batch.n_tokens = count
        started = time.perf_counter()
        status = llama_cpp.llama_encode(self._context, self._batch)
        llama_cpp.llama_synchronize(self._context)
        self.seconds_inside += time.perf_counter() - started
        self.evaluated_tokens += count
        if status != 0:
            raise ModelError(f"llama.cpp could not evaluate {count} tokens (status {status})")
        pointer = llama_cpp.llama_get_embeddings_seq(self._context, _SEQUENCE)
        return np.ctypeslib.as_array(pointer, shape=(self._outputs,)).copy()

    def close(self) -> None:
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
