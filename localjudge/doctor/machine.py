"""What the judge would run on: packages, memory, the state folder, the processor, a GPU."""

import os
import platform
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from localjudge import resources
from localjudge.doctor.health_check import HealthCheck, failed, ok, warning
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import EngineBuild
from localjudge.errors import ModelError
from localjudge.judge import grammars
from localjudge.run.settings import RunSettings
from localjudge.text.quiet_import import import_spacy

_LIBRARIES = {
    **opening.ENGINE_LIBRARIES,
    grammars.COMPILER: grammars.COMPILER,
    "spacy": "spacy",
}
_ADVICE = "install localjudge again, in a fresh virtual environment, from the checkout or the wheel that it came from"


def packages() -> HealthCheck:
    """Versions of what verdicts rest on; failed where one is missing or cannot be imported."""
    found = {"python": platform.python_version(), "localjudge": version("localjudge")}
    problems, advice = [], _ADVICE
    for package, module in _LIBRARIES.items():
        try:
            found[package] = version(package)
            import_spacy() if package == "spacy" else import_module(module)
        except PackageNotFoundError:
            problems.append(f"{package} is not installed")
        except ModelError as error:
            problems.append(error.message)
            advice = error.hint or _ADVICE
        except (ImportError, OSError, RuntimeError) as error:  # a shared library that is missing or of another build
            problems.append(f"{package} {found[package]} cannot be imported: {error}")
    if problems:
        return failed("packages", "; ".join(problems), advice, **found)
    return ok("packages", ", ".join(f"{name} {number}" for name, number in found.items()), **found)


def surroundings() -> Iterator[HealthCheck]:
    """Memory and the state folder: what can be looked at without any library."""
    free = hardware.available_bytes()
    found = "the system does not tell how much is free" if free is None else f"{hardware.readable(free)} free"
    yield ok("memory", found, free_bytes=free)
    yield _state_folder()


def processing(settings: RunSettings, *, model_is_here: bool = True) -> Iterator[HealthCheck]:
    """Processor and GPU; the latter only if the model is run by this process. Needs the engine's library."""
    threads, processors = settings.engine.used_threads, os.cpu_count() or 1
    name = hardware.processor_name() or platform.machine()
    found = f"{name}, {processors} cores, {threads} used"
    if threads > processors:
        yield warning("processor", found, "more threads than cores only wait for each other: ask for fewer (--threads)")
    else:
        yield ok("processor", found, name=name, processors=processors, threads=threads)
    if model_is_here:
        yield gpu_check(opening.engine_build(), settings.gpu_layers)


def gpu_check(build: EngineBuild, layers: int | None) -> HealthCheck:
    """Whether llama.cpp can use a GPU; `layers` is how many were asked for, None for all."""
    library = f"{build.library} {build.version}"
    figures = {"offload": build.uses_gpu, "backends": build.gpu_backends}
    if build.uses_gpu:
        many = "all" if layers is None else f"{layers:,}"
        return ok("gpu", f"{library} has a GPU backend: {many} layers go there", **figures)
    no_effect = f"; --gpu-layers {layers} has no effect" if layers else ""
    if build.gpu_backends:
        names = ", ".join(build.gpu_backends)
        advice = "see whether its driver is installed, and whether this user, or this container, may open the device"
        found = f"{library} was built for {names}, which finds no GPU that it can use{no_effect}"
        return warning("gpu", found, advice, **figures)
    found = f"{library} was built for the processor alone{no_effect}"
    if layers:
        advice = (
            "build llama-cpp-python with a GPU backend (such as CMAKE_ARGS=-DGGML_CUDA=on), or leave out --gpu-layers"
        )
        return warning("gpu", found, advice, **figures)
    return ok("gpu", found, **figures)


def _state_folder() -> HealthCheck:
    folder = resources.state_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return warning(
            "state folder",
            f"{folder} cannot be written ({error.strerror}): checksums and self-checks are made again by each command",
            "let LOCALJUDGE_HOME name a folder of your own",
            path=str(folder),
        )
    return ok("state folder", f"{folder} can be written", path=str(folder))
