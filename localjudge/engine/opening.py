"""Which engine runs a model's file: no other module outside its folder names a concrete one.

What an engine rests on is imported when it is first needed: a model library takes seconds to load.
"""

from collections.abc import Sequence
from pathlib import Path

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.protocol import (
    ClosableCounter,
    Engine,
    EngineBuild,
    InspectableEngine,
    ModelFacts,
    ModelOutline,
)
from localjudge.errors import UsageError
from localjudge.model_registry import ModelFile
from localjudge.option_spelling import option

ENGINE_LIBRARIES = {"llama-cpp-python": "localjudge.engine.llamacpp.library", "llguidance": "llguidance"}
"""The packages that models run on, each with the module whose import loads it."""


def open_judging_engine(file: ModelFile, settings: EngineSettings, *, begin_of_text: bool | None = None) -> Engine:
    """The engine that answers the questions of a run: in this process, or in workers of a cluster if one is named.

    Close it after use. Raises as `open_engine` does, and UsageError if there is no such cluster.
    """
    if settings.ray is None:
        return open_engine(file, settings, begin_of_text=begin_of_text)
    from localjudge.engine.ray_cluster.ray_engine import InProcess, RayEngine

    in_process = InProcess(_engine_here, _outline_here, _counter_here)
    return RayEngine(file, settings, in_process, begin_of_text=begin_of_text)


def open_engine(file: ModelFile, settings: EngineSettings, *, begin_of_text: bool | None = None) -> InspectableEngine:
    """The engine that runs model files. Close it after use. `begin_of_text` is that of the profile that it is asked by.

    Raises ModelError if it cannot run this one, OutOfResource if there is too little memory for it.
    """
    from localjudge.engine.llamacpp.engine import LlamaCppEngine

    return LlamaCppEngine(file, settings, begin_of_text=begin_of_text)


def _engine_here(file: ModelFile, settings: EngineSettings, begin_of_text: bool | None) -> Engine:
    return open_engine(file, settings, begin_of_text=begin_of_text)


def _outline_here(file: ModelFile, settings: EngineSettings) -> ModelOutline:
    from localjudge.engine.llamacpp.outline import outline_of

    return outline_of(file, settings)


def _counter_here(file: ModelFile, settings: EngineSettings, begin_of_text: bool | None) -> ClosableCounter:
    from localjudge.engine.llamacpp.token_counter import VocabularyCounter

    return VocabularyCounter(file, settings, begin_of_text=begin_of_text)


def model_facts(path: Path, n_ctx: int | None = None) -> ModelFacts:
    """What the engine sees of a model's file without opening it. Raises ModelError that says why it cannot judge."""
    from localjudge.engine.llamacpp.model_facts import facts_of

    return facts_of(path, n_ctx)


def engine_build() -> EngineBuild:
    """What models are run on. Raises ModelError if it cannot be loaded."""
    from localjudge.engine.llamacpp import library

    return library.build()


def who_it_is(path: Path) -> dict[str, str]:
    """What a model's file says of itself, by keys of its header. Raises ModelError for a file that is damaged."""
    from localjudge.engine.llamacpp import gguf_header
    from localjudge.engine.llamacpp.model import WHO_IT_IS

    header = gguf_header.read(path)
    return {key: header.text(key) for key in WHO_IT_IS}


def require_room(files: Sequence[ModelFile], settings: EngineSettings) -> None:
    """Raise OutOfResource, with the numbers, if there is too little memory for all of these models at once.

    In a cluster each worker looks for itself, and Ray how many there are: raises UsageError where one of the models
    would take all that there is.
    """
    if settings.ray is None:
        from localjudge.engine.llamacpp import loading

        loading.require_room(files, settings)
    elif settings.ray_workers is None:
        raise UsageError(
            "each judge of a panel has workers of its own, and the first would take all that there is room for",
            hint=f"say how many each has: {option('ray_workers', 4)}",
        )
