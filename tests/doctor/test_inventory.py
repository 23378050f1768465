from pathlib import Path

import pytest

from localjudge import InputError
from localjudge.doctor.inventory import ListedModel, inventory
from localjudge.model_registry import compute_sha256
from tests.local_models.conftest import downloaded, gguf, pulled, user

__all__ = ["user"]


def listed(*folders: Path) -> dict[str, ListedModel]:
    return {model.name: model for model in inventory(folders).models}


def test_a_model_is_listed_with_its_header(user: Path, tmp_path: Path) -> None:
    model = gguf(tmp_path / "m" / "some.gguf")
    row = listed(tmp_path / "m")[str(model)]
    assert (row.program, row.size, row.quantisation, row.context) == (
        "folder",
        model.stat().st_size,
        "Q4_K_M",
        4096,
    )
    assert (row.chat_template, row.fits, row.cannot_judge, row.sha256) == (True, True, None, None)
    assert (row.needed_bytes or 0) > row.size


def test_checksums_come_from_blob_names_or_the_cache(user: Path, tmp_path: Path) -> None:
    """No model file is read for its checksum."""
    model = gguf(tmp_path / "m" / "some.gguf")
    pulled(user / ".ollama" / "models", "registry.ollama.ai/library/qwen3/8b", model)
    downloaded(user / ".cache" / "huggingface" / "hub", "org/repo", "m-Q4_0.gguf", model)
    before = listed(tmp_path / "m")
    checksum = compute_sha256(model)
    assert before["ollama:qwen3:8b"].sha256 == checksum
    assert before["hf:org/repo:Q4_0"].sha256 == checksum
    assert before[str(model)].sha256 is None
    assert listed(tmp_path / "m")[str(model)].sha256 == checksum


def test_a_model_larger_than_free_memory_does_not_fit(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gguf(tmp_path / "some.gguf")
    needed = listed(tmp_path)[str(model)].needed_bytes
    for free, fits in ((needed, True), ((needed or 0) - 1, False), (None, None)):
        monkeypatch.setattr("localjudge.engine.hardware.available_bytes", lambda free=free: free)
        assert listed(tmp_path)[str(model)].fits is fits


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
    with pytest.raises(InputError, match="is not a folder"):
        inventory([tmp_path / "nowhere"])
