"""Choose the engine for a model. Model libraries take seconds to load, so they are imported on first use."""

from collections.abc import Mapping
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.protocol import EngineBuild, EngineSettings, ModelFacts, NamedModel, ReadableEngine
from localjudge.errors import ModelError, OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress

# Packages that run models, with the modules that load them.
ENGINE_LIBRARIES = {"llama-cpp-python": "localjudge.engine.llamacpp.model", "llguidance": "llguidance"}


def names_a_server(judge: str) -> bool:
    return judge.lower().startswith(("http://", "https://"))


def may_be_elsewhere(judge: str) -> bool:
    """Return whether the address, as written, is another machine. Raises InputError for an invalid one."""
    if not names_a_server(judge):
        return False
    from localjudge.engine.server.connection import is_loopback, read_address

    return not is_loopback(read_address(judge))


def find_model(judge: str, settings: EngineSettings) -> NamedModel:
    """Find a model by registered name, path, another program's name, or server address.

    Raises ModelError, also for a file that is not GGUF, and the errors of `served_model`.
    """
    if not names_a_server(judge):
        from localjudge.engine.llamacpp.gguf import require_gguf

        if (file := model_registry.place_of(judge)) is not None and file.is_file():
            require_gguf(file)
        return model_registry.find(judge)
    from localjudge.engine.server.served_model import served_model

    return served_model(judge, settings)


def open_engine(
    model: NamedModel, settings: EngineSettings, *, begin_of_text: bool = True, progress: Progress | None = None
) -> ReadableEngine:
    """Open the engine of a model. `begin_of_text` is from the prompt profile.

    Raises ModelError if the model cannot be run, OutOfResource if it does not fit into memory.
    """
    if isinstance(model, ModelFile):
        from localjudge.engine.llamacpp.engine import LlamaCppEngine

        return LlamaCppEngine(model, settings, begin_of_text=begin_of_text, progress=progress)
    from localjudge.engine.server.served_model import ServedModel
    from localjudge.engine.server.server_engine import open_server

    if not isinstance(model, ServedModel):
        raise TypeError(f"{model!r} is neither a model file nor a served model")
    return open_server(model, settings, begin_of_text=begin_of_text)


def model_facts(path: Path, n_ctx: int | None = None) -> ModelFacts:
    from localjudge.engine.llamacpp.gguf import facts_of

    return facts_of(path, n_ctx)


def can_judge(path: Path) -> bool:
    from localjudge.engine.llamacpp.gguf import check

    try:
        check(path, words=False)
    except (ModelError, OutOfResource):
        return False
    return True


def engine_build() -> EngineBuild:
    from localjudge.engine.llamacpp.model import build

    return build()


def who_it_is(model: NamedModel) -> Mapping[str, str]:
    """Return the model's metadata by GGUF key."""
    if not isinstance(model, ModelFile):
        from localjudge.engine.server.served_model import ServedModel

        return model.metadata if isinstance(model, ServedModel) else {}
    from localjudge.engine.llamacpp import gguf
    from localjudge.engine.llamacpp.model import IDENTITY_KEYS

    header = gguf.read(model.path)
    return {key: header.text(key) for key in IDENTITY_KEYS}
