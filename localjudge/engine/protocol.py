"""What the rest of the project knows of an engine: requests in, answers out.

    engine.answers([request, ...]) -> (index, Answer | NoAnswer), ...      in whatever order suits the engine

An answer is a pure function of `engine.identity` and its own request: not of the other requests, their order or number.
Everything that can move an answer is therefore in `identity`, and an answer may be stored and reused under
`identity` + request for ever.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from localjudge.types import Answer, ChatEnds, NoAnswer, Record, VerdictRequest


class EngineStats(Record):
    """Work done so far. Tokens are counts; `seconds_inside` is time spent in the model library."""

    unique_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0
    seconds_inside: float = 0.0
    seconds_total: float = 0.0


class Engine(Protocol):
    """Runs tokens. Open engines hold a model in memory: close them."""

    @property
    def identity(self) -> dict[str, Any]:
        """All that can move an answer, as JSON values with sorted meaning: model, build, CPU, context size ..."""
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
    def forks(self) -> bool:
        """Whether requests share what they have in common; if not, each is evaluated from scratch."""
        ...

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""
        ...

    def length(self, request: VerdictRequest) -> int:
        """Tokens that the request occupies at its longest: prompt and longest legal answer."""
        ...

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens to evaluate for these requests before their first decisions, those that they share counted once."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Memory that the model takes with its context, estimated."""
        ...

    @property
    def capacity(self) -> int:
        """Tokens that fit: a request longer than this gets a `NoAnswer`."""
        ...

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request once; yields the request's index with its answer as soon as it is there."""
        ...

    def close(self) -> None:
        """Free the model. The engine cannot be used afterwards."""
        ...
