"""Classifiers for tests: a random encoder with a classification head, and profiles for it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import random_model
from gguf import GGUFWriter

from localjudge.engine.llamacpp.classifier import LlamaCppClassifier
from localjudge.engine.protocol import EngineSettings
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Attribution, Span, Unit
from localjudge.model_registry import ModelFile
from localjudge.types import VerdictRequest
from tests.engine.conftest import ModelMaker

ENTAILMENT = ("contradiction", "entailment", "neutral")
SHAPE = random_model.Shape(context=512)
NLI_SHAPE = SHAPE._replace(outputs=ENTAILMENT)
_SHARE_IDS = "[20, 21, 22, 23]"


def make_classifier(make_model: ModelMaker, shape: random_model.Shape = SHAPE) -> ModelFile:
    return make_model("bert", shape=shape, vocabulary="unigrams")


def open_classifier(
    file: ModelFile, *, threads: int = 1, n_ctx: int | None = None
) -> LlamaCppClassifier:
    settings = EngineSettings(threads=threads, n_ctx=n_ctx)
    return LlamaCppClassifier(file, settings, begin_of_text=False)


def write_profile(
    folder: Path,
    *,
    outputs: Sequence[str] = ("supported",),
    answer: str = "",
    head: str = "",
    nearest: str = "",
    share: bool = True,
) -> Path:
    """Write a profile for attribution and relevance, with share tokens by default."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ", ".join(f'"{name}"' for name in outputs)
    share_line = f"share = {_SHARE_IDS}\n" if share else ""
    place = "{share}" if share else ""
    profile = 'description = "made up"\nchat = false\ninstructions = false\nbegin_of_text = false\n'
    profile += f"[head]\noutputs = [{names}]\n{share_line}{head}\n"
    if nearest:
        profile += f"[nearest]\n{nearest}\n"
    answer_line = f"answer = {answer}\n" if answer else ""
    attribution = (
        f'grammar = "attributed"\n{answer_line}[[node]]\ntext = "<s>{place}{{unit}}</s>"\n'
    )
    attribution += '[[node]]\nfor_each = "contexts"\ntext = "{context}"\n[[node]]\ntext = "</s>"\n'
    relevance = f'grammar = "relevant"\n{answer_line}'
    relevance += (
        f'[[node]]\ntext = "<s>{place}<mask>{{question}}</s>"\n[[node]]\ntext = "{{unit}}</s>"\n'
    )
    files = {
        "profile": profile,
        "attribution": attribution,
        "relevance_sentence": relevance,
        "relevance_chunk": relevance,
    }
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def write_adapter(path: Path, shape: random_model.Shape = SHAPE, rank: int = 2) -> Path:
    """Write a random adapter for the queries of the first layer."""
    rng = np.random.default_rng(3)
    writer = GGUFWriter(path, "bert")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    for part, size in (("a", (rank, shape.width)), ("b", (shape.width, rank))):
        values = rng.normal(size=size).astype(np.float16)
        writer.add_tensor(f"blk.0.attn_q.weight.lora_{part}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def register_adapter(home: Path, adapter: Path, model_sha256: str) -> str:
    """Register an adapter for a model, and return its sha256."""
    sha256 = hashlib.sha256(adapter.read_bytes()).hexdigest()
    row = f'[[adapter]]\nname = "made-up"\nfile = "{adapter}"\nmodel = "{model_sha256}"\n'
    row += f'sha256 = "{sha256}"\nsize = {adapter.stat().st_size}\n'
    (home / "registry.toml").write_text(row, encoding="utf-8")
    return sha256


def statement_requests(
    profile: Path, statements: Sequence[str], contexts: Sequence[str]
) -> list[VerdictRequest]:
    writer = PromptWriter(load_profile(str(profile)))
    units = [
        Unit(kind="statement", index=index, source="response", span=Span.whole(text))
        for index, text in enumerate(statements)
    ]
    return writer.requests([Attribution(unit=unit, contexts=tuple(contexts)) for unit in units])
