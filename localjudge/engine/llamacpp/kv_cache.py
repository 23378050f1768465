"""llama.cpp's context: cells that hold one path, what requests share evaluated once, and the one way to evaluate more.

Every node is a step of its own, whether or not anything is shared, and a place to go back to. Cells of attention are
cut. A recurrent layer (Mamba, gated delta networks, short convolutions) keeps one state for all that it has read, which
the next token overwrites: it is copied out at the ends of nodes, and back in, to the bit.
"""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.decoding import TokenPath, shared_nodes
from localjudge.engine.llamacpp import gguf
from localjudge.engine.llamacpp.gguf import UBATCH
from localjudge.engine.llamacpp.model import complaints, interrupts_held_back, listen, llama_cpp
from localjudge.errors import ModelError, OutOfResource

_STATES_KEPT = 4
_SEQUENCE = 0
_RECURRENT_PART = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
RewindMode = Literal["cut", "checkpoint", "recompute"]
"""How the cells go back to a shared prefix: they are cut, a saved state is restored, or everything begins again."""


class TokenRun(NamedTuple):
    """Tokens to put behind what the cells hold. `position` is how many they hold."""

    position: int
    tokens: Sequence[int]

    @property
    def end(self) -> int:
        """How many tokens the cells hold once these are in."""
        return self.position + len(self.tokens)


class KVCache:
    """A context of `n_ctx` cells for one path. Raises OutOfResource for too little memory, ModelError if refused."""

    def __init__(self, model: Any, *, n_ctx: int, threads: int, vocabulary_size: int, rewind_mode: RewindMode) -> None:
        self._context = _open(model, n_ctx=n_ctx, threads=threads)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._rewind_mode = rewind_mode
        # Saved states with the tokens held then: behind the first node, which other samples share, and the last few.
        self._checkpoints: list[tuple[int, Any]] = []
        self._path: TokenPath = ()
        self._vocabulary_size = vocabulary_size
        self._batch = batch = llama_cpp.llama_batch_init(UBATCH, 0, 1)
        # Seen as NumPy arrays: to fill 512 tokens one by one takes as long as to evaluate them with a small model.
        self._tokens, self._positions, counts, self._logits = (
            np.ctypeslib.as_array(array, shape=(UBATCH,))
            for array in (batch.token, batch.pos, batch.n_seq_id, batch.logits)
        )
        counts[:] = 1
        for row in range(UBATCH):
            batch.seq_id[row][0] = _SEQUENCE
        self.evaluated_tokens = 0
        self.seconds_inside = 0.0

    def hold(self, path: TokenPath) -> int:
        """Let the cells hold this path and nothing else; how many tokens that is. Evaluates only what is new."""
        shared = shared_nodes(self._path, path)
        self._path = ()
        held = self.rewind(sum(map(len, path[:shared])))
        position = 0
        for node in path:
            if position >= held:
                self.evaluate(TokenRun(position, node))
                self.checkpoint(position + len(node))
            position += len(node)
        self._path = path
        return position

    def logits_behind(self, run: TokenRun) -> NDArray[np.float32]:
        """Evaluate the run; logits behind it, shape (vocabulary,), valid until the next evaluation."""
        self.evaluate(run, logits=True)
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))

    def evaluate(self, run: TokenRun, *, logits: bool = False) -> None:
        """Put the run into the cells, in steps of `UBATCH` tokens from its own start: what is before moves no cut."""
        for offset in range(0, len(run.tokens), UBATCH):
            step, position = run.tokens[offset : offset + UBATCH], run.position + offset
            count = len(step)
            self._tokens[:count] = step
            self._positions[:count] = np.arange(position, position + count)
            self._logits[:] = 0
            self._logits[count - 1] = logits and offset + count == len(run.tokens)
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
        """Remember that the cells hold `position` tokens now, as a place to go back to."""
        if self._rewind_mode == "checkpoint":
            size = llama_cpp.llama_state_seq_get_size_ext(self._context, _SEQUENCE, _RECURRENT_PART)
            state = (ctypes.c_uint8 * size)()
            llama_cpp.llama_state_seq_get_data_ext(self._context, state, size, _SEQUENCE, _RECURRENT_PART)
            self._checkpoints.append((position, state))
            if len(self._checkpoints) > _STATES_KEPT:
                del self._checkpoints[1]

    def rewind(self, position: int) -> int:
        """Go back to a checkpoint, or further where this memory cannot; how many tokens the cells still hold."""
        if self._rewind_mode == "recompute":
            position = 0
        elif self._rewind_mode == "checkpoint":
            while self._checkpoints and self._checkpoints[-1][0] > position:
                self._checkpoints.pop()
            restored, context = 0, self._context
            if self._checkpoints:
                position, state = self._checkpoints[-1]
                restored = llama_cpp.llama_state_seq_set_data_ext(
                    context, state, len(state), _SEQUENCE, _RECURRENT_PART
                )
            position = position if restored else 0
        if position and llama_cpp.llama_memory_seq_rm(self._memory, _SEQUENCE, position, -1):
            return position
        self._checkpoints.clear()
        llama_cpp.llama_memory_seq_rm(self._memory, _SEQUENCE, 0, -1)
        return 0

    def clear(self) -> None:
        """Hold nothing, and overwrite all cells: attention multiplies cut cells by zero, and NaN times zero is NaN."""
        self._path = ()
        self._checkpoints.clear()
        llama_cpp.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        """Free the memory."""
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)


def _open(model: Any, *, n_ctx: int, threads: int) -> Any:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = n_ctx
    parameters.n_batch = parameters.n_ubatch = UBATCH
    parameters.n_seq_max = 1
    parameters.n_threads = parameters.n_threads_batch = threads
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.kv_unified = True
    parameters.swa_full = True  # a sliding window's cells can only be cut back if all of them are kept
    parameters.no_perf = True
    listen()
    with interrupts_held_back():
        context = llama_cpp.llama_init_from_model(model, parameters)
    if not context:
        reason = complaints()
        message = f"llama.cpp could not open a context of {n_ctx:,} tokens: {reason or 'it gave no reason'}"
        if reason and not gguf.was_refused(reason):
            raise ModelError(message, hint="use another conversion of the model, or update llama-cpp-python")
        raise OutOfResource(message, hint=gguf.what_to_do())
    return context
