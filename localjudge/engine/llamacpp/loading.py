"""Load a GGUF model into llama.cpp, or explain why it cannot be used.

    header                can the model judge, is the file complete, does it fit into memory?
    child process         load the model ─ prefix + a ─ rewind ─ prefix + b ─┐ the same logits?
    (once per machine)                  from scratch: prefix + b ────────────┘
    this process          load the model; its bytes still have the recorded checksum

A model that crashes llama.cpp ends only the child. If weights repacked for the processor crash it
(GCC 12 and AMX tiles), they are not repacked. If logits after a rewind are wrong, every request is
evaluated from scratch.
"""

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from localjudge import model_registry, resources
from localjudge.engine import hardware
from localjudge.engine.llamacpp import gguf, memory, model_check
from localjudge.engine.llamacpp.encoder import Encoder
from localjudge.engine.llamacpp.kv_cache import KVCache, RewindMode
from localjudge.engine.llamacpp.model import OpenModel, llama_cpp, open_model, usable_threads
from localjudge.engine.protocol import EngineSettings, ModelShape
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource, SampleError
from localjudge.local_models import measure_size, parts
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.types import Record
from localjudge.words import option_name, roughly

if sys.platform != "win32":
    import resource

TOLERANCE = 0.01  # of logits after a rewind, as a share of their range

_PREFIX = (
    "The lighthouse on the northern cape was built in 1871 and raised by four metres in 1904. "
    "It burned paraffin until the cable reached the island; its last keeper left in the spring "
    "of 1987."
)
_FIRST = " It was never made higher."
_SECOND = " Since 1987 nobody has lived there, and the lamp is switched by radio."
# Exit statuses for instructions that the processor lacks.
_BUILD_CRASHES = (-signal.SIGILL, -signal.SIGSEGV, 0xC000001D, 0xC0000005)
_KILLED = -9
_ALL_LAYERS = -1
_GIB = 1 << 30
# On two cores, 0.1, 0.5 and 1.0 GiB took 2, 4 and 10 s.
_START_SECONDS = 2
_SECONDS_A_GIB = 10
_TICK_SECONDS = 1.0
_log = logging.getLogger(__name__)


class SelfCheckInput(Record):
    """How the child process loads the model."""

    path: Path
    n_ctx: int
    gpu_layers: int
    threads: int
    repack: bool = True


class SelfCheckResult(Record):
    """How the engine may rewind to a shared prefix on this machine.

    `rewind_mode` is None for a classifier. `difference` is that of logits after a rewind, or of
    outputs evaluated again, as a share of their range.
    """

    rewind_mode: RewindMode | None
    difference: float = Field(ge=0)
    repack: bool = True

    @property
    def verdict(self) -> str:
        if self.rewind_mode == "recompute":
            return "not forked"
        if self.difference == 0:
            return "bit-identical"
        return "within tolerance"


class LoadedModel(NamedTuple):
    """Open model with its self-check result, metadata, and the names of a classifier's outputs."""

    file: ModelFile
    model: OpenModel
    shape: ModelShape
    n_ctx: int
    memory_bytes: int
    gpu_layers: int
    threads: int
    self_check: SelfCheckResult
    metadata: Mapping[str, str]
    outputs: tuple[str, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """The part of an engine's identity that does not depend on the kind of model."""
        identity = {
            "model_sha256": self.file.sha256,
            "model_size": self.file.size,
            "llama_cpp_python": version("llama-cpp-python"),
            "llama_cpp": llama_cpp.llama_version().decode(),
            "system": llama_cpp.llama_print_system_info().decode().strip(),
            "n_ctx": self.n_ctx,
            "flash_attention": False,
            "gpu_layers": self.gpu_layers,
            "batching": "isolated",
            "architecture": self.metadata["general.architecture"],
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
    header = model_check.check(file.path)
    trained_context = header.size("context_length")
    n_ctx = memory.context_for(header, settings.n_ctx or file.n_ctx)
    if settings.n_ctx and settings.n_ctx > trained_context:
        _log.warning(
            f"{option_name('n_ctx')} {settings.n_ctx:,} exceeds the model's context: "
            f"{trained_context:,} tokens are used",
        )
    gpu_layers = _gpu_layers(settings)
    need = memory.needed(header, n_ctx=n_ctx)
    if not gpu_layers:  # the free memory of a GPU is unknown
        _require_memory(file.path, need, n_ctx)
    threads = usable_threads(settings.used_threads, gpu_layers)
    wanted = SelfCheckInput(path=file.path, n_ctx=n_ctx, gpu_layers=gpu_layers, threads=threads)
    try:
        self_check = self_check_of(file.sha256, wanted, progress)
        model = _open_as_hashed(
            file,
            gpu_layers=gpu_layers,
            repack=self_check.repack,
            classifies=header.is_classifier,
        )
    except OutOfResource as error:
        if gpu_layers:
            raise
        numbers = memory.needed_and_free(need, n_ctx)
        problem = f"{error.message}; the model needs {numbers}"
        raise OutOfResource(problem, hint=error.hint) from error
    outputs: tuple[str, ...] = ()
    if header.is_classifier:
        outputs = header.outputs
    return LoadedModel(
        file=file,
        model=model,
        shape=ModelShape(
            header.size("block_count"), header.size("embedding_length"), trained_context
        ),
        n_ctx=n_ctx,
        memory_bytes=need.total,
        gpu_layers=gpu_layers,
        threads=threads,
        self_check=self_check,
        metadata=header.metadata,
        outputs=outputs,
    )


def _gpu_layers(settings: EngineSettings) -> int:
    if not llama_cpp.llama_supports_gpu_offload():
        return 0
    if settings.gpu_layers is None:
        return _ALL_LAYERS
    return settings.gpu_layers


def _require_memory(path: Path, need: memory.MemoryNeed, n_ctx: int) -> None:
    free = hardware.available_bytes()
    if free is not None and need.total > free:
        numbers = memory.needed_and_free(need, n_ctx)
        problem = f"{path} does not fit into memory: it needs {numbers}"
        raise OutOfResource(problem, hint=memory.memory_hint())


def _open_as_hashed(
    file: ModelFile, *, gpu_layers: int, repack: bool, classifies: bool
) -> OpenModel:
    """Load the model. Raises ModelError if the file changed since its checksum was computed."""
    with ExitStack() as undo:
        try:
            state = _state(file.path)
            model = open_model(
                file.path, gpu_layers=gpu_layers, repack=repack, classifies=classifies
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


def self_check_of(
    model_sha256: str, wanted: SelfCheckInput, progress: Progress | None = None
) -> SelfCheckResult:
    """Return the self-check of this model on this machine, cached or run now.

    Raises the errors of `load`.
    """
    key = {
        "model_sha256": model_sha256,
        "settings": wanted.model_dump(mode="json", exclude={"path", "threads", "repack"}),
        "build": [version("llama-cpp-python"), *hardware.machine()],
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    file = resources.state_directory() / "self-checks" / f"{digest[:32]}.json"
    try:
        return SelfCheckResult.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        result = _try_with_progress(wanted, progress)
    resources.remember(file, result.model_dump_json())
    return result


def _try_with_progress(wanted: SelfCheckInput, progress: Progress | None) -> SelfCheckResult:
    expected = _START_SECONDS + measure_size(wanted.path) / _GIB * _SECONDS_A_GIB
    text = f"first use of this model on this machine: a self-test, {roughly(expected)}"
    if progress is None:
        _log.info(text)
        return _try_in_child(wanted, lambda: None)
    progress.note(text)
    began = time.monotonic()
    result = _try_in_child(
        wanted, lambda: progress.elapsed("self-test", time.monotonic() - began, expected)
    )
    progress.pause()
    return result


def _try_in_child(wanted: SelfCheckInput, on_tick: Callable[[], None]) -> SelfCheckResult:
    """Test in a child process. If it crashes, test without repacking."""
    done = _run_child(wanted, on_tick)
    if done.returncode in _BUILD_CRASHES:
        without_repacking = _run_child(wanted.model_copy(update={"repack": False}), on_tick)
        if without_repacking.returncode == 0:
            _log.warning(
                "llama.cpp fails on weights repacked for this processor, "
                "so it uses the slower original ones",
            )
            done = without_repacking
    if done.returncode:
        raise _child_error(wanted.path, done)
    reply: dict[str, Any] = json.loads(done.stdout)
    if "error" in reply and reply["out_of_resource"]:
        raise OutOfResource(reply["error"], hint=reply["hint"])
    if "error" in reply:
        raise ModelError(reply["error"], hint=reply["hint"])
    return SelfCheckResult.model_validate(reply)


def _run_child(
    wanted: SelfCheckInput, on_tick: Callable[[], None]
) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(filter(None, sys.path))
    request: str | None = wanted.model_dump_json()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONPATH": path},
    ) as child:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    output, errors = child.communicate(request, timeout=_TICK_SECONDS)
                    return subprocess.CompletedProcess(child.args, child.returncode, output, errors)
                request = None  # it is sent
                on_tick()
        except BaseException:
            child.kill()
            raise


def _child_error(path: Path, done: "subprocess.CompletedProcess[str]") -> LocaljudgeError:
    status = f"status {done.returncode}"
    if done.returncode < 0:
        status = signal.Signals(-done.returncode).name
    ending = f"the process that tested it ended with {status}"
    lines = done.stderr.strip().splitlines()
    if lines:
        ending += f" ({lines[-1].strip()})"
    if done.returncode == _KILLED or memory.is_out_of_memory(done.stderr):
        problem = f"{path} could not be tested for lack of memory: {ending}"
        return OutOfResource(problem, hint=memory.memory_hint())
    return ModelError(
        f"llama.cpp cannot use {path}: {ending}",
        hint="the file is damaged, or this llama.cpp does not support it or the processor: "
        "download it again, or rebuild llama-cpp-python (CMAKE_ARGS=-DGGML_NATIVE=OFF pip install "
        "--force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python)",
    )


def main() -> None:
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wanted = SelfCheckInput.model_validate_json(sys.stdin.read())
    try:
        reply = check_here(wanted).model_dump_json()
    except (ModelError, OutOfResource) as error:
        out_of_resource = isinstance(error, OutOfResource)
        reply = json.dumps(
            {"error": error.message, "hint": error.hint, "out_of_resource": out_of_resource}
        )
    sys.stdout.write(reply)


def check_here(wanted: SelfCheckInput) -> SelfCheckResult:
    """Test the model in this process. Raises ModelError if it cannot judge."""
    if gguf.read(wanted.path, words=False).is_classifier:
        return _check_classifier(wanted)
    model = open_model(
        wanted.path, gpu_layers=wanted.gpu_layers, repack=wanted.repack, check_tensors=True
    )
    with closing(model):
        texts = _texts(wanted, model.vocabulary)
        modes: tuple[RewindMode, ...] = ("cut", "checkpoint")
        for rewind_mode in modes:
            cache = KVCache(
                model.pointer,
                n_ctx=wanted.n_ctx,
                threads=wanted.threads,
                vocabulary_size=model.vocabulary.size,
                rewind_mode=rewind_mode,
            )
            with closing(cache):
                difference = _difference(cache, *texts)
            if difference <= TOLERANCE:
                return SelfCheckResult(
                    rewind_mode=rewind_mode, difference=difference, repack=wanted.repack
                )
    return SelfCheckResult(rewind_mode="recompute", difference=0, repack=wanted.repack)


def _check_classifier(wanted: SelfCheckInput) -> SelfCheckResult:
    model = open_model(
        wanted.path,
        gpu_layers=wanted.gpu_layers,
        repack=wanted.repack,
        check_tensors=True,
        classifies=True,
    )
    with closing(model):
        prefix, first, second = _texts(wanted, model.vocabulary)
        with closing(Encoder(model.pointer, n_ctx=wanted.n_ctx, threads=wanted.threads)) as encoder:
            expected = encoder.outputs([*prefix, *first])
            other = encoder.outputs([*prefix, *second])
            again = encoder.outputs([*prefix, *first])
    if not np.isfinite([expected, other, again]).all():
        raise ModelError(
            "the model gives invalid numbers for a plain sentence",
            hint="use another conversion of the model",
        )
    scale = max(float(np.abs([expected, other]).max()), float(np.finfo(np.float32).tiny))
    difference = float(np.abs(again - expected).max()) / scale
    if difference > TOLERANCE:
        raise ModelError(
            "the model gives another answer to a text after it read another one",
            hint="this build of llama-cpp-python is not usable with it: rebuild or update it",
        )
    return SelfCheckResult(rewind_mode=None, difference=difference, repack=wanted.repack)


def _texts(
    wanted: SelfCheckInput, vocabulary: Vocabulary
) -> tuple[list[int], list[int], list[int]]:
    try:
        prefix, first, second = map(vocabulary.user, (_PREFIX, _FIRST, _SECOND))
    except SampleError as error:
        raise ModelError(
            f"{wanted.path} has a damaged tokenizer: on a plain English sentence, {error}",
            hint="download the model again, or use another conversion of it",
        ) from error
    half = wanted.n_ctx // 2
    quarter = wanted.n_ctx // 4
    return prefix[:half], first[:quarter], second[:quarter]


def _difference(cache: KVCache, prefix: list[int], first: list[int], second: list[int]) -> float:
    """Return the largest difference between logits after a rewind and from scratch.

    It is a share of their range.
    """
    cache.evaluate(prefix, 0)
    expected: NDArray[np.float32] = cache.logits_after(second, len(prefix)).copy()
    if not np.isfinite(expected.max()):
        raise ModelError(
            "the model gives invalid numbers for a plain sentence",
            hint="use another conversion of the model",
        )
    cache.clear()
    cache.evaluate(prefix, 0)
    cache.checkpoint(len(prefix))
    cache.evaluate(first, len(prefix))
    if cache.rewind(len(prefix)) != len(prefix):
        return float("inf")
    shared = cache.logits_after(second, len(prefix))
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(shared)):
        return float("inf")
    apart = np.abs(shared[finite] - expected[finite]).max(initial=0)
    return float(apart / max(np.ptp(expected[finite]), np.finfo(np.float32).tiny))


if __name__ == "__main__":
    main()
