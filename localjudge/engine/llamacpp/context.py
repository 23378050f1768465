"""Open a context of llama.cpp with logits that depend only on the tokens.

Classifiers use flash attention: they read a sequence in one step, and then its bits depend neither
on the length nor on the threads. Steps of one token, by which other models write, differ between 1
and 2 threads, so it is off for them.
"""

from typing import Any

from localjudge.engine.llamacpp import memory
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
