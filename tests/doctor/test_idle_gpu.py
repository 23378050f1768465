"""What the doctor says of a GPU that the model does not use, on made-up machines."""

import platform
from pathlib import Path

import pytest

from localjudge.doctor.idle_gpu import Gpu, gpu_check, gpu_of_this_machine
from localjudge.engine.protocol import EngineBuild

FOR_PROCESSORS = EngineBuild("llama.cpp", "1.0", uses_gpu=False)
WITHOUT_DRIVER = EngineBuild("llama.cpp", "1.0", uses_gpu=False, gpu_backends=("cuda",))
FOR_GPUS = EngineBuild("llama.cpp", "1.0", uses_gpu=True, gpu_backends=("cuda",))
NVIDIA = Gpu("NVIDIA", "CUDA", "GGML_CUDA")


def machine(root: Path, *files: str, vendor: str = "0x1002\n") -> Path:
    """A folder with these files; those of vendors name one."""
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(vendor if path.name == "vendor" else "", encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("file", "maker", "switch"),
    [
        ("dev/nvidia0", "NVIDIA", "GGML_CUDA"),
        ("dev/nvidia7", "NVIDIA", "GGML_CUDA"),  # a container that was given the eighth alone
        ("proc/driver/nvidia/version", "NVIDIA", "GGML_CUDA"),
        ("usr/lib/wsl/lib/libcuda.so.1", "NVIDIA", "GGML_CUDA"),
        ("dev/kfd", "AMD", "GGML_VULKAN"),  # which the kernel's driver makes, without ROCm too
        ("sys/class/drm/card1/device/vendor", "AMD", "GGML_VULKAN"),
    ],
)
def test_a_gpu_is_found_by_what_its_driver_shows(
    file: str, maker: str, switch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    gpu = gpu_of_this_machine(machine(tmp_path, file))
    assert gpu is not None
    assert (gpu.maker, gpu.switch) == (maker, switch)


@pytest.mark.parametrize("rocm", ["opt/rocm/bin/hipcc", "opt/rocm-6.4.1/lib/libamdhip64.so", "usr/bin/hipcc"])
def test_rocm_is_named_where_it_is_installed_for_a_gpu_that_it_can_use(
    rocm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    vendor = "sys/class/drm/card0/device/vendor"
    assert gpu_of_this_machine(machine(tmp_path / "none", rocm)) is None
    without = gpu_of_this_machine(machine(tmp_path / "without", rocm, vendor))
    assert (without and without.switch) == "GGML_VULKAN"
    able = gpu_of_this_machine(machine(tmp_path / "able", rocm, vendor, "dev/kfd"))
    assert (able and able.switch) == "GGML_HIP"


@pytest.mark.parametrize("files", [(), ("dev/null", "dev/nvidiactl-not"), ("sys/class/drm/card0/device/vendor",)])
def test_a_machine_without_one_has_none(
    files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by names that only begin so, nor the graphics unit of a processor by Intel, 0x8086."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert gpu_of_this_machine(machine(tmp_path, *files, vendor="0x8086\n")) is None


def test_a_vendor_that_is_a_folder_or_no_text_is_not_amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    (tmp_path / "sys/class/drm/card0/device/vendor").mkdir(parents=True)
    (machine(tmp_path, "sys/class/drm/card1/device/vendor") / "sys/class/drm/card1/device/vendor").write_bytes(b"\xff")
    assert gpu_of_this_machine(tmp_path) is None


@pytest.mark.parametrize(("processor", "backend"), [("arm64", "Metal"), ("x86_64", None)])
def test_apple_silicon_has_one(
    processor: str, backend: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: processor)
    gpu = gpu_of_this_machine(tmp_path)
    assert (gpu and gpu.backend) == backend


def test_a_gpu_that_the_build_cannot_use_gets_the_command_that_builds_it() -> None:
    check = gpu_check(FOR_PROCESSORS, None, NVIDIA)
    assert (check.status, check.figures["gpu"]) == ("warning", "NVIDIA")
    assert check.found == "idle: a GPU by NVIDIA is here, and llama.cpp 1.0 was built for the processor alone"
    assert check.advice is not None
    assert check.advice.startswith("build it with CUDA: CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall ")
    assert " --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==" in check.advice


def test_a_gpu_by_amd_may_be_part_of_the_processor() -> None:
    """Nearly every one of its processors for desks and laps has one; the files of the driver look the same."""
    check = gpu_check(FOR_PROCESSORS, None, Gpu("AMD", "Vulkan", "GGML_VULKAN"))
    assert "if it is not part of the processor, which often gains little, build it with Vulkan: " in str(check.advice)
    assert "part of the processor" not in str(gpu_check(FOR_PROCESSORS, None, NVIDIA).advice)


def test_a_gpu_that_the_user_left_out_is_not_called_idle_in_a_build_that_could_not_use_it() -> None:
    check = gpu_check(FOR_PROCESSORS, 0, NVIDIA)
    assert (check.status, check.advice) == ("ok", None)
    assert check.found == (
        "a GPU by NVIDIA is here, and --gpu-layers 0 keeps the model on the processor; "
        "llama.cpp 1.0 was built for the processor alone"
    )


def test_layers_that_were_asked_for_are_told_to_have_no_effect() -> None:
    assert gpu_check(FOR_PROCESSORS, 8, NVIDIA).found.endswith("; --gpu-layers 8 has no effect")


def test_a_gpu_that_is_kept_idle_is_told_of() -> None:
    check = gpu_check(FOR_GPUS, 0, NVIDIA)
    assert (check.status, check.advice) == ("warning", "leave out --gpu-layers: all layers go to the GPU then")


@pytest.mark.parametrize("gpu", [NVIDIA, None])
def test_a_build_for_gpus_that_finds_none_is_not_built_again(gpu: Gpu | None) -> None:
    """The backend is there: it is the driver or the device that is not."""
    check = gpu_check(WITHOUT_DRIVER, None, gpu)
    assert check.status == "warning"
    assert check.found == "llama.cpp 1.0 was built for cuda, which finds no GPU that it can use"
    assert "driver" in str(check.advice)
    assert "pip install" not in str(check.advice)


@pytest.mark.parametrize(("layers", "told"), [(None, "all layers"), (12, "12 layers")])
def test_a_gpu_that_is_used_is_well(layers: int | None, told: str) -> None:
    check = gpu_check(FOR_GPUS, layers, NVIDIA)
    assert (check.status, check.found) == ("ok", f"llama.cpp 1.0 has a GPU backend: {told} go there")


@pytest.mark.parametrize("layers", [None, 0])
def test_no_gpu_and_none_asked_for_is_well(layers: int | None) -> None:
    check = gpu_check(FOR_PROCESSORS, layers, None)
    assert (check.status, check.found) == ("ok", "none: llama.cpp 1.0 was built for the processor alone")
