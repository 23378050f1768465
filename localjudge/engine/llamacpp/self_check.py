"""Test a model once per machine, in a child process: does llama.cpp run it, and may it rewind?

    child process    load the model ─ prefix + a ─ rewind ─ prefix + b ─┐ the same logits?
                                      from scratch: prefix + b ─────────┘

A model that crashes llama.cpp ends only the child. If weights repacked for the processor crash it
(GCC 12 and AMX tiles), they are not repacked. If logits after a rewind are wrong, every request is
evaluated from scratch. Results are stored in the state directory.
"""

import hashlib
import json
import logging
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from localjudge import resources
from localjudge.engine import memory
from localjudge.engine.llamacpp.context import Encoder, KVCache, RewindMode
from localjudge.engine.llamacpp.model import open_model
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource, SampleError
from localjudge.local_models import measure_size
from localjudge.progress import Progress
from localjudge.types import Record
from localjudge.words import roughly

if sys.platform != "win32":
    import resource

TOLERANCE = 0.01
"""Largest difference of logits after a rewind, as a share of their range."""
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
_GIB = 1 << 30
# On two cores, 0.1, 0.5 and 1.0 GiB took 2, 4 and 10 s.
_START_SECONDS = 2
_SECONDS_A_GIB = 10
_TICK_SECONDS = 1.0
_log = logging.getLogger(__name__)


class SelfCheckInput(Record):
    """How the child process loads the model, with `flash_attention` as a classifier."""

    path: Path
    n_ctx: int
    gpu_layers: int
    threads: int
    repack: bool = True
    flash_attention: bool = False


class SelfCheckResult(Record):
    """How the engine may rewind to a shared prefix on this machine.

    `rewind_mode` is None for a classifier. `difference`: between logits before and after a
    rewind, or outputs evaluated twice, as a share of their range.
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


def find_self_check(
    model_sha256: str, wanted: SelfCheckInput, progress: Progress | None = None
) -> SelfCheckResult:
    """Return the self-check of this model on this machine, cached or run now.

    Raises ModelError or OutOfResource if the model cannot be used.
    """
    machine = [platform.machine(), platform.node(), processor_name()]
    key = {
        "model_sha256": model_sha256,
        "settings": wanted.model_dump(mode="json", exclude={"path", "threads", "repack"}),
        "build": [version("llama-cpp-python"), *machine],
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    file = resources.state_directory() / "self-checks" / f"{digest[:32]}.json"
    with suppress(OSError, ValidationError):
        return SelfCheckResult.model_validate_json(file.read_bytes())
    expected = _START_SECONDS + measure_size(wanted.path) / _GIB * _SECONDS_A_GIB
    text = f"first use of this model on this machine: a self-test, {roughly(expected)}"
    if progress is None:
        _log.info(text)
        result = _try_in_child(wanted, lambda: None)
    else:
        progress.note(text)
        began = time.monotonic()
        result = _try_in_child(
            wanted, lambda: progress.elapsed("self-test", time.monotonic() - began, expected)
        )
        progress.pause()
    resources.remember(file, result.model_dump_json())
    return result


def processor_name() -> str:
    """Return the model name of the processor, or "" if it is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""


def check_here(wanted: SelfCheckInput) -> SelfCheckResult:
    """Test the model in this process. Raises ModelError if it cannot judge."""
    if wanted.flash_attention:
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


def main() -> None:
    """Test a model in the child process: from a request on stdin to a reply on stdout."""
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
        [sys.executable, "-X", "utf8", "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
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
