"""llama.cpp context that keeps one path in memory and reuses shared prefixes.

Attention cells are removed from the end. A recurrent layer (Mamba, gated delta networks, short
convolutions) has one state that the next token overwrites, so it is saved at the end of each node.
"""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp.context import open_context
from localjudge.engine.llamacpp.memory import UBATCH
from localjudge.engine.llamacpp.model import llama_cpp
from localjudge.engine.prompt_tree import TokenPath, shared_nodes
from localjudge.errors import ModelError

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
