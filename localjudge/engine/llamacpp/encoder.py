"""llama.cpp context that reads one sequence at a time, for the outputs of a classification head."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp.context import open_context
from localjudge.engine.llamacpp.model import llama_cpp
from localjudge.errors import ModelError

_SEQUENCE = 0


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
        self.evaluated_tokens = 0
        self.seconds_inside = 0.0

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
