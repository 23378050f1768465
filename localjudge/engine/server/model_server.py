"""What an engine needs of a server, in whichever way one is asked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.server.served_model import ServedModel
from localjudge.types import ChatEnds, VerdictRequest


class AnswerPlace(NamedTuple):
    """A place in an answer: the tokens before it, those that neighbours share apart from the others."""

    shared: tuple[int, ...]
    own: tuple[int, ...]


class ServerWork(NamedTuple):
    """What a server was asked to do so far: tokens that it evaluated, seconds that it was waited for."""

    evaluated_tokens: int = 0
    seconds: float = 0.0


class ModelServer(Protocol):
    """A server that is asked for probabilities. Each call raises OutOfResource for a server that is gone."""

    @property
    def model(self) -> ServedModel:
        """What it serves."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        ...

    @property
    def reuses_prefixes(self) -> bool:
        """Whether what requests share is evaluated once, and always with the same bits."""
        ...

    @property
    def begins_by_itself(self) -> bool:
        """Whether it puts the model's begin token in front of every prompt, whoever wants it."""
        ...

    @property
    def work(self) -> ServerWork:
        """What was done since it was opened."""
        ...

    def chat(self, ends: bool) -> ChatEnds | None:
        """The model's chat template, with head and tail or for conversations alone; None without a template."""
        ...

    def require_plain(self, request: VerdictRequest) -> None:
        """Raise SampleError for a request whose user text the server would read as the model's own markup."""
        ...

    def start_over(self) -> None:
        """Take nothing that an earlier request left in the server for what this one needs."""
        ...

    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Natural logarithm of the probability of each of these tokens at this place, before any grammar."""
        ...

    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """The most likely text at this place, one line up to a character that ends it, as at most so many tokens.

        The end itself may be missing or be there.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
