"""What a list of models says of a file: read from its header, with no model library loaded and no weights touched."""

from pathlib import Path

from localjudge.engine.llamacpp import memory, model_check
from localjudge.engine.llamacpp.memory import UBATCH
from localjudge.engine.protocol import ModelFacts

_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip
"""How llama.cpp calls the mixtures of quantisations in a file, by its number for them (`llama_ftype`)."""


def facts_of(path: Path, n_ctx: int | None) -> ModelFacts:
    """The facts of one file, with the memory that it takes for `n_ctx` tokens, or as many as a judge gets by default.

    Raises ModelError that says why it cannot judge, or cannot be read.
    """
    model, seen = model_check.glance(path)
    taken = memory.context_for(model, n_ctx)
    return ModelFacts(
        quantisation=_FILE_TYPES.get(seen.file_type) if seen.file_type is not None else None,
        trained_context=model.number("context_length"),
        chat_template=seen.chat_template,
        n_ctx=taken,
        memory_bytes=memory.needed(model, n_ctx=taken, n_ubatch=UBATCH).total,
    )
