"""llama.cpp's context: cells that hold one path, what requests share evaluated once, and the one way to evaluate more.

    holds        instructions ─ context ─ statement 1 {"attributed":
    asked for    instructions ─ context ─ statement 2 {"attributed":
    go back to   instructions ─ context                                 and evaluate what is new

Every node is a step of its own, whether or not anything is shared, and a place to go back to. Cells of attention are
cut. A recurrent layer (Mamba, gated delta networks, short convolutions) keeps one state for all that it has read, which
the next token overwrites: it is copied out at the ends of nodes, and back in. The copy is exact, so what follows is
bit-identical to an evaluation from scratch.

The batch is filled through NumPy views of the arrays that llama.cpp reads: filling 512 tokens one by one in Python
takes as long as evaluating them with a small model.
"""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp import gguf as memory
from localjudge.engine.llamacpp.gguf import UBATCH
from localjudge.engine.llamacpp.library import complaints, interrupts_held_back, listen, llama_cpp
from localjudge.engine.prefix_tree import TokenPath, shared_nodes
from localjudge.errors import ModelError, OutOfResource

_KEPT = 4
_SEQUENCE = 0
_RECURRENT_PART = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


class _Checkpoint(NamedTuple):
    position: int
    state: Any


class StateCheckpoints:
    """Saved states of one sequence, along the path that it holds.

    A path of many nodes keeps the state behind its first node, which other samples share, and the last few, where
    statements part.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._saved: list[_Checkpoint] = []

    def save(self, position: int) -> None:
        """Save the state of the sequence, which holds `position` tokens."""
        size = llama_cpp.llama_state_seq_get_size_ext(self._context, _SEQUENCE, _RECURRENT_PART)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data_ext(self._context, state, size, _SEQUENCE, _RECURRENT_PART)
        self._saved.append(_Checkpoint(position, state))
        if len(self._saved) > _KEPT:
            del self._saved[1]

    def restore(self, position: int) -> int:
        """Go back to the last saved place that is not behind `position`; tokens that the sequence holds then.

        Attention cells behind that place, if the model has any, are still to be cut.
        """
        while self._saved and self._saved[-1].position > position:
            self._saved.pop()
        if not self._saved:
            return 0
        last = self._saved[-1]
        restored = llama_cpp.llama_state_seq_set_data_ext(
            self._context, last.state, len(last.state), _SEQUENCE, _RECURRENT_PART
        )
        if not restored:
            self._saved.clear()
            return 0
        return last.position

    def clear(self) -> None:
        """Forget every saved state."""
        self._saved.clear()


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
    """A context of `n_ctx` cells for one path.

    Raises OutOfResource if there is too little memory for it, ModelError if llama.cpp refuses it otherwise.
    """

    def __init__(self, model: Any, *, n_ctx: int, threads: int, vocabulary_size: int, rewind_mode: RewindMode) -> None:
        self._context = _open(model, n_ctx=n_ctx, threads=threads)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._rewind_mode = rewind_mode
        self._checkpoints = StateCheckpoints(self._context)
        self._vocabulary_size = vocabulary_size
        self._batch = _Batch()
        self.evaluated_tokens = 0
        self.seconds_inside = 0.0

    def evaluate(self, run: TokenRun) -> None:
        """Put the run into the cells.

        It is fed from its own start in steps of `UBATCH` tokens, so that what is before it does not move the cuts.
        """
        self._feed(run, logits=False)

    def logits_behind(self, run: TokenRun) -> NDArray[np.float32]:
        """Evaluate the run; logits behind it, shape (vocabulary,), valid until the next evaluation."""
        self._feed(run, logits=True)
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))

    def checkpoint(self, position: int) -> None:
        """Remember that the cells hold `position` tokens now, as a place to go back to."""
        if self._rewind_mode == "checkpoint":
            self._checkpoints.save(position)

    def rewind(self, position: int) -> int:
        """Forget what is behind `position`, a checkpoint; how many tokens the cells still hold.

        They are fewer where this model's memory cannot go back to there.
        """
        if self._rewind_mode == "recompute":
            position = 0
        elif self._rewind_mode == "checkpoint":
            position = self._checkpoints.restore(position)
        if position and llama_cpp.llama_memory_seq_rm(self._memory, 0, position, -1):
            return position
        self._checkpoints.clear()
        llama_cpp.llama_memory_seq_rm(self._memory, 0, 0, -1)
        return 0

    def clear(self) -> None:
        """Forget everything."""
        self._checkpoints.clear()
        llama_cpp.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        """Free the memory."""
        llama_cpp.llama_free(self._context)

    def _feed(self, run: TokenRun, *, logits: bool) -> None:
        for offset in range(0, len(run.tokens), UBATCH):
            step = run.tokens[offset : offset + UBATCH]
            is_last = offset + len(step) == len(run.tokens)
            batch = self._batch.of(TokenRun(run.position + offset, step), logits=logits and is_last)
            started = time.perf_counter()
            status = llama_cpp.llama_decode(self._context, batch)
            llama_cpp.llama_synchronize(self._context)
            self.seconds_inside += time.perf_counter() - started
            self.evaluated_tokens += len(step)
            if status != 0:
                self.clear()
                raise ModelError(f"llama.cpp could not evaluate {len(step)} tokens (status {status})")


class _Batch:
    """Up to `UBATCH` tokens of sequence 0 in the arrays that llama.cpp reads."""

    def __init__(self) -> None:
        self._tokens = np.zeros(UBATCH, dtype=np.int32)
        self._positions = np.zeros(UBATCH, dtype=np.int32)
        self._sequence_counts = np.ones(UBATCH, dtype=np.int32)
        self._sequences = np.zeros(UBATCH, dtype=np.int32)
        self._logits = np.zeros(UBATCH, dtype=np.int8)
        rows = self._sequences.ctypes.data + np.arange(UBATCH) * self._sequences.itemsize
        self._sequence_pointers = rows.astype(np.uintp)
        self._struct = llama_cpp.llama_batch(
            0,
            _pointer(self._tokens, llama_cpp.llama_token),
            None,
            _pointer(self._positions, llama_cpp.llama_pos),
            _pointer(self._sequence_counts, ctypes.c_int32),
            _pointer(self._sequence_pointers, ctypes.POINTER(llama_cpp.llama_seq_id)),
            _pointer(self._logits, ctypes.c_int8),
        )

    def of(self, step: TokenRun, *, logits: bool) -> llama_cpp.llama_batch:
        """The tokens of one step for llama.cpp; `logits` asks for those behind its last token."""
        count = len(step.tokens)
        self._tokens[:count] = step.tokens
        self._positions[:count] = np.arange(step.position, step.end)
        self._logits[:] = 0
        self._logits[count - 1] = logits
        self._struct.n_tokens = count
        return self._struct


def _pointer(array: NDArray[Any], kind: Any) -> Any:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))


def _open(model: Any, *, n_ctx: int, threads: int) -> Any:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = n_ctx
    parameters.n_batch = UBATCH
    parameters.n_ubatch = UBATCH
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
        if reason and not memory.was_refused(reason):
            raise ModelError(message, hint="use another conversion of the model, or update llama-cpp-python")
        raise OutOfResource(message, hint=memory.what_to_do())
    return context


class PrefixCache:
    """The nodes that are in the cache."""

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._held: TokenPath = ()

    def hold(self, path: TokenPath) -> int:
        """Let the cells hold this path and nothing else; how many tokens that is. Evaluates only what is new."""
        shared = shared_nodes(self._held, path)
        self._held = ()
        there = self._cache.rewind(sum(map(len, path[:shared])))
        position = 0
        for node in path:
            if position >= there:
                self._cache.evaluate(TokenRun(position, node))
                self._cache.checkpoint(position + len(node))
            position += len(node)
        self._held = path
        return position

    def wipe(self) -> None:
        """Hold nothing, and overwrite all cells: what is not a number spreads even from cells that nobody looks at.

        Attention multiplies cells that are cut by zero, and NaN times zero is NaN.
        """
        self._held = ()
        self._cache.clear()
