"""llama.cpp's context: cells that remember what was evaluated, and the one way to evaluate more.

    sequence 0     instructions ─ context            the shared path
    sequence 1..   instructions ─ context ─ ...      forks of it: they share its cells and add their own

Flash attention passes over the cells of other sequences without a sum: with forks it is on. Without forks it is off:
with it, one-token steps over 512 cells or more differ between 1 and 2 threads.

The batch is filled through NumPy views of the arrays that llama.cpp reads: filling 512 tokens one by one in Python
takes as long as evaluating them with a small model.
"""

import ctypes
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp.interrupts import interrupts_held_back
from localjudge.engine.llamacpp.state_checkpoints import Snapshots
from localjudge.errors import ModelError

WayBack = Literal["cut", "snapshot", "scratch"]
"""How sequence 0 goes back to a shared prefix: its cells are cut, a saved state is restored, or it begins again."""

UBATCH = 512
"""Tokens that llama.cpp evaluates at once."""


class Stretch(NamedTuple):
    """Tokens to put behind what a sequence holds. `position` is how many it holds."""

    sequence: int
    position: int
    tokens: Sequence[int]


class Cells:
    """A context of `n_ctx` cells for one path and `forks` copies of it. Raises ModelError if it cannot be opened."""

    def __init__(
        self, model: Any, *, n_ctx: int, forks: int, threads: int, vocabulary_size: int, way_back: WayBack
    ) -> None:
        self._context = _open(model, n_ctx=n_ctx, sequences=1 + forks, threads=threads)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._way_back = way_back
        self._snapshots = Snapshots(self._context)
        self._vocabulary_size = vocabulary_size
        self._batch = _Batch()
        self.evaluated_tokens = 0
        self.seconds_inside = 0.0

    def evaluate(self, stretch: Stretch) -> None:
        """Put the stretch into its sequence.

        It is fed from its own start in steps of `UBATCH` tokens, so that what is before it does not move the cuts.
        """
        self._feed(stretch, logits=False)

    def logits_behind(self, stretch: Stretch) -> NDArray[np.float32]:
        """Evaluate the stretch; logits behind it, shape (vocabulary,), valid until the next evaluation."""
        self._feed(stretch, logits=True)
        return self._logits(-1)

    def logits_behind_each(self, stretches: Sequence[Stretch]) -> list[NDArray[np.float32]]:
        """Evaluate the stretches in as few steps as hold them; a copy of the logits behind each."""
        found: list[NDArray[np.float32]] = []
        for parts in _in_steps(stretches):
            self._batch.fill([part for part, _ in parts])
            ends = np.cumsum([len(part.tokens) for part, _ in parts]) - 1
            wanted = [int(end) for end, (_, is_last) in zip(ends, parts, strict=True) if is_last]
            self._batch.want_logits(wanted)
            self._decode(int(ends[-1]) + 1)
            found += [self._logits(row).copy() for row in wanted]
        return found

    def fork(self, sequence: int) -> None:
        """Let the sequence begin with all that sequence 0 holds."""
        self.drop(sequence)
        llama_cpp.llama_memory_seq_cp(self._memory, 0, sequence, -1, -1)

    def drop(self, sequence: int) -> None:
        """Forget all that a sequence holds."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, 0, -1)

    def mark(self, position: int) -> None:
        """Remember this place of sequence 0, which holds `position` tokens, as one to go back to."""
        if self._way_back == "snapshot":
            self._snapshots.save(position)

    def go_back(self, position: int) -> int:
        """Let sequence 0 forget what is behind `position`, a marked place; tokens that it still holds.

        They are fewer where this model's memory cannot go back to there.
        """
        if self._way_back == "scratch":
            position = 0
        elif self._way_back == "snapshot":
            position = self._snapshots.restore(position)
        if position and llama_cpp.llama_memory_seq_rm(self._memory, 0, position, -1):
            return position
        self._snapshots.clear()
        self.drop(0)
        return 0

    def clear(self) -> None:
        """Forget everything."""
        self._snapshots.clear()
        llama_cpp.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        """Free the memory."""
        llama_cpp.llama_free(self._context)

    def _feed(self, stretch: Stretch, *, logits: bool) -> None:
        for offset in range(0, len(stretch.tokens), UBATCH):
            step = stretch.tokens[offset : offset + UBATCH]
            is_last = offset + len(step) == len(stretch.tokens)
            self._batch.fill([Stretch(stretch.sequence, stretch.position + offset, step)])
            self._batch.want_logits([len(step) - 1] if logits and is_last else [])
            self._decode(len(step))

    def _decode(self, count: int) -> None:
        started = time.perf_counter()
        status = llama_cpp.llama_decode(self._context, self._batch.of(count))
        llama_cpp.llama_synchronize(self._context)
        self.seconds_inside += time.perf_counter() - started
        self.evaluated_tokens += count
        if status != 0:
            self.clear()
            raise ModelError(f"llama.cpp could not evaluate {count} tokens (status {status})")

    def _logits(self, row: int) -> NDArray[np.float32]:
        pointer = llama_cpp.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))


class _Batch:
    """Up to `UBATCH` tokens in the arrays that llama.cpp reads; each token belongs to one sequence."""

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

    def fill(self, stretches: Sequence[Stretch]) -> None:
        """Put the stretches in, one behind the other. At most `UBATCH` tokens."""
        start = 0
        for sequence, position, tokens in stretches:
            end = start + len(tokens)
            self._tokens[start:end] = tokens
            self._positions[start:end] = np.arange(position, position + len(tokens))
            self._sequences[start:end] = sequence
            start = end

    def want_logits(self, rows: Sequence[int]) -> None:
        """Ask for the logits behind these tokens of the batch, and no others."""
        self._logits[:] = 0
        self._logits[list(rows)] = 1

    def of(self, count: int) -> llama_cpp.llama_batch:
        """The first `count` tokens, for llama.cpp."""
        self._struct.n_tokens = count
        return self._struct


def _pointer(array: NDArray[Any], kind: Any) -> Any:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))


def _in_steps(stretches: Sequence[Stretch]) -> Iterator[list[tuple[Stretch, bool]]]:
    """The stretches cut into steps of at most `UBATCH` tokens; each part with whether it ends its stretch."""
    step: list[tuple[Stretch, bool]] = []
    room = UBATCH
    for sequence, position, tokens in stretches:
        start = 0
        while start < len(tokens):
            part = tokens[start : start + room]
            step.append((Stretch(sequence, position + start, part), start + len(part) == len(tokens)))
            start += len(part)
            room -= len(part)
            if not room:
                yield step
                step, room = [], UBATCH
    if step:
        yield step


def _open(model: Any, *, n_ctx: int, sequences: int, threads: int) -> Any:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = n_ctx
    parameters.n_batch = UBATCH
    parameters.n_ubatch = UBATCH
    parameters.n_seq_max = sequences
    parameters.n_threads = parameters.n_threads_batch = threads
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if sequences > 1:
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
    parameters.kv_unified = True
    parameters.swa_full = True  # a sliding window's cells can only be cut back if all of them are kept
    parameters.no_perf = True
    with interrupts_held_back():
        context = llama_cpp.llama_init_from_model(model, parameters)
    if not context:
        raise ModelError(
            f"llama.cpp could not open a context of {n_ctx} tokens",
            hint="ask for a smaller context with --n-ctx, or free memory",
        )
    return context
