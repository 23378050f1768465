"""Interface between engines and the rest of the project: requests in, answers out.

    engine.answers([request, ...]) -> (index, Answer | NoAnswer), ...      in any order

An answer is a pure function of `engine.identity` and its request, so it may be stored under both.
`ask` is the only loop over the answers of an engine.
`check_engine` (tests/engine/contract.py) tests an engine.

Prompts are paths in a tree, so that an engine evaluates once what they share:

    instructions ─┬─ context A ─┬─ statement 1
                  │             └─ statement 2        4 paths, 7 nodes
                  └─ context B ─┬─ statement 3
                                └─ statement 4
"""

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeGuard,
    TypeVar,
    get_args,
    runtime_checkable,
)

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from localjudge.errors import SampleError
from localjudge.progress import Progress
from localjudge.types import Answer, ChatEnds, NoAnswer, Node, Record, VerdictRequest
from localjudge.words import Setting, option_name

TokenPath = tuple[tuple[int, ...], ...]
"""Tokens of each node of one request, root first."""
_Key = TypeVar("_Key")
_NOT_A_NUMBER: dict[type, Literal["int_type", "float_type", "bool_type"]] = {
    int: "int_type",
    float: "float_type",
    bool: "bool_type",
}


class EngineSettings(Record):
    """Engine options.

    Only `n_ctx` and `gpu_layers` can change numbers, and are part of the engine's identity.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    n_ctx: Annotated[int | None, Setting()] = Field(default=None, ge=64)
    """Tokens of context. Default: the model's limit, at most 8,192; never depends on the data."""
    gpu_layers: Annotated[int | None, Setting()] = Field(default=None, ge=0)
    """Layers to put on a GPU. Default: all of them, if the build has a GPU backend."""
    threads: Annotated[int | None, Setting("Judge")] = Field(default=None, ge=1)
    """Processor threads, of each worker of a cluster. Default: all available CPUs. Does not affect
    results."""
    ray: Annotated[str | None, Setting("Judge", metavar="CLUSTER", typed=True)] = Field(
        default=None, min_length=1
    )
    """Judge on the machines of a Ray cluster: auto (the one that this machine is part of), local
    (one on this machine), or HOST:PORT. Texts travel between these machines."""

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, field: ValidationInfo) -> object:
        """Refuse numbers as text, booleans, and floats for integers."""
        kind = cls.model_fields[str(field.field_name)].annotation
        kinds = {kind, *get_args(kind)}
        for number, error in _NOT_A_NUMBER.items():
            refused: set[type] = {str, bool} - kinds
            if number is int:
                refused.add(float)
            if number in kinds and type(value) in refused:
                raise PydanticKnownError(error)
        return value

    @property
    def used_threads(self) -> int:
        """Number of processor threads to use."""
        if self.threads:
            return self.threads
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1


class EngineStats(Record):
    """Work done so far: tokens, seconds inside the model library, and total seconds.

    `unique_tokens` counts shared prefixes once, `generated_tokens` are the tokens of reasons.
    """

    unique_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0
    seconds_inside: float = 0.0
    seconds_total: float = 0.0

    def plus(self, other: "EngineStats") -> "EngineStats":
        return EngineStats(**{name: count + getattr(other, name) for name, count in self})

    def since(self, earlier: "EngineStats") -> "EngineStats":
        return EngineStats(**{name: count - getattr(earlier, name) for name, count in self})


@runtime_checkable
class Engine(Protocol):
    """A model in memory that answers requests until closed. Only `answers` runs it.

    An engine that answers several requests at the same time also has their number, `workers`, and
    may have a method `start_workers` that returns their places.
    """

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can change an answer, in JSON values.

        It has the model, library builds, processor type and settings. `engine` is the type of
        engine. Results show `model_sha256`, `model_size` (bytes) and
        `quantisation`, or the name `model` if the bytes are unknown.
        """

    @property
    def name(self) -> str:
        """Name of the model, or "" without one."""

    @property
    def chat_ends(self) -> ChatEnds | None:
        """Chat template around a message, or None without one.

        Raises ModelError if rendering fails.
        """

    @property
    def capacity(self) -> int:
        """Maximum number of tokens. A longer request gets a `NoAnswer`."""

    def length(self, request: VerdictRequest) -> int:
        """Return the tokens of prompt and longest answer.

        Raises SampleError for unreadable text.
        """

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Return the tokens to evaluate before the first decisions, without unreadable requests."""

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request once, in any order. Yields each index and answer immediately.

        A problem with one request becomes its `NoAnswer`. Raises ModelError for a problem with all
        requests, or OutOfResource if a later attempt may succeed.
        """

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the model and its context, or 0 without a model."""

    @property
    def shares_prefixes(self) -> bool:
        """Whether shared prefixes are evaluated once. True for a model that cannot share any."""

    def close(self) -> None:
        """Free all resources."""


def count_workers(engine: Engine) -> int:
    """Return how many requests an engine answers at the same time.

    1 without `workers`, and if they are not a number, such as a pool of threads.
    """
    workers = getattr(engine, "workers", None)
    if not isinstance(workers, int):
        return 1
    return max(1, workers)


def start_workers(engine: Engine) -> str | None:
    """Start the workers of an engine, and return their places: `4 workers on 2 nodes`.

    None for an engine without `start_workers`. Raises ModelError if no machine can judge.
    """
    if not hasattr(engine, "start_workers"):
        return None
    place: str = engine.start_workers()
    return place


class InspectableEngine(Engine, Protocol):
    """Engine with a model file.

    Its identity contains `architecture`, `gpu_layers` and `self_check`.
    """

    @property
    def metadata(self) -> Mapping[str, str]:
        """Values that select the prompt profile.

        They are `general.name`, `general.basename`, `general.architecture` and, of a classifier,
        `OUTPUTS_KEY`.
        """

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """Chat template for conversations only, or None without one."""

    def read_back(self, request: VerdictRequest) -> str | None:
        """Return the prompt decoded from its tokens.

        None for a vocabulary that folds case or accents.
        """


def has_model_file(engine: Engine) -> TypeGuard[InspectableEngine]:
    return hasattr(engine, "metadata")


def ask(
    engine: Engine,
    requests: Mapping[_Key, VerdictRequest],
    progress: Progress,
    on_answer: Callable[[_Key, Answer | NoAnswer], object] = lambda _key, _answer: None,
) -> dict[_Key, Answer | NoAnswer]:
    """Return the engine's answers by key. `on_answer` receives each as soon as it arrives."""
    keys = list(requests)
    answers: dict[_Key, Answer | NoAnswer] = {}
    for index, answer in engine.answers(list(requests.values())):
        answers[keys[index]] = answer
        on_answer(keys[index], answer)
        progress.advance()
    return answers


def answers_in_order(
    engine: Engine, requests: Sequence[VerdictRequest], progress: Progress
) -> list[Answer | NoAnswer]:
    """Return the engine's answers in the order of the requests."""
    answers = ask(engine, dict(enumerate(requests)), progress)
    return [answers[index] for index in range(len(requests))]


def equal_requests(requests: Sequence[VerdictRequest]) -> list[list[int]]:
    """Return the indices of equal requests together, in the order of their first."""
    equal: dict[tuple[tuple[Node, ...], str], list[int]] = {}
    for index, request in enumerate(requests):
        equal.setdefault((request.path, request.shape), []).append(index)
    return list(equal.values())


def require_room(tokens: int, capacity: int, trained: int, beginning: str) -> None:
    """Raise SampleError, with this beginning, for more tokens than the judge's context.

    The hint names a larger context only if the model was `trained` with enough tokens.
    """
    if tokens <= capacity:
        return
    remedy = f"name a model with a larger context than {trained} tokens, or shorten the text"
    if tokens <= trained:
        remedy = f"ask for a larger context, of up to {trained} tokens, with {option_name('n_ctx')}"
    raise SampleError(
        f"{beginning} {tokens} tokens, and the judge's context holds {capacity}", hint=remedy
    )


def depth_first(paths: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the indices of the paths in an order that evaluates each distinct node once."""
    _, numbered_paths = _number_nodes(paths)
    return sorted(range(len(paths)), key=numbered_paths.__getitem__)


def distinct_tokens(paths: Sequence[TokenPath]) -> int:
    """Return the tokens of all paths, with shared beginnings counted once."""
    numbers, _ = _number_nodes(paths)
    return sum(len(node) for _, node in numbers)


def shared_nodes(resident: Sequence[Hashable], requested: Sequence[Hashable]) -> int:
    """Return the number of nodes at the beginning of both paths."""
    count = 0
    for resident_node, requested_node in zip(resident, requested, strict=False):
        if resident_node != requested_node:
            break
        count += 1
    return count


def _number_nodes(
    paths: Sequence[Sequence[Any]],
) -> tuple[dict[tuple[int, Any], int], list[list[int]]]:
    """Number the nodes of a tree with these paths, from 1.

    Returns the number of each node by (number of its parent, node), and each path as numbers.
    """
    numbers: dict[tuple[int, Any], int] = {}
    numbered_paths = []
    for path in paths:
        numbered = [0]
        for node in path:
            numbered.append(numbers.setdefault((numbered[-1], node), len(numbers) + 1))
        numbered_paths.append(numbered)
    return numbers, numbered_paths
