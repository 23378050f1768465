"""Model folders as other programs write them, with files of little more than a header."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

VARIABLES = ("OLLAMA_MODELS", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")
MODEL_LAYER = "application/vnd.ollama.image.model"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user without settings and with an empty state directory."""
    home = tmp_path / "user"
    home.mkdir()
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "state"))
    return home


def gguf(
    path: Path,
    architecture: str = "llama",
    *,
    template: bool = True,
    words: int = 32,
    **keys: Any,
) -> Path:
    """Write a file with the header of a text model and one tensor: it is listed, but not loaded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(4096)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_head_count(4)
    for name, value in keys.items():
        writer.add_string(name.replace("__", "."), value)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"w{number}" for number in range(words)])
    if template:
        writer.add_chat_template("{{ messages }}")
    writer.add_file_type(15)
    writer.add_tensor("token_embd.weight", np.zeros((4, 64), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return gguf(tmp_path / "model.gguf")


def pulled(store: Path, place: str, model: Path, **changes: Any) -> Path:
    """Store a model as Ollama does, with a blob and a manifest at `place`; return the manifest."""
    content = model.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    (store / "blobs").mkdir(parents=True, exist_ok=True)
    (store / "blobs" / f"sha256-{digest}").write_bytes(content)
    layers = [
        {"mediaType": MODEL_LAYER, "digest": f"sha256:{digest}", "size": len(content)} | changes,
        {
            "mediaType": "application/vnd.ollama.image.license",
            "digest": f"sha256:{'1' * 64}",
            "size": 5,
        },
    ]
    return manifest(store, place, {"schemaVersion": 2, "config": {}, "layers": layers})


def manifest(store: Path, place: str, content: object) -> Path:
    path = store / "manifests" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = json.dumps(content)
    path.write_text(content, encoding="utf-8")
    return path


def downloaded(
    cache: Path, repository: str, file: str, model: Path, commit: str = "a" * 40
) -> Path:
    """Store a file as the Hugging Face cache does: a link to a blob named by its sha256."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    content = model.read_bytes()
    blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(commit, encoding="utf-8")
    link = folder / "snapshots" / commit / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    return link


def models(entries: Iterable[Any]) -> dict[str, Path]:
    return {entry.source: entry.path for entry in entries if not hasattr(entry, "reason")}


def skipped(entries: Iterable[Any]) -> dict[str, str]:
    found = [entry for entry in entries if hasattr(entry, "reason")]
    return {entry.where.rpartition("/")[2]: entry.reason for entry in found}
