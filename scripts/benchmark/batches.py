"""Statements evaluated alone and together: which layouts of a batch leave every logit's bits as they are, and its cost.

    alone      context | statement 1                       then cut back, and the next
    together   context | statement 1 .. | statement 2 .. | ...    each in a sequence of its own, in slots of whole cells

Whatever fills a slot behind its statement cannot be seen from it, but takes part in the batch.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localjudge import model_registry
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings

_BATCH, _CELLS, _SEQUENCES = 512, 4096, 9
_FILLER = 7

Row = tuple[int, int, int]
"""Token, position, sequence."""


class Batches:
    """A model on the engine's settings, fed by hand."""

    def __init__(self, path: Path, threads: int) -> None:
        self._loaded = load(model_registry.find(str(path)), EngineSettings(threads=threads))
        self.vocabulary = self._loaded.model.vocabulary.size
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_seq_max = _CELLS, _BATCH, _BATCH, _SEQUENCES
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.kv_unified = True
        self._context = llama_cpp.llama_init_from_model(self._loaded.model.pointer, settings)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._held = 0

    def hold(self, tokens: Sequence[int]) -> None:
        """Begin again with these tokens as the shared context."""
        llama_cpp.llama_memory_clear(self._memory, True)
        for start in range(0, len(tokens), _BATCH):
            step = tokens[start : start + _BATCH]
            self._decode([(token, start + place, 0) for place, token in enumerate(step)], [len(step) - 1])
        self._held = len(tokens)

    def alone(self, statement: Sequence[int], slot: int) -> NDArray[np.float32]:
        """Logits behind the statement, evaluated behind the context by itself."""
        [logits] = self._decode(self._slot(statement, 0, slot), [len(statement) - 1])
        llama_cpp.llama_memory_seq_rm(self._memory, 0, self._held, -1)
        return logits

    def together(self, statements: Sequence[Sequence[int]], slot: int) -> list[NDArray[np.float32]]:
        """Logits behind each statement, evaluated in one batch."""
        rows: list[Row] = []
        wanted = []
        for sequence, statement in enumerate(statements, start=1):
            llama_cpp.llama_memory_seq_cp(self._memory, 0, sequence, 0, self._held)
            wanted.append(len(rows) + len(statement) - 1)
            rows += self._slot(statement, sequence, slot)
        logits = self._decode(rows, wanted)
        for sequence in range(1, len(statements) + 1):
            llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        return logits

    def close(self) -> None:
        """Free the model."""
        llama_cpp.llama_free(self._context)
        self._loaded.close()

    def seconds(self, statement: Sequence[int], repeats: int) -> float:
        """Time of one pass over the statement: the shortest of several."""
        return min(self._timed(statement) for _ in range(repeats))

    def _timed(self, statement: Sequence[int]) -> float:
        started = time.perf_counter()
        self.alone(statement, slot=1)
        return time.perf_counter() - started

    def _slot(self, statement: Sequence[int], sequence: int, slot: int) -> list[Row]:
        filled = [*statement, *[_FILLER] * (-len(statement) % slot)]
        return [(token, self._held + place, sequence) for place, token in enumerate(filled)]

    def _decode(self, rows: Sequence[Row], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for place, (token, position, sequence) in enumerate(rows):
            batch.token[place], batch.pos[place], batch.n_seq_id[place] = token, position, 1
            batch.seq_id[place][0] = sequence
            batch.logits[place] = place in wanted
        failed = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise ValueError(f"llama.cpp cannot decode {len(rows)} tokens behind {self._held}: code {failed}")
        pointers = [llama_cpp.llama_get_logits_ith(self._context, place) for place in wanted]
        return [np.ctypeslib.as_array(pointer, shape=(self.vocabulary,)).copy() for pointer in pointers]
