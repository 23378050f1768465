"""Which engine runs a model, a file or one behind a server: no other module outside their folders names a concrete one.

What an engine rests on is imported when it is first needed: a model library takes seconds to load.
"""

from collections.abc import Mapping
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.protocol import Engine, EngineBuild, EngineSettings, ModelFacts, NamedModel, ReadableEngine
from localjudge.errors import InputError
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.words import option, option_name

ENGINE_LIBRARIES = {"llama-cpp-python": "localjudge.engine.llamacpp.model", "llguidance": "llguidance"}
"""The packages that models run on, each with the module whose import loads it."""


def names_a_server(judge: str) -> bool:
    """Whether a judge is named by the address of a server, and not by a name or a path."""
    return judge.lower().startswith(("http://", "https://"))


def is_in_place(judge: str) -> bool:
    """Whether there is a file where a judge's name says; nothing is read, and nobody is asked."""
    file = None if names_a_server(judge) else model_registry.place_of(judge)
    return names_a_server(judge) or (file is not None and file.is_file())


def may_be_elsewhere(judge: str) -> bool:
    """Whether a judge is named by an address that is not this machine's by what is written: nothing is looked up.

    Raises InputError for an address that cannot be used.
    """
    if not names_a_server(judge):
        return False
    from localjudge.engine.server.connection import is_loopback, read_address

    return not is_loopback(read_address(judge))


def find_model(judge: str, settings: EngineSettings) -> NamedModel:
    """The model that a judge is named by: a registered name, a path, another program's name, a server's address.

    Raises as `model_registry.find` and, of an address, `served_model` do; ModelError for a file that is no GGUF model,
    before the whole of it is read for its checksum.
    """
    if not names_a_server(judge):
        from localjudge.engine.llamacpp.gguf import require_gguf

        if (file := model_registry.place_of(judge)) is not None and file.is_file():
            require_gguf(file)
        return model_registry.find(judge)
    from localjudge.engine.server.kinds import served_model

    return served_model(judge, settings)


def open_judging_engine(
    model: NamedModel, settings: EngineSettings, *, begin_of_text: bool = True, progress: Progress | None = None
) -> Engine:
    """The engine that answers the questions of a run: that of the model, or workers of a cluster if one is named.

    Close it after use. Raises as `open_engine` does, and InputError for a cluster that is not there or cannot be asked.
    """
    if settings.ray is None:
        return open_engine(model, settings, begin_of_text=begin_of_text, progress=progress)
    if not isinstance(model, ModelFile):
        raise InputError(
            "workers of a Ray cluster open a model's file, and the judge is behind a server",
            hint=f"name the file with {option('judge')}, or leave out {option_name('ray')}",
        )
    from localjudge.engine.llamacpp.engine import VocabularyCounter, outline_of
    from localjudge.engine.ray_engine import InProcess, RayEngine

    in_process = InProcess(open_engine, outline_of, VocabularyCounter)
    return RayEngine(model, settings, in_process, begin_of_text=begin_of_text)


def open_engine(
    model: NamedModel, settings: EngineSettings, *, begin_of_text: bool = True, progress: Progress | None = None
) -> ReadableEngine:
    """The engine that runs a model. Close it after use. `begin_of_text` is that of the profile that it is asked by.

    Raises ModelError if it cannot run this one, OutOfResource if there is too little memory for it.
    """
    if isinstance(model, ModelFile):
        from localjudge.engine.llamacpp.engine import LlamaCppEngine

        return LlamaCppEngine(model, settings, begin_of_text=begin_of_text, progress=progress)
    from localjudge.engine.server.kinds import open_server
    from localjudge.engine.server.server_engine import ServedModel

    if not isinstance(model, ServedModel):
        raise TypeError(f"{model!r} is neither a file nor a server's")
    return open_server(model, settings, begin_of_text=begin_of_text)


def model_facts(path: Path, n_ctx: int | None = None) -> ModelFacts:
    """What the engine sees of a model's file without opening it. Raises ModelError that says why it cannot judge."""
    from localjudge.engine.llamacpp.gguf import facts_of

    return facts_of(path, n_ctx)


def engine_build() -> EngineBuild:
    """What models are run on. Raises ModelError if it cannot be loaded."""
    from localjudge.engine.llamacpp.model import build

    return build()


def who_it_is(model: NamedModel) -> Mapping[str, str]:
    """What a model says of itself, by keys of a file's header. Raises ModelError for a file that is damaged."""
    if not isinstance(model, ModelFile):
        from localjudge.engine.server.server_engine import ServedModel

        return model.metadata if isinstance(model, ServedModel) else {}
    from localjudge.engine.llamacpp import gguf
    from localjudge.engine.llamacpp.model import WHO_IT_IS

    header = gguf.read(model.path)
    return {key: header.text(key) for key in WHO_IT_IS}
