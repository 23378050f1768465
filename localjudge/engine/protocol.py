"""Interface between engines and the rest of the project: requests in, answers out.

    engine.answers([request, ...]) -> (index, Answer | NoAnswer), ...      in any order

An answer is a pure function of `engine.identity` and its own request, so it may be stored and reused under both keys.
Run `check_engine` (tests/engine/contract.py) on a new engine before using it.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeGuard, get_args, runtime_checkable

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from localjudge.types import Answer, ChatEnds, NoAnswer, Record, VerdictRequest
from localjudge.words import Setting

_NOT_A_NUMBER: dict[type, Literal["int_type", "float_type", "bool_type"]] = {
    int: "int_type",
    float: "float_type",
    bool: "bool_type",
}


class EngineSettings(Record):
    """Engine options. Those above `threads` can change numbers and belong to the engine's identity; the others do not.

    The others are not stored in a run, except the host of a judge's server on another machine.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    n_ctx: Annotated[int | None, Setting(calibration=True, doctor=True)] = Field(default=None, ge=64)
    """Tokens of context. Default: the model's limit, at most 8,192; it never depends on the data."""
    gpu_layers: Annotated[int | None, Setting(calibration=True, doctor=True)] = Field(default=None, ge=0)
    """Layers to put on a GPU. Default: all of them, if the build has a GPU backend."""
    threads: Annotated[int | None, Setting("Judge", place=True, rescorable=True, calibration=True, doctor=True)] = (
        Field(default=None, ge=1)
    )
    """Processor threads. Default: all available CPUs. Does not affect results."""
    allow_host: Annotated[
        tuple[str, ...],
        Setting("Judge", metavar="HOST", names="address", place=True, rescorable=True, calibration=True, doctor=True),
    ] = Field(default=(), exclude=True)
    """Send texts to a judge's server on this host, which is not this machine (may be repeated)."""

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, field: ValidationInfo) -> object:
        """Refuse digits as text, truth values, and 1.0 for a whole number."""
        kind = cls.model_fields[str(field.field_name)].annotation
        kinds = {kind, *get_args(kind)}
        for number, error in _NOT_A_NUMBER.items():
            wrong = {str} | ({bool} - kinds) | ({float} if number is int else set())
            if number in kinds and type(value) in wrong:
                raise PydanticKnownError(error)
        return value

    @field_validator("allow_host", mode="before")
    @classmethod
    def _hosts(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @property
    def used_threads(self) -> int:
        """Number of processor threads that an engine will use."""
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.threads or usable


class EngineStats(Record):
    """Work done so far: tokens, seconds inside the model library, and total seconds."""

    unique_tokens: int = 0
    """Distinct tokens to evaluate, with shared prefixes counted once."""
    evaluated_tokens: int = 0
    """Evaluated tokens, including generated ones."""
    generated_tokens: int = 0
    """Tokens generated for reasons."""
    seconds_inside: float = 0.0
    seconds_total: float = 0.0

    def since(self, before: "EngineStats") -> "EngineStats":
        """Return the work done after the snapshot `before` of the same engine."""
        return EngineStats(**{name: count - getattr(before, name) for name, count in self})


@runtime_checkable
class Engine(Protocol):
    """Answer requests. An open engine keeps a model in memory, so close it after use.

    Only `answers` runs the model. Every other call is cheap.
    """

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can change an answer: model, library builds, processor type, context size and so on.

        JSON values by name. `engine` names the engine type. An engine with a model file adds `model_sha256`,
        `model_size` (bytes) and `quantisation`, which results show with the judge. An engine that knows only a name
        gives it as `model`, because the bytes are unknown. Stored answers are looked up under this identity, so it must
        change with the answers.
        """

    @property
    def name(self) -> str:
        """Display name of the model, or "" without one."""

    @property
    def chat_ends(self) -> ChatEnds | None:
        """Text that the model's chat template puts around a message, or None. Raises ModelError if rendering fails."""

    @property
    def capacity(self) -> int:
        """Maximum number of tokens. A longer request gets a `NoAnswer`."""

    def length(self, request: VerdictRequest) -> int:
        """Return the tokens of the prompt and its longest valid answer.

        Raises SampleError for text that the model cannot be shown.
        """

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Return the tokens to evaluate before the first decisions, with shared prefixes counted once.

        Skips requests that the model cannot be shown.
        """

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request once. Yields the request's index with its answer as soon as it is available.

        A problem with one request (too long, or cannot be shown to the model) becomes its `NoAnswer`. Raises ModelError
        for a problem with all requests, or OutOfResource if a later attempt may succeed.
        """

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the model and its context in bytes, or 0 without a model."""

    @property
    def shares_prefixes(self) -> bool:
        """Whether shared prefixes are evaluated once. Otherwise each request is evaluated from its first token."""

    def close(self) -> None:
        """Free all resources. The engine cannot be used afterwards."""


@runtime_checkable
class DescribedEngine(Protocol):
    """Engine whose model has metadata, so that a prompt profile made for the model can be found."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the model file: `general.name`, `general.basename`, `general.architecture`."""

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """Chat template for conversations, without head and tail, or None without a template."""


class NamedModel(Protocol):
    """Model that a judge's name refers to, before opening: a file or a server address."""

    @property
    def source(self) -> str:
        """Name by which the model can be found again."""

    @property
    def sha256(self) -> str | None:
        """Checksum of the model's bytes, or None if unknown."""

    @property
    def profile(self) -> str | None:
        """Registered prompt profile, or None."""


class EngineBuild(NamedTuple):
    """Library of an engine, its backends, and whether it can use a GPU on this machine."""

    library: str
    version: str
    uses_gpu: bool
    gpu_backends: tuple[str, ...] = ()


class ModelShape(NamedTuple):
    """Size of a model and its training context in tokens."""

    layers: int
    width: int
    trained_context: int


class ModelFacts(NamedTuple):
    """Header data of a model file, and the memory that it needs with a context of `n_ctx` tokens."""

    quantisation: str | None
    trained_context: int
    chat_template: bool
    n_ctx: int
    memory_bytes: int


@runtime_checkable
class RemoteEngine(Protocol):
    """Engine with a model that runs elsewhere."""

    @property
    def ignored_settings(self) -> tuple[str, ...]:
        """Names of settings without effect on this engine."""


class ReadableEngine(Engine, Protocol):
    """Engine that can show a prompt as the model sees it."""

    def read_back(self, request: VerdictRequest) -> str | None:
        """Return the prompt decoded from its tokens, without the answer and the engine's begin token.

        Returns None if the vocabulary folds case or accents, so that tokens and text cannot be compared. Raises
        SampleError for text that the model cannot be shown.
        """


class InspectableEngine(ReadableEngine, Protocol):
    """Engine with a local model.

    Its identity also contains `architecture`, `gpu_layers` and `self_check`, the result of the test for shared
    prefixes.
    """

    @property
    def shape(self) -> ModelShape:
        """Size of the model."""


def is_inspectable(engine: Engine) -> TypeGuard[InspectableEngine]:
    """Return whether the engine has a local, tested model."""
    return "self_check" in engine.identity
