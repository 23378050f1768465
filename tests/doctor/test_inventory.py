import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import printed, refused

from localjudge import model_registry
from tests.local_models.conftest import downloaded, gguf, pulled, user

__all__ = ["user"]


def listed(*folders: Path) -> dict[str, dict[str, Any]]:
    models = json.loads(printed("models", *folders, "--json"))["models"]
    return {model["name"]: model for model in models}


def test_a_model_is_listed_with_its_header(user: Path, tmp_path: Path) -> None:
    model = gguf(tmp_path / "m" / "some.gguf")
    row = listed(tmp_path / "m")[str(model)]
    assert row["needed_bytes"] > row["size"] == model.stat().st_size
    expected = {
        "program": "folder",
        "quantisation": "Q4_K_M",
        "context": 4096,
        "chat_template": True,
        "fits": True,
        "cannot_judge": None,
        "sha256": None,
    }
    assert row | expected == row


def test_checksums_come_from_blob_names_or_the_cache(user: Path, tmp_path: Path) -> None:
    """No model file is read for its checksum."""
    model = gguf(tmp_path / "m" / "some.gguf")
    pulled(user / ".ollama" / "models", "registry.ollama.ai/library/qwen3/8b", model)
    downloaded(user / ".cache" / "huggingface" / "hub", "org/repo", "m-Q4_0.gguf", model)
    before = listed(tmp_path / "m")
    checksum = hashlib.sha256(model.read_bytes()).hexdigest()
    assert before["ollama:qwen3:8b"]["sha256"] == checksum
    assert before["hf:org/repo:Q4_0"]["sha256"] == checksum
    assert before[str(model)]["sha256"] is None
    assert model_registry.find(str(model)).sha256 == checksum
    assert listed(tmp_path / "m")[str(model)]["sha256"] == checksum


def test_a_model_larger_than_free_memory_does_not_fit(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gguf(tmp_path / "some.gguf")
    needed = listed(tmp_path)[str(model)]["needed_bytes"]
    for free, fits in ((needed, True), (needed - 1, False), (None, None)):
        monkeypatch.setattr("localjudge.engine.memory.available_bytes", lambda free=free: free)
        assert listed(tmp_path)[str(model)]["fits"] is fits


def test_a_shared_file_is_listed_once_and_two_tags_of_a_blob_twice(
    user: Path, tmp_path: Path
) -> None:
    model = gguf(tmp_path / "m" / "some.gguf")
    store = user / ".ollama" / "models"
    pulled(store, "registry.ollama.ai/library/qwen3/8b", model)
    pulled(store, "registry.ollama.ai/library/qwen3/latest", model)
    link = user / ".lmstudio" / "models" / "p" / "m" / "linked.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(next((store / "blobs").iterdir()))
    names = listed()
    assert {"ollama:qwen3:8b", "ollama:qwen3:latest"} <= set(names)
    assert not [name for name in names if name.startswith("lmstudio:")]


def test_a_bad_folder_is_refused(user: Path, tmp_path: Path) -> None:
    assert "nowhere is not a folder" in refused("models", tmp_path / "nowhere")
