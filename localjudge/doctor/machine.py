"""What can be looked at without asking the judge: the machine, the model's file, whether it fits, what it is shown."""

import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from localjudge import model_registry, resources
from localjudge.doctor.health_check import HealthCheck, failed, ok, warning, warning_if
from localjudge.engine import hardware, opening
from localjudge.engine.hardware import readable
from localjudge.engine.protocol import Engine, EngineBuild, NamedModel, ReadableEngine, is_inspectable
from localjudge.errors import ModelError, SampleError
from localjudge.judge import profile as grammars
from localjudge.judge.profile import PromptProfile
from localjudge.model_registry import ModelFile
from localjudge.record.cache import cache_file
from localjudge.run.settings import RunSettings
from localjudge.text.segmenter import import_spacy
from localjudge.types import ChatEnds, VerdictRequest

_LIBRARIES = {**opening.ENGINE_LIBRARIES, grammars.COMPILER: grammars.COMPILER, "spacy": "spacy"}
_REINSTALL = (
    "install localjudge again, in a fresh virtual environment, from the checkout or the wheel that it came from"
)
_GUESS = "(guessed) "  # llama.cpp writes it where a file does not name its quantisation
_MEBIBYTE = 1 << 20
_TIGHT = 0.9
"""A model that takes a larger share of the free memory leaves none for the data and for other programs."""
_SHORT_WINDOW = 1024
_UNPROVED = ": its bytes are not proved, the server names no file that is on this machine"


def packages() -> HealthCheck:
    """Versions of what verdicts rest on; failed where one is missing or cannot be imported."""
    versions = {"python": platform.python_version(), "localjudge": version("localjudge")}
    problems, advice = [], _REINSTALL
    for package, module in _LIBRARIES.items():
        try:
            versions[package] = version(package)
            import_spacy() if package == "spacy" else import_module(module)
        except PackageNotFoundError:
            problems.append(f"{package} is not installed")
        except ModelError as error:
            problems.append(error.message)
            advice = error.hint or _REINSTALL
        except (ImportError, OSError, RuntimeError) as error:  # a shared library that is missing or of another build
            problems.append(f"{package} {versions[package]} cannot be imported: {error}")
    if problems:
        return failed("packages", "; ".join(problems), advice, **versions)
    return ok("packages", ", ".join(f"{name} {number}" for name, number in versions.items()), **versions)


def free_memory() -> HealthCheck:
    """Memory that is free, where the system tells."""
    free = hardware.available_bytes()
    finding = "the system does not say how much is free" if free is None else f"{readable(free)} free"
    return ok("memory", finding, free_bytes=free)


def state_folder() -> HealthCheck:
    """Whether checksums, self-checks and examinations can be remembered."""
    folder = resources.state_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        finding = f"{folder} cannot be written ({error.strerror}): checksums and self-checks are made by each command"
        return warning("state folder", finding, "let LOCALJUDGE_HOME name a folder of your own", path=str(folder))
    return ok("state folder", f"{folder} can be written", path=str(folder))


def answer_cache() -> HealthCheck:
    """Where the answers of all runs are kept."""
    file = cache_file()
    size = file.stat().st_size if file.exists() else 0
    finding = f"{readable(size)} in {file.parent} (delete it to clear the cache)"
    return ok("answer cache", finding, path=str(file.parent), bytes=size)


def processor(settings: RunSettings) -> HealthCheck:
    """Processor and threads. Needs the engine's library."""
    threads, processors = settings.engine.used_threads, os.cpu_count() or 1
    name = hardware.processor_name() or platform.machine()
    return warning_if(
        threads > processors,
        "processor",
        f"{name}, {processors} cores, {threads} used",
        "more threads than cores only wait for each other: ask for fewer (--threads)",
        name=name,
        processors=processors,
        threads=threads,
    )


def gpu_check(build: EngineBuild, layers: int | None) -> HealthCheck:
    """Whether llama.cpp can use a GPU; `layers` is how many were asked for, None for all."""
    library = f"{build.library} {build.version}"
    figures = {"offload": build.uses_gpu, "backends": build.gpu_backends}
    if build.uses_gpu:
        many = "all" if layers is None else f"{layers:,}"
        return ok("gpu", f"{library} has a GPU backend: {many} layers go there", **figures)
    no_effect = f"; gpu_layers = {layers} has no effect" if layers else ""
    if build.gpu_backends:
        names = ", ".join(build.gpu_backends)
        advice = "see whether its driver is installed, and whether this user, or this container, may open the device"
        finding = f"{library} was built for {names}, which finds no GPU that it can use{no_effect}"
        return warning("gpu", finding, advice, **figures)
    advice = "build llama-cpp-python with a GPU backend (such as CMAKE_ARGS=-DGGML_CUDA=on), or omit gpu_layers"
    return warning_if(bool(layers), "gpu", f"{library} was built for the processor alone{no_effect}", advice, **figures)


def file_check(model: NamedModel) -> HealthCheck:
    """The file and its checksum; that a pinned file is what was pinned has been verified when it was found.

    Of a model behind a server, its file if that is at hand.
    """
    if isinstance(model, ModelFile):
        size = f"{model.path.name}, {model.size / _MEBIBYTE:,.1f} MiB"
        pinned = model.name in model_registry.registered()
        proof = f"pinned nowhere: compare its sha256 with its publisher's: {model.sha256}"
        proof = f"sha256 {model.sha256[:12]} as pinned in the registry" if pinned else proof
        figures = {"path": str(model.path), "size": model.size, "sha256": model.sha256}
        return ok("model file", f"{size}, {proof}", pinned=pinned, **figures)
    return warning_if(
        not model.sha256,
        "model file",
        f"behind {model.source}{f', its file on this machine: sha256 {model.sha256}' if model.sha256 else _UNPROVED}",
        "start the server here, with the whole path of the file; else whoever runs it answers for what it is",
        source=model.source,
        sha256=model.sha256,
    )


def engine_checks(engine: ReadableEngine, free: int | None) -> Iterator[HealthCheck]:
    """Size, memory and shared prompts of an open engine; `free` bytes were free before it was opened."""
    is_ = engine.identity
    if is_inspectable(engine):
        layers, width, trained = engine.shape
        kind = f"{is_['architecture']}, {is_['quantisation'].removeprefix(_GUESS)}, {layers} layers of width {width:,}"
        window = f"window of {engine.capacity:,} tokens, of {trained:,} that it was trained for"
        figures = {"trained_n_ctx": trained, "gpu_layers": is_["gpu_layers"], "layers": layers}
        memory = memory_check(engine, free)
        how = f"logits after a return to a shared prompt: {is_['self_check']}"
    else:
        kind, trained = f"{is_['model']} of {is_['server']} {is_['server_build']}", _SHORT_WINDOW
        window = f"window of {engine.capacity:,} tokens"
        figures = {name: is_[name] for name in ("server", "server_build")}
        memory = ok("model memory", "not looked at: it is the server's", needed_bytes=None)
        how = "the server goes back to a shared prompt, with the same bits each time"
    short = engine.capacity < min(_SHORT_WINDOW, trained)
    advice = "long contexts are judged in many windows: ask for a larger one (n_ctx, or where the server is started)"
    yield warning_if(short, "model", f"{kind}; {window}", advice, n_ctx=engine.capacity, **figures)
    yield memory
    yield fork_check(engine, how)


def memory_check(engine: Engine, free: int | None) -> HealthCheck:
    """The estimate against what was free before the model was loaded. More than that has been refused by then."""
    need = engine.memory_bytes
    figures = {"needed_bytes": need, "free_bytes": free}
    takes = f"the model takes about {readable(need)} with its window"
    if engine.identity["gpu_layers"]:
        return ok("model memory", f"{takes}; not compared with the GPU's", **figures)
    if free is None:
        return ok("model memory", f"{takes}; the system does not say how much is free", **figures)
    advice = "free some memory, or take a shorter window (n_ctx)"
    return warning_if(need > _TIGHT * free, "model memory", f"{takes}, of {readable(free)} free", advice, **figures)


def fork_check(engine: Engine, how: str) -> HealthCheck:
    """What was found about returning to a shared prompt; `how`, where the engine does."""
    figures = {name: engine.identity[name] for name in ("self_check",) if name in engine.identity}
    if engine.shares_prefixes:
        return ok("shared prompts", how, **figures)
    finding = "a return to a shared prompt is not possible, or gives other logits: every verdict costs a whole prompt"
    advice = (
        "verdicts are right but slow; another build of llama-cpp-python, or the file in place of its server, may help"
    )
    return warning("shared prompts", finding, advice, **figures)


def template_check(profile: PromptProfile, ends: ChatEnds | None) -> HealthCheck:
    """How the prompt is put to the model. That a template can be rendered has been found out by then."""
    if not profile.chat:
        finding = f"none is used: profile {profile.name!r}, {profile.description}"
    elif ends is None:
        finding = f"the model has none: asked by the profile {profile.name!r} as a base model, by plain text"
    elif any(task.is_conversation for task in profile.tasks.values()):
        finding = f"shows every part of the prompts of the profile {profile.name!r} once, in the profile's order"
    else:
        finding = f"holds the whole prompt of the profile {profile.name!r} once; no system message is sent"
    return ok("chat template", finding, template=ends.sha256 if ends and profile.chat else None)


def read_back_check(engine: ReadableEngine, requests: Sequence[VerdictRequest]) -> HealthCheck:
    """Whether the tokens of every prompt decode to its exact text."""
    changed, refused, folded = 0, 0, 0
    for request in requests:
        try:
            read = engine.read_back(request)
        except SampleError:
            refused += 1
            continue
        folded += read is None
        changed += read is not None and read != "".join(piece.text for node in request.path for piece in node)
    figures = {"prompts": len(requests), "changed": changed, "refused": refused, "folded": folded}
    if changed:
        finding = f"the tokens of {changed:,} of {len(requests):,} prompts decode to another text"
        return failed("prompts", finding, "use another conversion of the model: its tokenizer is damaged", **figures)
    if refused:
        finding = f"{refused:,} of {len(requests):,} prompts cannot be shown to this model as they are"
        return warning("prompts", finding, "samples with such text will fail: use another conversion", **figures)
    finding = f"the tokens of {len(requests):,} prompts decode to their exact text"
    if folded:
        finding = "this vocabulary folds case and accents, so its tokens cannot be compared with the text"
    return ok("prompts", finding, **figures)
