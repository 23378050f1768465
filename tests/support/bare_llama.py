"""Run a model file on plain llama.cpp, without the package's engine, as a control.

logits      tokens ─> decode from position 0, or after cached tokens ─> logits after the last
together    cached tokens | statement 1 .. | statement 2 .. | ...
            one batch, each statement in a separate sequence
"""

import ctypes
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType

import llama_cpp
import numpy as np
from numpy.typing import NDArray

_BATCH = 512
_CELLS = 8192
_SEQUENCES = 9
Row = tuple[int, int, int]
"""Token, position, sequence."""
Logits = NDArray[np.float32]


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    pass


class BareModel:
    """A loaded model file. Use as a context manager."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        weights = llama_cpp.llama_model_default_params()
        weights.use_extra_bufts = (
            False  # not laid out anew for this processor, whose kernels then round otherwise
        )
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), weights)
        if not self._model:
            raise ValueError(f"llama.cpp cannot load {path}")
        self._vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self.size = llama_cpp.llama_vocab_n_tokens(self._vocabulary)
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = _CELLS
        settings.n_batch = _BATCH
        settings.n_ubatch = _BATCH
        settings.n_seq_max = _SEQUENCES
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.kv_unified = True
        self._context = llama_cpp.llama_init_from_model(self._model, settings)
        self._memory = llama_cpp.llama_get_memory(self._context)

    def __enter__(self) -> "BareModel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def encode(self, text: str) -> list[int]:
        """Tokenize plain text without control tokens."""
        data = text.encode()
        buffer = (llama_cpp.llama_token * (2 * len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self._vocabulary, data, len(data), buffer, len(buffer), False, False
        )
        return list(buffer[:count])

    def logits(self, tokens: Sequence[int], cached: int = 0) -> Logits:
        """Return the logits after the last token, shape (size,), reusing `cached` tokens."""
        llama_cpp.llama_memory_seq_rm(self._memory, 0, cached, -1)
        for start in range(0, len(tokens), _BATCH):
            step = tokens[start : start + _BATCH]
            rows = [(token, cached + start + place, 0) for place, token in enumerate(step)]
            [logits] = self._decode(rows, [len(step) - 1])
        return logits

    def together(self, statements: Sequence[Sequence[int]], cached: int) -> list[Logits]:
        """Return the logits after each statement, in one batch after the `cached` tokens."""
        rows: list[Row] = []
        ends = []
        for sequence, statement in enumerate(statements, start=1):
            llama_cpp.llama_memory_seq_cp(self._memory, 0, sequence, 0, cached)
            rows += [(token, cached + place, sequence) for place, token in enumerate(statement)]
            ends.append(len(rows) - 1)
        return self._decode(rows, ends)

    def log_odds(self, tokens: Sequence[int], cached: int = 0) -> float:
        """Return the log odds of "1" against "0" as the next token."""
        logits = self.logits(tokens, cached)
        one, zero = self._digits
        return float(logits[one]) - float(logits[zero])

    @cached_property
    def _digits(self) -> tuple[int, int]:
        pieces = {self._piece(token): token for token in range(self.size)}
        return pieces[b"1"], pieces[b"0"]

    def _piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(128)
        length = llama_cpp.llama_token_to_piece(
            self._vocabulary, token, buffer, len(buffer), 0, True
        )
        return buffer.raw[:length]

    def _decode(self, rows: Sequence[Row], ends: Sequence[int]) -> list[Logits]:
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for place, (token, position, sequence) in enumerate(rows):
            batch.token[place] = token
            batch.pos[place] = position
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = sequence
            batch.logits[place] = place in ends
        failed = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise ValueError(
                f"llama.cpp cannot decode {len(rows)} tokens after {rows[0][1]}: code {failed}"
            )
        pointers = [llama_cpp.llama_get_logits_ith(self._context, place) for place in ends]
        return [np.ctypeslib.as_array(pointer, shape=(self.size,)).copy() for pointer in pointers]
