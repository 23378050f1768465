"""What is found in the folders of other programs, and what is skipped: never an error."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import local_models as layouts
from localjudge.local_models import quantisation_in
from tests.local_models.conftest import MODEL_LAYER, downloaded, gguf, manifest, models, pulled, skipped


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return gguf(tmp_path / "model.gguf")


def test_ollama_s_models_are_found_by_the_names_that_ollama_gives_them(tmp_path: Path, model: Path) -> None:
    """Its own registry and library go without saying; another registry and another's namespace are said."""
    store = tmp_path / "models"
    pulled(store, "registry.ollama.ai/library/qwen3/8b", model)
    pulled(store, "registry.ollama.ai/someone/tuned/latest", model)
    pulled(store, "hf.co/org/repo-GGUF/Q4_K_M", model)
    found = models(layouts.models_in("ollama", store))
    assert set(found) == {"ollama:qwen3:8b", "ollama:someone/tuned:latest", "ollama:hf.co/org/repo-GGUF:Q4_K_M"}
    assert {path.read_bytes() for path in found.values()} == {model.read_bytes()}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("not JSON", "is not a manifest"),
        ("[]", "is not a manifest"),
        ("null", "is not a manifest"),
        ('{"layers": 5}', "is not a manifest"),
        ('{"layers": [5]}', "is not a manifest"),
        ({"layers": [{"mediaType": MODEL_LAYER}]}, "is not a manifest"),
        ({"layers": [{"mediaType": MODEL_LAYER, "digest": 5}]}, "is not a manifest"),
        ("[" * 100_000, "is not a manifest"),
        ('{"layers": []}', "names 0 GGUF files"),
        ({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64}] * 2}, "names 2 GGUF files"),
        ({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:../../etc/passwd"}]}, "can be used with one"),
        ({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64}]}, "No such file"),
    ],
)
def test_a_manifest_that_names_no_model_is_skipped(tmp_path: Path, content: object, why: str) -> None:
    manifest(tmp_path, "registry.ollama.ai/library/broken/1b", content)
    found = list(layouts.models_in("ollama", tmp_path))
    assert models(found) == {}
    assert why in skipped(found)["ollama:broken:1b"]


def test_a_manifest_that_is_a_folder_of_files_or_stands_elsewhere_is_skipped(tmp_path: Path, model: Path) -> None:
    pulled(tmp_path, "registry.ollama.ai/library/whole/1b", model)
    manifest(tmp_path, "registry.ollama.ai/.DS_Store", "x")
    manifest(tmp_path, "registry.ollama.ai/library/deep/1b/more", "x")
    found = list(layouts.models_in("ollama", tmp_path))
    assert set(models(found)) == {"ollama:whole:1b"}
    assert skipped(found) == dict.fromkeys((".DS_Store", "more"), "is not where Ollama keeps a manifest")


def test_a_blob_that_is_shorter_than_its_manifest_says_is_skipped(tmp_path: Path, model: Path) -> None:
    pulled(tmp_path, "registry.ollama.ai/library/short/1b", model, size=10**9)
    (why,) = skipped(layouts.models_in("ollama", tmp_path)).values()
    assert f"has {model.stat().st_size:,} bytes, and its manifest says 1,000,000,000" in why


def test_a_model_that_ollama_puts_an_adapter_into_is_another_model(tmp_path: Path, model: Path) -> None:
    pulled(tmp_path, "registry.ollama.ai/library/base/1b", model)
    (digest,) = (path.name.replace("-", ":") for path in (tmp_path / "blobs").iterdir())
    layers = [
        {"mediaType": MODEL_LAYER, "digest": digest},
        {"mediaType": "application/vnd.ollama.image.adapter", "digest": digest},
    ]
    manifest(tmp_path, "registry.ollama.ai/library/tuned/1b", {"layers": layers})
    found = list(layouts.models_in("ollama", tmp_path))
    assert set(models(found)) == {"ollama:base:1b"}
    assert "adapter" in skipped(found)["ollama:tuned:1b"]


def test_downloads_that_are_not_finished_are_said(tmp_path: Path, model: Path) -> None:
    """How Ollama, the hub's library, LM Studio, llama.cpp and GPT4All call them."""
    store, cache, folder = tmp_path / "ollama", tmp_path / "hub", tmp_path / "tree"
    pulled(store, "registry.ollama.ai/library/whole/1b", model)
    (store / "blobs" / f"sha256-{'2' * 64}-partial").write_bytes(b"GGUF")
    downloaded(cache, "org/repo", "a-Q4_K_M.gguf", model)
    (cache / "models--org--repo" / "blobs" / "3333.incomplete").write_bytes(b"GGUF")
    folder.mkdir()
    names = ("downloading_x.gguf.part", "x.gguf.downloadInProgress", "incomplete-x.gguf", "x.gguf.crdownload")
    for name in names:
        (folder / name).write_bytes(b"GGUF")
    found = [*layouts.models_in("ollama", store), *layouts.models_in("hf", cache), *layouts.models_in("jan", folder)]
    assert len(models(found)) == 2
    assert skipped(found) == dict.fromkeys(
        (f"sha256-{'2' * 64}-partial", "3333.incomplete", *names), "its download is not finished"
    )


def test_a_repository_of_the_hub_is_named_by_its_quantisations(tmp_path: Path, model: Path) -> None:
    """What stands beside a model and is none does not take its name."""
    for file in ("m-Q4_K_M.gguf", "m-UD-Q4_K_XL.gguf", "BF16/m-BF16.gguf", "mmproj-F16.gguf"):
        downloaded(tmp_path, "org/repo-GGUF", file, model)
    downloaded(tmp_path, "org/single", "weights.gguf", model)
    downloaded(tmp_path, "org/no-gguf", "model.safetensors", model)
    assert set(models(layouts.models_in("hf", tmp_path))) == {
        "hf:org/repo-GGUF:Q4_K_M",
        "hf:org/repo-GGUF:UD-Q4_K_XL",
        "hf:org/repo-GGUF:BF16",
        "hf:org/repo-GGUF/mmproj-F16.gguf",
        "hf:org/single",
    }


def test_the_newest_commit_of_a_repository_is_taken(tmp_path: Path, model: Path) -> None:
    """What only an older one has is found as well."""
    other = gguf(tmp_path / "other.gguf", template=False)
    downloaded(tmp_path, "org/repo", "m-Q4_0.gguf", model, commit="f" * 40)
    downloaded(tmp_path, "org/repo", "m-Q8_0.gguf", model, commit="f" * 40)
    newest = downloaded(tmp_path, "org/repo", "m-Q4_0.gguf", other, commit="b" * 40)
    found = models(layouts.models_in("hf", tmp_path))
    assert found["hf:org/repo:Q4_0"] == newest
    assert "f" * 40 in str(found["hf:org/repo:Q8_0"])


def test_two_files_of_one_quantisation_are_told_apart_by_name(tmp_path: Path, model: Path) -> None:
    for file in ("small-Q4_0.gguf", "large-Q4_0.gguf"):
        downloaded(tmp_path, "org/repo", file, model)
    assert set(models(layouts.models_in("hf", tmp_path))) == {
        "hf:org/repo/small-Q4_0.gguf",
        "hf:org/repo/large-Q4_0.gguf",
    }


def test_a_model_in_parts_is_found_once_and_a_part_without_the_others_is_skipped(tmp_path: Path, model: Path) -> None:
    for name in ("big-Q8_0-00001-of-00002.gguf", "big-Q8_0-00002-of-00002.gguf", "torn-00002-of-00002.gguf"):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / name).write_bytes(model.read_bytes())
    found = list(layouts.models_in("lmstudio", tmp_path / "x"))
    assert set(models(found)) == {"lmstudio:big-Q8_0-00001-of-00002.gguf"}
    assert "torn-00001-of-00002.gguf is not beside it" in skipped(found)["torn-00002-of-00002.gguf"]


def test_links_that_lead_nowhere_or_in_a_circle_are_skipped(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "here.gguf").symlink_to(model)
    (folder / "gone.gguf").symlink_to(tmp_path / "nowhere.gguf")
    (folder / "self.gguf").symlink_to(folder / "self.gguf")
    (folder / "again").symlink_to(folder)
    found = list(layouts.models_in("jan", folder))
    assert set(models(found)) == {"jan:here.gguf"}
    assert skipped(found) == dict.fromkeys(("gone.gguf", "self.gguf"), "is a link that leads nowhere")


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser may read all: the refusal is put in its place."""
    (tmp_path / "shut").mkdir()
    listed = os.listdir

    def listdir(path: str | Path) -> list[str]:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "listdir", listdir)
    found = list(layouts.models_in("jan", tmp_path))
    assert set(models(found)) == {"jan:model.gguf"}
    assert skipped(found) == {"shut": "cannot be read: Permission denied"}
    assert skipped(layouts.models_in("hf", tmp_path / "shut")) == {"shut": "cannot be read: Permission denied"}


@pytest.mark.parametrize("program", ["ollama", "hf", "lmstudio", "llamacpp", "folder"])
def test_a_folder_that_is_not_there_or_a_file_holds_nothing(program: str, model: Path) -> None:
    assert list(layouts.models_in(program, model.parent / "nothing")) == []
    assert models(layouts.models_in(program, model)) == {}


def test_the_cache_of_llamacpp_is_read_in_its_new_and_its_old_form(tmp_path: Path, model: Path) -> None:
    cache = tmp_path / "llama.cpp"
    downloaded(cache, "org/repo", "m-Q4_K_M.gguf", model)
    (cache / "org_old_m-Q8_0.gguf").write_bytes(model.read_bytes())
    assert set(models(layouts.models_in("llamacpp", cache))) == {
        "llamacpp:org/repo:Q4_K_M",
        "llamacpp:org_old_m-Q8_0.gguf",
    }


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("gemma-3-4b-it-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"),
        ("big-BF16-00001-of-00003.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("Q8_0/model.gguf", None),
        ("reference-judge.gguf", None),
        ("qwq-32b.gguf", None),
    ],
)
def test_a_quantisation_is_read_off_the_end_of_a_name(file: str, named: str | None) -> None:
    assert quantisation_in(file) == named


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=80), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr))
)
def test_any_manifest_is_a_model_or_skipped(tmp_path: Path, content: bytes | str) -> None:
    path = manifest(tmp_path, "registry.ollama.ai/library/any/1b", "")
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
    assert len(skipped(layouts.models_in("ollama", tmp_path))) == 1
