"""Loads a GGUF model into llama.cpp, or says why it cannot be used.

the file's header      is it a model that can judge, is it whole, does it fit into memory?
a process of its own   does llama.cpp survive it, and are logits behind a way back right?     once per machine
this process           the model

Invariant: the weights in memory are the bytes whose checksum the run records.
"""

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp import memory, model_check
from localjudge.engine.llamacpp.library import llama_cpp
from localjudge.engine.llamacpp.memory import UBATCH
from localjudge.engine.llamacpp.model import OpenModel, open_model
from localjudge.engine.llamacpp.self_check import SelfCheckInput, SelfCheckResult, self_check_of
from localjudge.engine.protocol import ModelShape
from localjudge.errors import ModelError, OutOfResource
from localjudge.local_models.model_parts import parts
from localjudge.model_registry import ModelFile
from localjudge.option_spelling import option_name

_ALL_LAYERS = -1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedModel:
    """An open model with the context that it gets, and what its self-check found."""

    model: OpenModel
    shape: ModelShape
    n_ctx: int
    memory_bytes: int
    gpu_layers: int
    self_check: SelfCheckResult

    def close(self) -> None:
        """Free the memory."""
        self.model.close()


def load(file: ModelFile, settings: EngineSettings) -> LoadedModel:
    """Check, try and load the model. Raises ModelError if it cannot be used, OutOfResource for too little memory."""
    checked = model_check.check(file.path)
    most = checked.number("context_length")
    n_ctx = memory.context_for(checked, settings.n_ctx or file.n_ctx)
    if settings.n_ctx and settings.n_ctx > most:
        _log.warning(
            f"{option_name('n_ctx')} {settings.n_ctx:,} is more than the model has: its context of {most:,} tokens is "
            "used"
        )
    gpu_layers = used_gpu_layers(settings)
    need = memory.needed(checked, n_ctx=n_ctx, n_ubatch=UBATCH)
    if not gpu_layers:
        memory.require(checked, need, n_ctx=n_ctx)
    wanted = SelfCheckInput(path=file.path, n_ctx=n_ctx, gpu_layers=gpu_layers, threads=settings.used_threads)
    try:
        self_check = self_check_of(file.sha256, wanted)
        opened = _opened_as_hashed(file, gpu_layers=gpu_layers, repack=self_check.repack)
    except OutOfResource as error:
        if gpu_layers:  # what is free there is not known
            raise
        raise OutOfResource(
            f"{error.message}; the model needs {memory.beside_free(need, n_ctx)}", hint=error.hint
        ) from error
    shape = ModelShape(
        layers=checked.number("block_count"), width=checked.number("embedding_length"), trained_context=most
    )
    return LoadedModel(
        opened, shape, n_ctx=n_ctx, memory_bytes=need.total, gpu_layers=gpu_layers, self_check=self_check
    )


def _opened_as_hashed(file: ModelFile, *, gpu_layers: int, repack: bool) -> OpenModel:
    """The model, read from the bytes that its checksum is of. Raises ModelError if they changed before or meanwhile."""
    with ExitStack() as undo:
        try:
            before = _state(file.path)
            opened = open_model(file.path, gpu_layers=gpu_layers, repack=repack)
            undo.callback(opened.close)
            unchanged = _state(file.path) == before and model_registry.sha256_of(file.path) == file.sha256
        except OSError:
            unchanged = False
        if not unchanged:
            raise ModelError(
                f"{file.path} was changed since its checksum was taken",
                hint="once nothing writes to it any more, run the same command again",
            )
        undo.pop_all()
    return opened


def _state(path: Path) -> list[tuple[int, ...]]:
    """What changes when a file is written or replaced, for each part of the model."""
    facts = [part.stat() for part in parts(path)]
    return [(fact.st_dev, fact.st_ino, fact.st_size, fact.st_mtime_ns, fact.st_ctime_ns) for fact in facts]


def used_gpu_layers(settings: EngineSettings) -> int:
    """All layers, or as many as were asked for, if the build has a GPU backend; none if it has not."""
    if not llama_cpp.llama_supports_gpu_offload():
        return 0
    return _ALL_LAYERS if settings.gpu_layers is None else settings.gpu_layers
