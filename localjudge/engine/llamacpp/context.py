"""Open a context of llama.cpp whose logits depend only on the tokens."""

from typing import Any

from localjudge.engine.llamacpp import gguf
from localjudge.engine.llamacpp.model import complaints, delayed_interrupts, listen, llama_cpp
from localjudge.errors import ModelError, OutOfResource


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
    parameters.swa_full = (
        True  # a sliding window's cells can only be cut back if all of them are kept
    )
    parameters.no_perf = True
    if classifies:
        parameters.embeddings = True
        parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_RANK
    listen()
    with delayed_interrupts():
        context = llama_cpp.llama_init_from_model(model, parameters)
    if not context:
        reason = complaints()
        message = f"llama.cpp could not open a context of {n_ctx:,} tokens: {reason or 'it gave no reason'}"
        if reason and not gguf.is_out_of_memory(reason):
            raise ModelError(
                message, hint="use another conversion of the model, or update llama-cpp-python"
            )
        raise OutOfResource(message, hint=gguf.memory_hint())
    return context
