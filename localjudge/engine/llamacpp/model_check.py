"""Is this file a model that can judge? Decided from its header, before anything is loaded.

A judge reads a prompt from left to right and says which token comes next. Many GGUF files cannot do that: vocabularies,
adapters, projectors, models that turn a text into a vector, encoder-decoders. llama.cpp loads some of them without a
word, and what comes out then is not a verdict.
"""

from pathlib import Path
from typing import NamedTuple

from localjudge.engine.llamacpp import gguf_header
from localjudge.engine.llamacpp.gguf_header import Glance, Header
from localjudge.errors import ModelError
from localjudge.local_models.model_parts import parts, size_of

_TEXT_MODEL_HINT = "use a text-generation model (a chat or instruct model in GGUF format)"
_EMBEDS = "turns a text into a vector and cannot answer"
_DRAFTS = "only drafts tokens for another model"
_DIFFUSES = "writes all of an answer at once, by diffusion, and gives no next-token probabilities"
_SPEAKS = "is about sound, not text"

_CANNOT_JUDGE = {
    "bert": _EMBEDS,
    "modern-bert": _EMBEDS,
    "nomic-bert": _EMBEDS,
    "nomic-bert-moe": _EMBEDS,
    "neo-bert": _EMBEDS,
    "jina-bert-v2": _EMBEDS,
    "jina-bert-v3": _EMBEDS,
    "eurobert": _EMBEDS,
    "gemma-embedding": _EMBEDS,
    "llama-embed": _EMBEDS,
    "t5encoder": _EMBEDS,
    "t5": "is an encoder-decoder, which reads its prompt and writes its answer by different networks",
    "clip": "is the image part of another model",
    "eagle3": _DRAFTS,
    "dflash": _DRAFTS,
    "gemma4-assistant": _DRAFTS,
    "dream": _DIFFUSES,
    "llada": _DIFFUSES,
    "llada-moe": _DIFFUSES,
    "rnd1": _DIFFUSES,
    "wavtokenizer-dec": _SPEAKS,
    "qwen3tts": _SPEAKS,
    "pockettts": _SPEAKS,
}
_FILE_TYPES = {
    "adapter": "an adapter (LoRA): a small change to another model",
    "mmproj": "a projector: the image or sound part of another model",
    "imatrix": "an importance matrix: notes for quantising another model",
    "vocab": "a vocabulary",
}


class CheckedModel(NamedTuple):
    """A model's header, and the bytes of weights in all of its parts."""

    header: Header
    weight_bytes: int

    def number(self, key: str, default: int = 0) -> int:
        """Value of a key that llama.cpp names after the architecture."""
        return self.header.number(f"{self.header.text('general.architecture')}.{key}", default)


def check(path: Path) -> CheckedModel:
    """The header of a model that can judge. Raises ModelError that says why a file is none."""
    headers = [gguf_header.read(part) for part in parts(path)]
    first = headers[0]
    _check_parts(first, len(headers))
    _check_header(first, has_weights=any(header.tensors for header in headers))
    return CheckedModel(first, sum(header.weight_bytes for header in headers))


def glance(path: Path) -> tuple[CheckedModel, Glance]:
    """The same of a file that is not going to be opened now: quick, and no proof that it is whole.

    Raises ModelError that says why a file cannot judge, as far as its first bytes show it.
    """
    seen = gguf_header.glance(path)
    _check_header(seen.header, has_weights=seen.tensors > 0 or len(parts(path)) > 1)
    return CheckedModel(seen.header, size_of(path)), seen


def _check_header(header: Header, *, has_weights: bool) -> None:
    architecture = header.text("general.architecture")
    _check_is_model(header, architecture)
    if not has_weights:
        raise ModelError(f"{header.path} holds a vocabulary and no weights", hint=_TEXT_MODEL_HINT)
    _check_answers(header, architecture)
    _check_tokenizer(header)


def _check_is_model(header: Header, architecture: str) -> None:
    kind = header.text("general.type")
    if kind in _FILE_TYPES or "adapter.type" in header.keys:
        what = _FILE_TYPES.get(kind, _FILE_TYPES["adapter"])
        raise ModelError(
            f"{header.path} is not a model, but {what}",
            hint="merge an adapter into its base model first" if what == _FILE_TYPES["adapter"] else _TEXT_MODEL_HINT,
        )
    if not architecture:
        raise ModelError(f"{header.path} does not say which architecture it has", hint=_TEXT_MODEL_HINT)


def _check_parts(header: Header, present: int) -> None:
    """A model in several files is found by their names; a renamed part looks like a whole model that lacks tensors."""
    count = header.number("split.count", 1)
    if count > 1 and present == 1:
        raise ModelError(
            f"{header.path} is part {header.number('split.no') + 1} of a model in {count} files, but is not called so",
            hint=f"name the parts MODEL-00001-of-{count:05d}.gguf and so on, in one folder, and give the first",
        )
    if present > 1 and count != present:
        raise ModelError(
            f"{header.path} is named as the first of {present} parts, and says that there are {count}",
            hint="give the model's files the names that they were published under",
        )


def _check_answers(header: Header, architecture: str) -> None:
    if architecture in _CANNOT_JUDGE:
        raise ModelError(
            f"{header.path} cannot judge: a {architecture} model {_CANNOT_JUDGE[architecture]}", hint=_TEXT_MODEL_HINT
        )
    pools = header.number(f"{architecture}.pooling_type") > 0
    if pools or header.keys.get(f"{architecture}.attention.causal") is False:
        raise ModelError(
            f"{header.path} cannot judge: it is an embedding or ranking model, which {_EMBEDS}", hint=_TEXT_MODEL_HINT
        )


def _check_tokenizer(header: Header) -> None:
    if header.text("tokenizer.ggml.model") in ("", "none", "no_vocab"):
        raise ModelError(f"{header.path} holds no tokenizer", hint="use a complete conversion of the model")
