"""Runs the built file through llama.cpp itself, to measure it and to hold the NumPy model against it.

    tokens ─> decode from position 0 ─> logits of the last token ─> z = logit("1") - logit("0")

`scripts` need no more of an engine than this: one sequence, one prompt at a time.
"""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import llama_cpp
import numpy as np
from numpy.typing import NDArray

_BATCH = 512
_CONTEXT = 8192


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    """llama.cpp reports every tensor on stderr."""


class LoadedJudge:
    """The model file, loaded. Use as a context manager."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        weights = llama_cpp.llama_model_default_params()
        weights.use_extra_bufts = False  # not laid out anew for this processor, whose kernels then round otherwise
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), weights)
        if not self._model:
            raise ValueError(f"llama.cpp cannot load {path}")
        self._vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self.size = llama_cpp.llama_vocab_n_tokens(self._vocabulary)
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_seq_max = _CONTEXT, _BATCH, _BATCH, 1
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.kv_unified = True
        self._context = llama_cpp.llama_init_from_model(self._model, settings)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._one, self._zero = (self._literal(digit) for digit in (b"1", b"0"))

    def __enter__(self) -> "LoadedJudge":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def encode(self, text: str) -> list[int]:
        """Tokens of plain text: markers in it stay text."""
        data = text.encode()
        buffer = (llama_cpp.llama_token * (2 * len(data) + 8))()
        count = llama_cpp.llama_tokenize(self._vocabulary, data, len(data), buffer, len(buffer), False, False)
        return list(buffer[:count])

    def piece(self, token: int) -> bytes:
        """Bytes that a token stands for."""
        buffer = ctypes.create_string_buffer(128)
        length = llama_cpp.llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, True)
        return buffer.raw[:length]

    def logits(self, tokens: Sequence[int], kept: int = 0) -> NDArray[np.float32]:
        """Logits after the last token, shape (vocabulary,), decoding after the first `kept` tokens already held."""
        llama_cpp.llama_memory_seq_rm(self._memory, 0, kept, -1)
        for start in range(0, len(tokens), _BATCH):
            self._decode(tokens[start : start + _BATCH], kept + start)
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self.size,)).copy()

    def logit(self, tokens: Sequence[int], kept: int = 0) -> float:
        """z, the log of the odds of label 1."""
        logits = self.logits(tokens, kept)
        return float(logits[self._one]) - float(logits[self._zero])

    def _decode(self, tokens: Sequence[int], start: int) -> None:
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens):
            batch.token[place] = token
            batch.pos[place] = start + place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = 0
            batch.logits[place] = place == len(tokens) - 1
        failed = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise ValueError(f"llama.cpp cannot decode {len(tokens)} tokens after {start}: code {failed}")

    def _literal(self, piece: bytes) -> int:
        return next(token for token in range(self.size) if self.piece(token) == piece)
