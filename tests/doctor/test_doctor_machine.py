"""What the doctor says of a machine that lacks something."""

from pathlib import Path

import pytest

from localjudge.doctor import machine
from localjudge.engine.protocol import EngineBuild
from localjudge.run.settings import RunSettings


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(machine._LIBRARIES, "no-such-package", "nothing")
    check = machine.packages()
    assert (check.status, check.found) == ("failed", "no-such-package is not installed")


def test_a_package_that_cannot_be_imported_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(machine._LIBRARIES, "llguidance", "no_such_module")
    assert "cannot be imported: No module named 'no_such_module'" in machine.packages().found


def test_a_state_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a file here: a folder without permission would stop everybody but root."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LOCALJUDGE_HOME", str(file))
    state = next(check for check in machine.surroundings() if check.name == "state folder")
    assert (state.status, state.advice) == ("warning", "let LOCALJUDGE_HOME name a folder of your own")


def test_more_threads_than_cores_are_a_warning() -> None:
    processor = next(check for check in machine.processing(RunSettings(threads=4096)) if check.name == "processor")
    assert processor.status == "warning"


def test_layers_for_a_gpu_that_the_build_does_not_know_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_cpp.llama_supports_gpu_offload", lambda: False)
    found = {check.name: check for check in machine.processing(RunSettings(gpu_layers=8))}
    assert "--gpu-layers 8 has no effect" in found["gpu"].found


def test_a_gpu_gets_all_layers_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_cpp.llama_supports_gpu_offload", lambda: True)
    found = {check.name: check for check in machine.processing(RunSettings())}
    assert found["gpu"].found.endswith("has a GPU backend: all layers go there")


@pytest.mark.parametrize(
    ("build", "layers", "status", "said"),
    [
        (EngineBuild("llama.cpp", "1.0", uses_gpu=False), None, "ok", "was built for the processor alone"),
        (
            EngineBuild("llama.cpp", "1.0", False, ("cuda",)),
            None,
            "warning",
            "cuda, which finds no GPU that it can use",
        ),
        (EngineBuild("llama.cpp", "1.0", uses_gpu=True), 12, "ok", "has a GPU backend: 12 layers go there"),
    ],
)
def test_a_build_says_whether_it_uses_a_gpu(build: EngineBuild, layers: int | None, status: str, said: str) -> None:
    check = machine.gpu_check(build, layers)
    assert (check.status, said in check.found) == (status, True)
