"""Choose the engine for a model.

Model libraries take seconds to load, so they are imported on first use.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from typing import Any, cast

from localjudge import model_registry
from localjudge.engine import gguf
from localjudge.engine.protocol import EngineSettings, InspectableEngine
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress

# Packages that run models, with the modules that load them.
ENGINE_LIBRARIES = {
    "llama-cpp-python": "localjudge.engine.llamacpp.model",
    "llguidance": "llguidance",
}


def find_model(judge: str) -> ModelFile:
    """Find a model by registered name, path, or another program's name.

    Raises ModelError, also if it is not GGUF.
    """
    file = model_registry.locate(judge)
    if file is not None and file.is_file():
        gguf.require_gguf(file)
    return model_registry.find(judge)


def open_engine(
    model: ModelFile,
    settings: EngineSettings,
    *,
    begin_of_text: bool = True,
    progress: Progress | None = None,
) -> InspectableEngine:
    """Open the engine of a model. `begin_of_text` is from the prompt profile.

    An engine of other machines needs their cluster (`cluster.joined`). Raises ModelError if the
    model cannot be run, OutOfResource if it does not fit into memory.
    """
    in_process = settings.model_copy(update={"ray": None})
    engine = _open_in_process(model, in_process, begin_of_text=begin_of_text, progress=progress)
    if settings.ray is None:
        return engine
    from localjudge.engine.ray_engine import RayEngine

    threads = settings.used_threads
    of_worker = in_process.model_copy(update={"threads": threads})
    open_alike = partial(
        _open_alike, model.source, of_worker, _identify(engine), begin_of_text=begin_of_text
    )
    elsewhere = RayEngine(engine, open_alike, threads, progress or Progress())
    return cast(InspectableEngine, elsewhere)


def _open_in_process(
    model: ModelFile,
    settings: EngineSettings,
    *,
    begin_of_text: bool,
    progress: Progress | None = None,
) -> InspectableEngine:
    from localjudge.engine.llamacpp.classifier import LlamaCppClassifier
    from localjudge.engine.llamacpp.engine import LlamaCppEngine

    if gguf.read(model.path, words=False).is_classifier:
        return LlamaCppClassifier(model, settings, begin_of_text=begin_of_text, progress=progress)
    return LlamaCppEngine(model, settings, begin_of_text=begin_of_text, progress=progress)


def _open_alike(
    source: str, settings: EngineSettings, expected: Mapping[str, Any], *, begin_of_text: bool
) -> InspectableEngine:
    """Open the engine of a model on another machine.

    Raises ModelError if the file or something else that can change an answer is not as expected.
    """
    model = find_model(source)
    if model.sha256 != expected["model_sha256"]:
        checksums = f"sha256 {model.sha256[:12]}, expected {expected['model_sha256'][:12]}"
        raise ModelError(f"{model.path} is another model ({checksums})")
    with ExitStack() as undo:
        engine = _open_in_process(model, settings, begin_of_text=begin_of_text)
        undo.callback(engine.close)
        actual = _identify(engine)
        different: list[str] = []
        for name in sorted({**expected, **actual}):
            if actual.get(name) != expected.get(name):
                different.append(f"{name} {actual.get(name)}, expected {expected.get(name)}")
        if different:
            raise ModelError(f"its answers can differ ({'; '.join(different)})")
        undo.pop_all()
    return engine


def _identify(engine: InspectableEngine) -> dict[str, Any]:
    """Return what must be equal on two machines for answers with equal bytes."""
    packages = {package: version(package) for package in ("localjudge", "numpy")}
    return {**engine.identity, **packages}


def engine_build() -> tuple[str, tuple[str, ...], bool]:
    """Return the engine's library with its version, its GPU backends, and whether it uses a GPU."""
    from localjudge.engine.llamacpp.model import build

    return build()
