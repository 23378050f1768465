"""What the rest of the project knows of an engine: requests in, answers out.

    engine.answers([request, ...]) -> (index, Answer | NoAnswer), ...      in whatever order suits the engine

An answer is a pure function of `engine.identity` and its own request: it may be stored and reused under both for ever.
Put an engine of your own through `check_engine` (tests/engine/contract.py) before it judges anything.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self, TypeGuard, get_args, runtime_checkable

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from localjudge.errors import InputError
from localjudge.types import Answer, ChatEnds, NoAnswer, Record, VerdictRequest
from localjudge.words import Setting, option, option_name

_NOT_A_NUMBER: dict[type, Literal["int_type", "float_type", "bool_type"]] = {
    int: "int_type",
    float: "float_type",
    bool: "bool_type",
}


class EngineSettings(Record):
    """Those above `threads` can move numbers and are part of an engine's identity; the others say where it works.

    Where it works is in no file of a run, but for the host of a judge's server that is not this machine.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    n_ctx: Annotated[int | None, Setting(calibration=True, doctor=True)] = Field(default=None, ge=64)
    """Tokens of context. Default: the model's limit, at most 8,192; it never depends on the data."""
    gpu_layers: Annotated[int | None, Setting(calibration=True, doctor=True)] = Field(default=None, ge=0)
    """Layers to put on a GPU. Default: all of them, if the build has a GPU backend."""
    threads: Annotated[int | None, Setting("Judge", place=True, rescorable=True, calibration=True, doctor=True)] = (
        Field(default=None, ge=1)
    )
    """Processor threads. Default: all available CPUs (1 per Ray worker). Does not affect results."""
    ray: Annotated[str | None, Setting("Judge", metavar="ADDRESS", names="address", place=True, rescorable=True)] = (
        Field(default=None, exclude=True)
    )
    """Judge with workers of a Ray cluster: local starts one here, auto or HOST:PORT joins one. Does not affect
    results."""
    ray_workers: Annotated[int | None, Setting(place=True, rescorable=True)] = Field(default=None, ge=1, exclude=True)
    """Workers in the Ray cluster, each with the model in its memory. Default: as many as it has room for."""
    allow_host: Annotated[
        tuple[str, ...],
        Setting("Judge", metavar="HOST", names="address", place=True, rescorable=True, calibration=True, doctor=True),
    ] = Field(default=(), exclude=True)
    """Send texts to a judge's server on this host, which is not this machine (may be repeated)."""

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, field: ValidationInfo) -> object:
        """A text of digits is not a number, and neither is a truth value."""
        kind = cls.model_fields[str(field.field_name)].annotation
        kinds = {kind, *get_args(kind)}
        for number, error in _NOT_A_NUMBER.items():
            if number in kinds and (isinstance(value, str) or (isinstance(value, bool) and bool not in kinds)):
                raise PydanticKnownError(error)
        return value

    @field_validator("allow_host", mode="before")
    @classmethod
    def _hosts(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _of_a_cluster(self) -> Self:
        if self.ray is None and self.ray_workers:
            raise InputError(
                f"{option_name('ray_workers')} is about a Ray cluster", hint=f"name one with {option('ray')}"
            )
        return self

    @property
    def used_threads(self) -> int:
        """Processor threads that an engine will use."""
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.threads or usable


class EngineStats(Record):
    """Work done so far: tokens, and seconds inside the model library and in all."""

    unique_tokens: int = 0
    """Tokens that had to be evaluated at least once: what requests share counts once."""
    evaluated_tokens: int = 0
    """Tokens that were evaluated, generated ones among them."""
    generated_tokens: int = 0
    """Tokens that the model chose for reasons."""
    seconds_inside: float = 0.0
    seconds_total: float = 0.0

    def since(self, before: "EngineStats") -> "EngineStats":
        """The work that was done after `before`, of the same engine."""
        return EngineStats(**{name: count - getattr(before, name) for name, count in self})


class TokenCounter(Protocol):
    """Says which model it counts for, and how many of its tokens requests take. Runs no model: every call is cheap."""

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can move an answer: model, library builds, kind of processor, context size and so on.

        JSON values by name. `engine` names the kind of engine; an engine on a model file adds `model_sha256`,
        `model_size` (bytes) and `quantisation`, by which results name their judge. One that knows no more than a name
        gives it as `model`: nobody has seen the bytes that answered. The same for as long as the answers are: stored
        answers are found under it.
        """

    @property
    def name(self) -> str:
        """What people call the model; "" for an engine without one."""

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's chat template, if any, puts around a message. Raises ModelError if it cannot be rendered."""

    @property
    def capacity(self) -> int:
        """Tokens that fit: a request longer than this gets a `NoAnswer`."""

    def length(self, request: VerdictRequest) -> int:
        """Tokens of prompt and longest valid answer. Raises SampleError for text that the model cannot be shown."""

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens to evaluate for these requests before their first decisions; what they share is counted once.

        A request that cannot be shown to the model counts nothing.
        """

    def close(self) -> None:
        """Free what it holds. It cannot be used afterwards."""


class Engine(TokenCounter, Protocol):
    """Answers requests. An open engine holds a model in memory: close it after use."""

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request once; yields the request's index with its answer as soon as it is there.

        What is wrong with one request (it is too long, or cannot be shown to the model) is its `NoAnswer`; only what
        concerns all of them is raised: ModelError, or OutOfResource where asking again later may go on.
        """

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""

    @property
    def memory_bytes(self) -> int:
        """Memory that the model takes with its context, estimated; 0 without a model."""

    @property
    def shares_prefixes(self) -> bool:
        """Whether what requests share is evaluated once; if not, each request is evaluated from its first token."""


@runtime_checkable
class DescribedEngine(Protocol):
    """An engine whose model says who it is, so that a prompt profile made for it is found, and asked as it wants."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of itself: `general.name`, `general.basename`, `general.architecture`."""

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """Its chat template for conversations alone, without head and tail; None without a template."""


class NamedModel(Protocol):
    """A model that a judge is named by, before it is opened: a file, or one behind the address of a server."""

    @property
    def source(self) -> str:
        """What finds it again."""

    @property
    def sha256(self) -> str | None:
        """The checksum of its bytes, where they are known."""

    @property
    def profile(self) -> str | None:
        """The prompt profile that it is registered with, if it is."""


class EngineBuild(NamedTuple):
    """The library that an engine runs on, whether it can use a GPU of this machine, and the backends that it has."""

    library: str
    version: str
    uses_gpu: bool
    gpu_backends: tuple[str, ...] = ()


class ModelShape(NamedTuple):
    """How large a model is, and how many tokens of context it was trained for."""

    layers: int
    width: int
    trained_context: int


class ModelFacts(NamedTuple):
    """What the header of a model's file says, and the memory that it would take with a context of `n_ctx` tokens."""

    quantisation: str | None
    trained_context: int
    chat_template: bool
    n_ctx: int
    memory_bytes: int


class ModelOutline(NamedTuple):
    """What is known of an engine before its model is loaded: its `identity` but for what loading and trying it adds."""

    identity: dict[str, Any]
    n_ctx: int
    memory_bytes: int
    uses_gpu: bool


@runtime_checkable
class RemoteEngine(Protocol):
    """An engine whose model somebody else runs."""

    @property
    def ignored_settings(self) -> tuple[str, ...]:
        """Names of settings that have no effect on it."""


@runtime_checkable
class ParallelEngine(Protocol):
    """An engine that works on several requests at once, so that it wants to be asked more in one call."""

    @property
    def works_at_once(self) -> int:
        """How many, at least 1; it may change between calls."""


class ReadableEngine(Engine, Protocol):
    """An engine that can spell a prompt as the model is shown it."""

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, without the answer and the begin token that the engine puts in front.

        None where the tokens cannot be compared with the text (a vocabulary that folds case or accents). Raises
        SampleError for text that the model cannot be shown.
        """


class InspectableEngine(ReadableEngine, Protocol):
    """An engine whose model is at hand.

    Its identity also names the model's `architecture`, the `gpu_layers`, and as `self_check` what it found out about
    returning to a shared prompt.
    """

    @property
    def shape(self) -> ModelShape:
        """The model's size."""


def is_inspectable(engine: Engine) -> TypeGuard[InspectableEngine]:
    """Whether the engine's model is at hand: it has tried it."""
    return "self_check" in engine.identity
