"""Load a GGUF model into llama.cpp, or explain why it cannot be used.

header          can the model judge, is the file complete, does it fit into memory?
self-check      does llama.cpp run it on this machine? In a child process, once
this process    load the model; its bytes still have the recorded checksum
"""

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine import memory
from localjudge.engine.gguf import Header, read_model
from localjudge.engine.llamacpp.model import OpenModel, llama_cpp, open_model, usable_threads
from localjudge.engine.llamacpp.self_check import SelfCheckInput, SelfCheckResult, find_self_check
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import ModelError, OutOfResource
from localjudge.local_models import parts
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.resources import package_version
from localjudge.words import option_name

_ALL_LAYERS = -1
_log = logging.getLogger(__name__)


class LoadedModel(NamedTuple):
    """Model in memory, and how it is run."""

    file: ModelFile
    header: Header
    model: OpenModel
    n_ctx: int
    gpu_layers: int
    threads: int
    self_check: SelfCheckResult

    @property
    def memory_bytes(self) -> int:
        return memory.needed_bytes(self.header, self.n_ctx)

    @property
    def identity(self) -> dict[str, Any]:
        """The part of an engine's identity that does not depend on the kind of model."""
        identity = {
            "model_sha256": self.file.sha256,
            "model_size": self.file.size,
            "llama_cpp_python": package_version("llama-cpp-python"),
            "llama_cpp": llama_cpp.llama_version().decode(),
            "system": llama_cpp.llama_print_system_info().decode().strip(),
            "n_ctx": self.n_ctx,
            "flash_attention": self.header.is_classifier,
            "gpu_layers": self.gpu_layers,
            "batching": "isolated",
            "architecture": self.header.text("general.architecture"),
            "quantisation": self.model.quantisation,
            "self_check": self.self_check.verdict,
        }
        if not self.self_check.repack:
            identity["repack"] = False
        return identity

    def close(self) -> None:
        self.model.close()


def load(
    file: ModelFile, settings: EngineSettings, progress: Progress | None = None
) -> LoadedModel:
    """Check, test and load the model.

    Raises ModelError if it cannot be used, OutOfResource for too little memory.
    """
    header = read_model(file.path)
    trained_context = header.size("context_length")
    n_ctx = memory.context_for(header, settings.n_ctx or file.n_ctx)
    if settings.n_ctx and settings.n_ctx > trained_context:
        _log.warning(
            f"{option_name('n_ctx')} {settings.n_ctx:,} exceeds the model's context: "
            f"{trained_context:,} tokens are used",
        )
    gpu_layers = _gpu_layers(settings)
    if not gpu_layers:  # the free memory of a GPU is unknown
        _require_memory(file.path, header, n_ctx)
    threads = usable_threads(settings.used_threads, gpu_layers)
    wanted = SelfCheckInput(
        path=file.path,
        n_ctx=n_ctx,
        gpu_layers=gpu_layers,
        threads=threads,
        flash_attention=header.is_classifier,
    )
    try:
        self_check = find_self_check(file.sha256, wanted, progress)
        model = _open_as_hashed(file, header, gpu_layers=gpu_layers, repack=self_check.repack)
    except OutOfResource as error:
        if gpu_layers:
            raise
        numbers = memory.needed_and_free(header, n_ctx)
        problem = f"{error.message}; the model needs {numbers}"
        raise OutOfResource(problem, hint=error.hint) from error
    return LoadedModel(
        file=file,
        header=header,
        model=model,
        n_ctx=n_ctx,
        gpu_layers=gpu_layers,
        threads=threads,
        self_check=self_check,
    )


def _gpu_layers(settings: EngineSettings) -> int:
    if not llama_cpp.llama_supports_gpu_offload():
        return 0
    if settings.gpu_layers is None:
        return _ALL_LAYERS
    return settings.gpu_layers


def _require_memory(path: Path, header: Header, n_ctx: int) -> None:
    free = memory.available_bytes()
    if free is not None and memory.needed_bytes(header, n_ctx) > free:
        numbers = memory.needed_and_free(header, n_ctx)
        problem = f"{path} does not fit into memory: it needs {numbers}"
        raise OutOfResource(problem, hint=memory.memory_hint())


def _open_as_hashed(file: ModelFile, header: Header, *, gpu_layers: int, repack: bool) -> OpenModel:
    """Load the model. Raises ModelError if the file changed since its checksum was computed."""
    with ExitStack() as undo:
        try:
            state = _state(file.path)
            model = open_model(
                file.path,
                gpu_layers=gpu_layers,
                repack=repack,
                classifies=header.is_classifier,
            )
            undo.callback(model.close)
            unchanged = (
                _state(file.path) == state
                and model_registry.compute_sha256(file.path) == file.sha256
            )
        except OSError:
            unchanged = False
        if not unchanged:
            raise ModelError(
                f"{file.path} has changed since its checksum was computed",
                hint="run the same command again when the file is complete",
            )
        undo.pop_all()
    return model


def _state(path: Path) -> list[tuple[int, ...]]:
    """Return numbers of each file of the model that change when its content does."""
    states: list[tuple[int, ...]] = []
    for part in parts(path):
        state = part.stat()
        states.append(
            (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        )
    return states
