import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import local_models as layouts
from tests.local_models.conftest import (
    MODEL_LAYER,
    downloaded,
    gguf,
    manifest,
    models,
    pulled,
    skipped,
)


def test_ollama_models_are_found_by_their_ollama_names(tmp_path: Path, model: Path) -> None:
    store = tmp_path / "models"
    pulled(store, "registry.ollama.ai/library/qwen3/8b", model)
    pulled(store, "registry.ollama.ai/someone/tuned/latest", model)
    pulled(store, "hf.co/org/repo-GGUF/Q4_K_M", model)
    entries = models(layouts.scan_folder("ollama", store))
    assert set(entries) == {
        "ollama:qwen3:8b",
        "ollama:someone/tuned:latest",
        "ollama:hf.co/org/repo-GGUF:Q4_K_M",
    }
    assert {path.read_bytes() for path in entries.values()} == {model.read_bytes()}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        *(
            (content, "is not a manifest")
            for content in ("not JSON", "null", '{"layers": [5]}', "[" * 100_000)
        ),
        ({"layers": [{"mediaType": MODEL_LAYER, "digest": 5}]}, "is not a manifest"),
        ('{"layers": []}', "names 0 GGUF files"),
        (
            {"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64}] * 2},
            "names 2 GGUF files",
        ),
        (
            {"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:../../etc/passwd"}]},
            "instead of one",
        ),
        ({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64}]}, "No such file"),
    ],
)
def test_a_manifest_that_names_no_model_is_skipped(
    tmp_path: Path, content: object, why: str
) -> None:
    manifest(tmp_path, "registry.ollama.ai/library/broken/1b", content)
    entries = list(layouts.scan_folder("ollama", tmp_path))
    assert models(entries) == {}
    assert why in skipped(entries)["ollama:broken:1b"]


def test_an_ollama_model_with_an_adapter_is_another_model(tmp_path: Path, model: Path) -> None:
    pulled(tmp_path, "registry.ollama.ai/library/base/1b", model)
    (digest,) = (path.name.replace("-", ":") for path in (tmp_path / "blobs").iterdir())
    kinds = (MODEL_LAYER, "application/vnd.ollama.image.adapter")
    layers = [{"mediaType": kind, "digest": digest} for kind in kinds]
    manifest(tmp_path, "registry.ollama.ai/library/tuned/1b", {"layers": layers})
    entries = list(layouts.scan_folder("ollama", tmp_path))
    assert set(models(entries)) == {"ollama:base:1b"}
    assert "adapter" in skipped(entries)["ollama:tuned:1b"]


def test_hub_models_are_named_by_repository_and_quantisation(tmp_path: Path, model: Path) -> None:
    for file in ("m-Q4_K_M.gguf", "m-UD-Q4_K_XL.gguf", "BF16/m-BF16.gguf", "mmproj-F16.gguf"):
        downloaded(tmp_path, "org/repo-GGUF", file, model)
    downloaded(tmp_path, "org/single", "weights.gguf", model)
    for file in ("small-Q4_0.gguf", "large-Q4_0.gguf"):
        downloaded(tmp_path, "org/two", file, model)
    downloaded(tmp_path, "org/no-gguf", "model.safetensors", model)
    assert set(models(layouts.scan_folder("hf", tmp_path))) == {
        *(
            f"hf:org/repo-GGUF{name}"
            for name in (":Q4_K_M", ":UD-Q4_K_XL", ":BF16", "/mmproj-F16.gguf")
        ),
        *("hf:org/single", "hf:org/two/small-Q4_0.gguf", "hf:org/two/large-Q4_0.gguf"),
    }


def test_the_newest_commit_of_a_repository_is_taken(tmp_path: Path, model: Path) -> None:
    other = gguf(tmp_path / "other.gguf", template=False)
    downloaded(tmp_path, "org/repo", "m-Q4_0.gguf", model, commit="f" * 40)
    downloaded(tmp_path, "org/repo", "m-Q8_0.gguf", model, commit="f" * 40)
    newest = downloaded(tmp_path, "org/repo", "m-Q4_0.gguf", other, commit="b" * 40)
    entries = models(layouts.scan_folder("hf", tmp_path))
    assert entries["hf:org/repo:Q4_0"] == newest
    assert "f" * 40 in str(entries["hf:org/repo:Q8_0"])


def test_split_models_are_listed_once_and_incomplete_ones_skipped(
    tmp_path: Path, model: Path
) -> None:
    for name in (
        "big-Q8_0-00001-of-00002.gguf",
        "big-Q8_0-00002-of-00002.gguf",
        "torn-00001-of-00002.gguf",
    ):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / name).write_bytes(model.read_bytes())
    entries = list(layouts.scan_folder("lmstudio", tmp_path / "x"))
    assert set(models(entries)) == {"lmstudio:big-Q8_0-00001-of-00002.gguf"}
    assert "torn-00002-of-00002.gguf" in skipped(entries)["torn-00001-of-00002.gguf"]


def test_broken_and_circular_links_are_skipped(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "here.gguf").symlink_to(model)
    (folder / "gone.gguf").symlink_to(tmp_path / "nowhere.gguf")
    (folder / "self.gguf").symlink_to(folder / "self.gguf")
    (folder / "again").symlink_to(folder)
    entries = list(layouts.scan_folder("folder", folder))
    assert set(models(entries)) == {"folder:here.gguf"}
    assert set(skipped(entries)) == {"gone.gguf", "self.gguf"}


def test_a_folder_that_cannot_be_read_is_skipped(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may read everything, so the refusal is simulated."""
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refuse(path: str | Path) -> object:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    entries = list(layouts.scan_folder("lmstudio", tmp_path))
    assert set(models(entries)) == {"lmstudio:model.gguf"}
    assert skipped(entries) == {"shut": "cannot be read: Permission denied"}


@pytest.mark.parametrize("program", ["ollama", "hf", "lmstudio", "folder"])
def test_a_missing_folder_or_a_file_has_no_models(program: str, model: Path) -> None:
    assert list(layouts.scan_folder(program, model.parent / "nothing")) == []
    assert models(layouts.scan_folder(program, model)) == {}


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("gemma-3-4b-it-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"),
        ("big-BF16-00001-of-00003.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("Q8_0/model.gguf", None),
        ("qwq-32b.gguf", None),
    ],
)
def test_quantisation_is_read_from_the_end_of_a_name(
    tmp_path: Path, model: Path, file: str, named: str | None
) -> None:
    repository = "owner/repository"
    for part in dict.fromkeys(file.replace("00001", f"{number:05}") for number in (1, 2, 3)):
        downloaded(tmp_path, repository, part, model)
    suffix = "" if named is None else f":{named}"
    assert set(models(layouts.scan_folder("hf", tmp_path))) == {f"hf:{repository}{suffix}"}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    content=st.binary(max_size=80)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr)
)
def test_any_ollama_manifest_is_listed_or_skipped(tmp_path: Path, content: bytes | str) -> None:
    path = manifest(tmp_path, "registry.ollama.ai/library/any/1b", "")
    if isinstance(content, str):
        content = content.encode(errors="replace")
    path.write_bytes(content)
    assert len(skipped(layouts.scan_folder("ollama", tmp_path))) == 1
