"""What the judge would run on: packages, memory, the state folder, the processor, a GPU.

What the model's file is, whether it fits, and whether it is shown what we mean to show it.
"""

import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from localjudge import model_registry, resources
from localjudge.doctor.health_check import HealthCheck, failed, ok, warning
from localjudge.engine import hardware, opening
from localjudge.engine.hardware import readable
from localjudge.engine.protocol import Engine, EngineBuild, InspectableEngine, NamedModel, ReadableEngine
from localjudge.errors import ModelError, SampleError
from localjudge.judge import profile as grammars
from localjudge.judge.profile import PromptProfile
from localjudge.model_registry import ModelFile
from localjudge.run.settings import RunSettings
from localjudge.text.segmenter import import_spacy
from localjudge.types import ChatEnds, VerdictRequest

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


_DIGITS = 12
_GUESS = "(guessed) "  # llama.cpp writes it where a file does not name its quantisation
_MEBIBYTE = 1 << 20
_TIGHT = 0.9
"""A model that takes a larger share of the free memory leaves none for the data and for other programs."""
_SHORT_WINDOW = 1024
_SOFTWARE = ("server", "server_build")
"""What answers in place of an engine of this process, by the keys of its identity."""


def file_check(file: ModelFile) -> HealthCheck:
    """The file and its checksum. That a pinned file is what was pinned has been verified when it was found."""
    size = f"{file.path.name}, {file.size / _MEBIBYTE:,.1f} MiB"
    figures = {"path": str(file.path), "size": file.size, "sha256": file.sha256}
    if file.name in model_registry.registered():
        found = f"{size}, sha256 {file.sha256[:_DIGITS]} as pinned in the registry"
        return ok("model file", found, pinned=True, **figures)
    found = f"{size}, pinned nowhere: compare its sha256 with its publisher's: {file.sha256}"
    return ok("model file", found, pinned=False, **figures)


def served_check(model: NamedModel) -> HealthCheck:
    """The model behind the address of a server: its file, if that is at hand."""
    if model.sha256:
        found = f"behind {model.source}, its file on this machine: sha256 {model.sha256}"
        return ok("model file", found, source=model.source, sha256=model.sha256)
    return warning(
        "model file",
        f"behind {model.source}: its bytes are not proved, the server names no file that is on this machine",
        "start the server here, with the whole path of the file; else whoever runs it answers for what it is",
        source=model.source,
        sha256=None,
    )


def checks_of_server(engine: Engine) -> Iterator[HealthCheck]:
    """What a server says of itself in place of what can be looked at in this process."""
    is_ = engine.identity
    figures = {"n_ctx": engine.capacity, **{name: is_[name] for name in is_ if name in _SOFTWARE}}
    found = f"{is_['model']} of {' '.join(is_[name] for name in _SOFTWARE)}; window of {engine.capacity:,} tokens"
    if engine.capacity < _SHORT_WINDOW:
        yield warning("model", found, "long contexts are judged in many windows: start it with a larger one", **figures)
    else:
        yield ok("model", found, **figures)
    yield ok("model memory", "not looked at: it is the server's", needed_bytes=None)
    if engine.forks:
        yield ok("shared prompts", "the server goes back to a shared prompt, with the same bits each time")
    else:
        yield warning(
            "shared prompts",
            "the server does not go back to a shared prompt: every verdict costs a whole prompt",
            "verdicts are right but slow; the model's file itself may do better",
        )


def model_check(engine: InspectableEngine) -> HealthCheck:
    """Architecture, size and window of a model that was loaded."""
    is_ = engine.identity
    layers, width, trained = engine.shape
    found = (
        f"{is_['architecture']}, {is_['quantisation'].removeprefix(_GUESS)}, {layers} layers of width {width:,}; "
        f"window of {engine.capacity:,} tokens, of {trained:,} that it was trained for"
    )
    figures = {"n_ctx": engine.capacity, "trained_n_ctx": trained, "gpu_layers": is_["gpu_layers"], "layers": layers}
    if engine.capacity < min(_SHORT_WINDOW, trained):
        return warning("model", found, "long contexts are judged in many windows: ask for more (--n-ctx)", **figures)
    return ok("model", found, **figures)


def memory_check(engine: Engine, free: int | None) -> HealthCheck:
    """The estimate against what was free before the model was loaded. More than that has been refused by then."""
    need = engine.memory_bytes
    figures = {"needed_bytes": need, "free_bytes": free}
    takes = f"the model takes about {readable(need)} with its window"
    if engine.identity["gpu_layers"]:
        return ok("model memory", f"{takes}; not compared with the GPU's", **figures)
    if free is None:
        return ok("model memory", f"{takes}; the system does not tell how much is free", **figures)
    found = f"{takes}, of {readable(free)} free"
    if need > _TIGHT * free:
        return warning("model memory", found, "free some memory, or take a shorter window (--n-ctx)", **figures)
    return ok("model memory", found, **figures)


def fork_check(engine: Engine) -> HealthCheck:
    """What the engine's self-check found about returning to a shared prompt."""
    finding = engine.identity["self_check"]
    if not engine.forks:
        return warning(
            "shared prompts",
            "returning to a shared prompt gives other logits here: every verdict is evaluated from scratch",
            "verdicts are right but slow; another build of llama-cpp-python may do better",
            self_check=finding,
        )
    return ok("shared prompts", f"logits after a return to a shared prompt: {finding}", self_check=finding)


def template_check(profile: PromptProfile, ends: ChatEnds | None) -> HealthCheck:
    """How the prompt is put to the model. That a template can be rendered has been found out by then."""
    if not profile.chat:
        return ok("chat template", f"none is used: profile {profile.name!r}, {profile.description}", template=None)
    if ends is None:
        found = f"the model has none: asked by the profile {profile.name!r} as a base model, by plain text"
        return ok("chat template", found, template=None)
    if any(task.is_conversation for task in profile.tasks.values()):
        found = f"shows every part of the prompts of the profile {profile.name!r} once, in the profile's order"
        return ok("chat template", found, template=ends.sha256)
    found = f"holds the whole prompt of the profile {profile.name!r} once; no system message is sent"
    return ok("chat template", found, template=ends.sha256)


def read_back_check(engine: ReadableEngine, requests: Sequence[VerdictRequest]) -> HealthCheck:
    """Whether the tokens of every prompt decode to its exact text."""
    changed, refused, folded = 0, 0, 0
    for request in requests:
        try:
            read = engine.read_back(request)
        except SampleError:
            refused += 1
            continue
        text = "".join(piece.text for node in request.path for piece in node)
        folded += read is None
        changed += read is not None and read != text
    figures = {"prompts": len(requests), "changed": changed, "refused": refused, "folded": folded}
    if changed:
        found = f"the tokens of {changed:,} of {len(requests):,} prompts decode to another text"
        return failed("prompts", found, "use another conversion of the model: its tokenizer is damaged", **figures)
    if refused:
        found = f"{refused:,} of {len(requests):,} prompts cannot be shown to this model as they are"
        return warning("prompts", found, "samples with such text will fail: use another conversion", **figures)
    if folded:
        found = "this vocabulary folds case and accents, so its tokens cannot be compared with the text"
        return ok("prompts", found, **figures)
    return ok("prompts", f"the tokens of {len(requests):,} prompts decode to their exact text", **figures)
