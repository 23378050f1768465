"""Results of checks, and the checks that ask no judge: packages, GPU, file, memory, prompts.

Imports no library that may be missing.
"""

import platform
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any, Literal

from pydantic import Field

from localjudge import model_registry
from localjudge.engine import opening
from localjudge.engine.gguf import Header
from localjudge.engine.protocol import Engine, InspectableEngine
from localjudge.errors import ModelError, SampleError
from localjudge.judge.profile import COMPILER
from localjudge.model_registry import ModelFile
from localjudge.text.segmenter import import_spacy
from localjudge.types import Record, VerdictRequest, readable

ADMISSION = "admission"
ANOTHER_JUDGE = "name a larger or better trained model (--judge)"
LABELS_INSTEAD = (
    "; or label statements of a run: labels correct the mean of any judge (localjudge label)"
)
Status = Literal["ok", "warning", "failed"]
_LIBRARIES = {**opening.ENGINE_LIBRARIES, COMPILER: COMPILER, "spacy": "spacy"}
"""Modules by package."""
_GUESSED = "(guessed) "
"""llama.cpp's prefix where a file does not name its quantisation."""
_MAX_MEMORY_SHARE = 0.9
"""Largest share of the free memory for a model, which leaves room for data and other programs."""
_SHORT_CONTEXT = 1024
"""Tokens below which most texts are judged in windows."""


class CheckResult(Record):
    """What a check found, with its numbers for programs.

    `judge` names one of several judges, or the jury that they are.
    """

    name: str
    status: Status
    finding: str
    advice: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict)
    judge: str = ""

    @property
    def title(self) -> str:
        """The name, after that of one of several judges."""
        if self.judge:
            return f"{self.judge}: {self.name}"
        return self.name


class Diagnosis(Record):
    """All results in order. `result` is the worst status, `not_made` lists skipped checks."""

    schema_version: int = 1
    judge: str
    result: Status
    checks: tuple[CheckResult, ...]
    not_made: tuple[str, ...] = ()


def ok(name: str, finding: str, /, **figures: Any) -> CheckResult:
    return CheckResult(name=name, status="ok", finding=finding, figures=figures)


def warning(name: str, finding: str, advice: str, /, **figures: Any) -> CheckResult:
    return CheckResult(name=name, status="warning", finding=finding, advice=advice, figures=figures)


def failed(name: str, finding: str, advice: str | None, /, **figures: Any) -> CheckResult:
    return CheckResult(name=name, status="failed", finding=finding, advice=advice, figures=figures)


def warn_if(
    is_problem: bool, name: str, finding: str, advice: str, /, **figures: Any
) -> CheckResult:
    """Return a warning with advice if there is a problem, else `ok`."""
    if is_problem:
        return warning(name, finding, advice, **figures)
    return ok(name, finding, **figures)


def check_packages() -> CheckResult:
    versions = {"python": platform.python_version(), "localjudge": version("localjudge")}
    problems = []
    for package, module in _LIBRARIES.items():
        try:
            versions[package] = version(package)
            if module == "spacy":
                import_spacy()
            else:
                import_module(module)
        except PackageNotFoundError:
            problems.append(f"{package} is not installed")
        except (ModelError, ImportError, OSError, RuntimeError) as error:
            # A library of the system is missing, or the package was built for another one.
            problems.append(f"{package} {versions[package]} cannot be imported: {error}")
    if problems:
        advice = "install localjudge again, in a fresh environment"
        return failed("packages", "; ".join(problems), advice, **versions)
    names = [f"{package} {number}" for package, number in versions.items()]
    return ok("packages", ", ".join(names), **versions)


def check_gpu(
    library: str, backends: Sequence[str], layers: int | None, *, uses_gpu: bool
) -> CheckResult:
    """Check whether the engine's `library` uses a GPU if its `backends` or the user expect it.

    `layers` is the requested number, None for all.
    """
    names = ", ".join(backends) or "the processor only"
    finding = f"{library} was built for {names}"
    advice = (
        "build llama-cpp-python with a GPU backend (such as CMAKE_ARGS=-DGGML_CUDA=on), "
        "or omit gpu_layers"
    )
    if backends and not uses_gpu:
        finding += ", but finds no usable GPU"
        advice = (
            "check that the driver is installed, and that this user or container may open "
            "the device"
        )
    if uses_gpu:
        number = "all"
        if layers is not None:
            number = f"{layers:,}"
        finding += f": {number} layers on the GPU"
    elif layers:
        finding += f"; gpu_layers = {layers} has no effect"
    is_expected = bool(backends or layers)
    return warn_if(
        is_expected and not uses_gpu,
        "gpu",
        finding,
        advice,
        offload=uses_gpu,
        backends=backends,
    )


def check_model(model: ModelFile, header: Header, engine: Engine) -> CheckResult:
    is_pinned = model.name in model_registry.registered()
    if is_pinned:
        proof = f"sha256 {model.sha256[:12]} as pinned in the registry"
    else:
        proof = f"not pinned; compare its sha256 with the publisher's: {model.sha256}"
    layers = header.size("block_count")
    width = header.size("embedding_length")
    trained = header.size("context_length")
    identity = engine.identity
    quantisation = identity["quantisation"].removeprefix(_GUESSED)
    finding = (
        f"{model.path.name}, {readable(model.size)}, {proof}; "
        f"{identity['architecture']}, {quantisation}, "
        f"{layers} layers of width {width:,}; "
        f"context of {engine.capacity:,} tokens, trained for {trained:,}"
    )
    return warn_if(
        engine.capacity < min(_SHORT_CONTEXT, trained),
        "model",
        finding,
        "long texts are judged in many windows: use a larger context (n_ctx)",
        path=str(model.path),
        size=model.size,
        sha256=model.sha256,
        pinned=is_pinned,
        n_ctx=engine.capacity,
        trained_n_ctx=trained,
        gpu_layers=identity["gpu_layers"],
        layers=layers,
    )


def check_memory(engine: Engine, free: int | None) -> CheckResult:
    """`free` is the memory before the model was opened, in bytes.

    Memory of a GPU is not compared.
    """
    needed = engine.memory_bytes
    finding = f"the model needs about {readable(needed)} with its context"
    is_tight = False
    if free is None or engine.identity["gpu_layers"]:
        finding += ", the free memory is unknown"
    else:
        finding += f", of {readable(free)} free"
        is_tight = needed > _MAX_MEMORY_SHARE * free
    return warn_if(
        is_tight,
        "memory",
        finding,
        "free some memory, or use a smaller context (n_ctx)",
        needed_bytes=needed,
        free_bytes=free,
    )


def check_prompts(engine: InspectableEngine, requests: Sequence[VerdictRequest]) -> CheckResult:
    """Check that each prompt's tokens decode to its text, unless the vocabulary folds case."""
    changed = 0
    refused = 0
    for request in requests:
        try:
            decoded = engine.read_back(request)
        except SampleError:
            refused += 1
            continue
        prompt = "".join(piece.text for piece in chain.from_iterable(request.path))
        if decoded is not None and decoded != prompt:
            changed += 1
    figures: dict[str, Any] = {"prompts": len(requests), "changed": changed, "refused": refused}
    if changed:
        finding = f"the tokens of {changed:,} of {len(requests):,} prompts decode to another text"
        advice = "use another conversion of the model: its tokenizer is damaged"
        return failed("prompts", finding, advice, **figures)
    exact = f"{len(requests) - refused:,} of {len(requests):,} prompts"
    finding = f"the tokens of {exact} decode to their exact text"
    if not refused:
        return ok("prompts", finding, **figures)
    advice = (
        "the other prompts cannot be shown to this model, and their samples will fail: "
        "use another conversion"
    )
    return warning("prompts", finding, advice, **figures)
