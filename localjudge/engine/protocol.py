"""What the rest of the project knows of an engine: requests in, answers out.

    engine.answers([request, ...]) -> (index, Answer | NoAnswer), ...      in whatever order suits the engine

An answer is a pure function of `engine.identity` and its own request: not of the other requests, their order or number.
Everything that can move an answer is therefore in `identity`, and an answer may be stored and reused under
`identity` + request for ever.

    TokenCounter      which model it is and how long a request is: what planning needs, runs no model
    Engine            a token counter that also answers: holds a model, to be closed
    DescribedEngine   an engine that knows what its model is called
    ParallelEngine    an engine that answers several requests at the same time
    InspectableEngine an engine that can also show what it does to a prompt, for `localjudge doctor`

Put an engine of your own through `localjudge.engine.contract.check_engine` before it judges anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

from localjudge.types import Answer, ChatEnds, NoAnswer, Record, VerdictRequest


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


class TokenCounter(Protocol):
    """Says which model it counts for, and how many of its tokens requests take. Runs no model: every call is cheap."""

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can move an answer: model, library builds, kind of processor, context size and so on.

        JSON values by name. `engine` names the kind of engine; an engine on a model file adds `model_sha256`,
        `model_size` (bytes) and `quantisation`, by which results name their judge. The same for as long as the answers
        are: stored answers are found under it.
        """
        ...

    @property
    def name(self) -> str:
        """What people call the model; "" for an engine without one."""
        ...

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's chat template puts around a message; None without a template.

        Raises ModelError if the template cannot be rendered.
        """
        ...

    @property
    def capacity(self) -> int:
        """Tokens that fit: a request longer than this gets a `NoAnswer`."""
        ...

    def length(self, request: VerdictRequest) -> int:
        """Tokens that the request takes at its longest: its prompt and the longest legal answer.

        Raises SampleError for text that the model cannot be shown.
        """
        ...

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens to evaluate for these requests before their first decisions; what they share is counted once.

        A request that cannot be shown to the model counts nothing.
        """
        ...


class ClosableCounter(TokenCounter, Protocol):
    """A token counter that is held open without an engine."""

    def close(self) -> None:
        """Free the vocabulary."""
        ...


class Engine(TokenCounter, Protocol):
    """Answers requests. An open engine holds a model in memory: close it after use."""

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request once; yields the request's index with its answer as soon as it is there.

        What is wrong with one request (it is too long, or cannot be shown to the model) is its `NoAnswer`; only what
        concerns all of them is raised: ModelError, or OutOfResource where asking again later may go on.
        """
        ...

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Memory that the model takes with its context, estimated; 0 without a model."""
        ...

    @property
    def forks(self) -> bool:
        """Whether what requests share is evaluated once; if not, each request is evaluated from its first token."""
        ...

    def close(self) -> None:
        """Free the model. The engine cannot be used afterwards."""
        ...


@runtime_checkable
class DescribedEngine(Protocol):
    """An engine whose model says who it is, so that a prompt profile made for it is found, and asked as it wants."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of itself: `general.name`, `general.basename`, `general.architecture`."""
        ...

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """Its chat template for conversations alone, without head and tail; None without a template."""
        ...


class NamedModel(Protocol):
    """A model that a judge is named by, before it is opened: a file, or one behind the address of a server."""

    @property
    def source(self) -> str:
        """What finds it again."""
        ...

    @property
    def sha256(self) -> str | None:
        """The checksum of its bytes, where they are known."""
        ...

    @property
    def profile(self) -> str | None:
        """The prompt profile that it is registered with, if it is."""
        ...


class EngineBuild(NamedTuple):
    """The library that an engine runs on: its name, its version, and whether it can use a GPU of this machine.

    It can not, either if it was built without a backend for one, or if none of its `gpu_backends` finds a GPU.
    """

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
    """What is known of an engine before its model is loaded: its `identity` without what is found by trying it."""

    identity: dict[str, Any]
    n_ctx: int
    memory_bytes: int
    uses_gpu: bool


@runtime_checkable
class ParallelEngine(Protocol):
    """An engine that works on several requests at once, so that it wants to be asked more in one call."""

    @property
    def works_at_once(self) -> int:
        """How many, at least 1; it may change between calls."""
        ...


class ReadableEngine(Engine, Protocol):
    """An engine that can spell a prompt as the model is shown it."""

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, without the answer and the begin token that the engine puts in front.

        None where the tokens cannot be compared with the text (a vocabulary that folds case or accents). Raises
        SampleError for text that the model cannot be shown.
        """
        ...


class InspectableEngine(ReadableEngine, Protocol):
    """An engine whose model is at hand.

    Its identity also names the model's `architecture`, the `gpu_layers`, and as `self_check` what it found out about
    returning to a shared prompt.
    """

    @property
    def shape(self) -> ModelShape:
        """The model's size."""
        ...


def is_inspectable(engine: Engine) -> TypeGuard[InspectableEngine]:
    """Whether the engine's model is at hand: it has tried it."""
    return "self_check" in engine.identity
