"""Which GPU a machine has, and how llama.cpp is built for it: so that none stands idle because nobody knew.

It is looked for where its driver shows itself, and nothing is asked of it. A processor's own graphics unit by Intel is
not named: nearly every computer has one, and it is hardly faster. One by AMD cannot be told from a card by these files,
so the advice says that it may be one.
"""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from localjudge.doctor.health_check import HealthCheck, ok, warning
from localjudge.engine.protocol import EngineBuild

_AMD = "0x1002"
"""AMD's number as a vendor of PCI devices (https://pci-ids.ucw.cz/read/PC/1002)."""
_LIBRARY = "llama-cpp-python"


class Gpu(NamedTuple):
    """A GPU's maker, the backend of llama.cpp that uses it, and what it is called by llama.cpp's build."""

    maker: str
    backend: str
    switch: str

    @property
    def how_to_build(self) -> str:
        """The command that builds the version of the bindings that is installed anew, with this backend.

        From source: a wheel out of pip's cache or of an index of the user's would have been built without it.
        """
        from_source = f"--no-cache-dir --no-binary {_LIBRARY}"
        anew = f"pip install --force-reinstall --no-deps {from_source} {_LIBRARY}=={version(_LIBRARY)}"
        return f"CMAKE_ARGS=-D{self.switch}=on {anew}"


_CUDA = Gpu("NVIDIA", "CUDA", "GGML_CUDA")
_HIP = Gpu("AMD", "HIP (ROCm)", "GGML_HIP")
_VULKAN = Gpu("AMD", "Vulkan", "GGML_VULKAN")
_METAL = Gpu("Apple", "Metal", "GGML_METAL")


def gpu_of_this_machine(root: Path = Path("/")) -> Gpu | None:
    """The first that is found, in the order of how well llama.cpp uses them; None if there is none that we know.

    `root` is where the system's files are.
    """
    if platform.system() == "Darwin":
        return _METAL if platform.machine() == "arm64" else None
    of_windows = root / "usr/lib/wsl/lib/libcuda.so.1"  # in WSL there is no /dev/nvidia0
    if of_windows.exists() or (root / "proc/driver/nvidia/version").exists() or any(root.glob("dev/nvidia[0-9]*")):
        return _CUDA
    computes = (root / "dev/kfd").exists()  # which the kernel's own driver makes, whether or not ROCm is installed
    if computes and any(any(root.glob(place)) for place in ("opt/rocm*", "usr/bin/hipcc")):
        return _HIP
    shows = any(map(_is_by_amd, root.glob("sys/class/drm/card*/device/vendor")))
    return _VULKAN if computes or shows else None


def gpu_check(build: EngineBuild, layers: int | None, gpu: Gpu | None) -> HealthCheck:
    """Whether the model goes to the GPU that there is; `layers` is how many were asked for, None for all."""
    library = f"{build.library} {build.version}"
    figures = {"offload": build.uses_gpu, "gpu": gpu.maker if gpu else None, "backends": build.gpu_backends}
    if build.uses_gpu and layers == 0:
        idle = f"idle: {library} has a GPU backend, and --gpu-layers 0 keeps the model on the processor"
        return warning("gpu", idle, "leave out --gpu-layers: all layers go to the GPU then", **figures)
    if build.uses_gpu:
        many = "all" if layers is None else f"{layers:,}"
        return ok("gpu", f"{library} has a GPU backend: {many} layers go there", **figures)
    if build.gpu_backends:
        names = ", ".join(build.gpu_backends)
        found = f"{library} was built for {names}, which finds no GPU that it can use{_no_effect(layers)}"
        advice = "see whether its driver is installed, and whether this user, or this container, may open the device"
        return warning("gpu", found, advice, **figures)
    alone = f"{library} was built for the processor alone"
    if gpu and layers == 0:
        chosen = f"a GPU by {gpu.maker} is here, and --gpu-layers 0 keeps the model on the processor"
        return ok("gpu", f"{chosen}; {alone}", **figures)
    if not gpu and not layers:
        return ok("gpu", f"none: {alone}", **figures)
    found = f"idle: a GPU by {gpu.maker} is here, and {alone}" if gpu else alone
    return warning("gpu", f"{found}{_no_effect(layers)}", _build_with(gpu), **figures)


def _no_effect(layers: int | None) -> str:
    return f"; --gpu-layers {layers} has no effect" if layers else ""


def _build_with(gpu: Gpu | None) -> str:
    if gpu is None:
        return f"build {_LIBRARY} with a GPU backend (such as CMAKE_ARGS=-DGGML_CUDA=on), or leave out --gpu-layers"
    part = "if it is not part of the processor, which often gains little, " if gpu.maker == "AMD" else ""
    return f"{part}build it with {gpu.backend}: {gpu.how_to_build}"


def _is_by_amd(vendor: Path) -> bool:
    try:
        return vendor.read_text(encoding="ascii", errors="replace").strip() == _AMD
    except OSError:
        return False
