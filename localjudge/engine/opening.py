"""Choose the engine for a model.

Model libraries take seconds to load, so they are imported on first use.
"""

from collections.abc import Mapping
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.protocol import EngineBuild, EngineSettings, InspectableEngine, ModelFacts
from localjudge.errors import ModelError, OutOfResource
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
    from localjudge.engine.llamacpp.gguf import require_gguf

    file = model_registry.locate(judge)
    if file is not None and file.is_file():
        require_gguf(file)
    return model_registry.find(judge)


def open_engine(
    model: ModelFile,
    settings: EngineSettings,
    *,
    begin_of_text: bool = True,
    progress: Progress | None = None,
) -> InspectableEngine:
    """Open the engine of a model. `begin_of_text` is from the prompt profile.

    Raises ModelError if the model cannot be run, OutOfResource if it does not fit into memory.
    """
    from localjudge.engine.llamacpp import gguf
    from localjudge.engine.llamacpp.classifier import LlamaCppClassifier
    from localjudge.engine.llamacpp.engine import LlamaCppEngine

    if gguf.read(model.path, words=False).is_classifier:
        return LlamaCppClassifier(model, settings, begin_of_text=begin_of_text, progress=progress)
    return LlamaCppEngine(model, settings, begin_of_text=begin_of_text, progress=progress)


def model_facts(path: Path, n_ctx: int | None = None) -> ModelFacts:
    from localjudge.engine.llamacpp.model_check import read_model_facts

    return read_model_facts(path, n_ctx)


def can_judge(path: Path) -> bool:
    from localjudge.engine.llamacpp.model_check import check

    try:
        check(path, words=False)
    except (ModelError, OutOfResource):
        return False
    return True


def engine_build() -> EngineBuild:
    from localjudge.engine.llamacpp.model import build

    return build()


def model_metadata(model: ModelFile) -> Mapping[str, str]:
    """Return the model's metadata by GGUF key, with the names of a classifier's outputs."""
    from localjudge.engine.llamacpp import gguf

    return gguf.read(model.path).metadata
