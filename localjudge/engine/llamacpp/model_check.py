"""Check from its header whether a model can judge, before llama.cpp opens the file.

llama.cpp loads some files that cannot predict the next token (adapters, embedding models), and
their output is meaningless.
"""

from pathlib import Path

from localjudge.engine.llamacpp.gguf import ENCODERS, Header, read
from localjudge.engine.llamacpp.memory import context_for, needed_bytes
from localjudge.engine.protocol import ModelFacts
from localjudge.errors import ModelError
from localjudge.local_models import parts
from localjudge.words import numbered

# Architectures of embedding models; of draft, diffusion, sound and image models, and
# encoder-decoders.
_CANNOT_JUDGE = {
    "gemma-embedding", "llama-embed", "t5encoder",
    "eagle3", "dflash", "gemma4-assistant", "dream", "llada", "llada-moe", "rnd1",
    "wavtokenizer-dec", "qwen3tts", "pockettts", "clip", "t5",
}  # fmt: skip
_FIRST_OF_HEAD = "cls.weight"
_LAST_OF_HEAD = "cls.output.weight"
# llama.cpp's names of quantisation mixtures (`llama_ftype`).
_FILE_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip


def check(path: Path, *, words: bool = True) -> Header:
    """Read the header of a model. Raises ModelError if it cannot judge."""
    headers = [read(part, words=words) for part in parts(path)]
    head_tensors: dict[str, int] = {}
    for header in headers:
        head_tensors |= header.head_tensors
    header = headers[0]._replace(
        tensor_count=sum(header.tensor_count for header in headers),
        weight_bytes=sum(header.weight_bytes for header in headers),
        head_tensors=head_tensors,
        finite_scores=all(header.finite_scores for header in headers),
    )
    problem = _find_file_problem(header, len(headers)) or _find_model_problem(header, words=words)
    if problem is not None:
        raise ModelError(
            f"{path} {problem}",
            hint="use a complete text-generation model (a chat or instruct model in GGUF format), "
            "or a classifier",
        )
    return header


def read_model_facts(path: Path, n_ctx: int | None) -> ModelFacts:
    model = check(path)
    n_ctx = context_for(model, n_ctx)
    return ModelFacts(
        quantisation=_FILE_TYPE_NAMES.get(model.number("general.file_type", -1)),
        layers=model.size("block_count"),
        width=model.size("embedding_length"),
        trained_context=model.size("context_length"),
        chat_template="tokenizer.chat_template" in model.keys,
        n_ctx=n_ctx,
        memory_bytes=needed_bytes(model, n_ctx),
        outputs=model.outputs,
    )


def _find_file_problem(header: Header, file_count: int) -> str | None:
    """Return why the files are not a whole model, or None."""
    kind = header.text("general.type")
    if kind == "adapter" or "adapter.type" in header.keys:
        return "is not a model, but an adapter: merge it into its base"
    if kind in ("mmproj", "imatrix", "vocab"):
        return f"is not a model, but of type {kind}"
    architecture = header.text("general.architecture")
    if not architecture:
        return "does not name its architecture"
    count = header.number("split.count", 1)
    if count != file_count:
        return f"has {count} parts by its header, but {file_count} by its name: restore the names"
    if not header.tensor_count:
        return "contains a vocabulary but no weights"
    return None


def _find_model_problem(header: Header, *, words: bool) -> str | None:
    """Return why a model cannot judge, or None."""
    architecture = header.text("general.architecture")
    is_causal = header.keys.get(f"{architecture}.attention.causal")
    if architecture in _CANNOT_JUDGE:
        return f"cannot judge: a {architecture} model does not write text word by word"
    if architecture in ENCODERS:
        if not header.is_classifier:
            return f"cannot judge: a {architecture} model without a classification head"
        if words:
            problem = _find_head_problem(header)
            if problem is not None:
                return problem
    elif header.size("pooling_type") > 0 or is_causal is False:
        return "cannot judge: it is an embedding or ranking model"
    if header.text("tokenizer.ggml.model") in ("", "none", "no_vocab"):
        return "contains no tokenizer"
    return None


def _find_head_problem(header: Header) -> str | None:
    """Return why a classifier's outputs cannot be read, or None.

    llama.cpp reads as many numbers as there are outputs, whatever the head's last tensor gives.
    """
    rows = header.head_tensors.get(_LAST_OF_HEAD)
    if rows is None:
        rows = header.head_tensors.get(_FIRST_OF_HEAD)  # a head of one tensor
    if rows is None:
        return "cannot judge: its classification head is missing"
    count = len(header.outputs)
    if rows != count:
        outputs = numbered(count, "output")
        return f"cannot judge: its classification head gives {rows:,} numbers for {outputs}"
    if not header.finite_scores:
        return "cannot judge: scores of its tokens are not finite numbers"
    return None
