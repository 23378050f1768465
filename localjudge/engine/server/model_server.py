"""A server that is asked for probabilities: behind its address there has to be the same model from first call to last.

call ──> reply ──same connection as when it was compared──────────────────────────> the reply
               ──another connection──> what the server says of its model, all of it ──equal──> the reply
                                                                                    ──else───> thrown away, each time
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any, NamedTuple

from localjudge.engine.llamacpp import chat_template
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.served_model import ServedModel
from localjudge.errors import ModelError, OutOfResource
from localjudge.types import ChatEnds, VerdictRequest


class AnswerPlace(NamedTuple):
    """A place in an answer: the tokens before it, those that neighbours share apart from the others."""

    shared: tuple[int, ...]
    own: tuple[int, ...]


class ModelServer(ABC):
    """A connection to a server that is asked for one model, with the work that it was asked to do.

    `read_again` is how it says what its model is. Each call raises OutOfResource if that is not `model` any more, and
    if the server is gone.
    """

    reuses_prefixes = True
    """Whether what requests share is evaluated once, and always with the same bits."""
    begins_by_itself = False
    """Whether it puts the model's begin token in front of every prompt, whoever wants it."""

    def __init__(
        self, connection: ServerConnection, model: ServedModel, read_again: Callable[[ServerConnection], ServedModel]
    ) -> None:
        self.model = model
        self._connection = connection
        self._read_again = read_again
        self._compared = connection.made
        """The connection behind which the model was last found to be this one."""
        self._undo = ExitStack()
        self._undo.callback(connection.close)
        self.evaluated_tokens = 0
        self.seconds = 0.0
        """How long the server was waited for."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""

    def chat(self, ends: bool) -> ChatEnds | None:
        """The chat template, rendered here, with head and tail or for conversations alone; None without a template."""
        template = self.model.chat_template
        if template is None:
            return None
        rendered = chat_template.chat_ends if ends else chat_template.without_ends
        return rendered(template, bos=self.model.bos, eos=self.model.eos)

    def require_plain(self, request: VerdictRequest) -> None:  # noqa: B027 -- a server that takes tokens refuses none
        """Raise SampleError for a request whose user text the server would read as the model's own markup."""

    @abstractmethod
    def start_over(self) -> None:
        """Take nothing that an earlier request left in the server for what the next one needs."""

    @abstractmethod
    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Natural logarithm of the probability of each of these tokens at this place, before any grammar."""

    @abstractmethod
    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """The most likely text at this place, one line up to a character that ends it, as at most so many tokens.

        The end itself may be missing or be there.
        """

    def close(self) -> None:
        """Close the connection, and free what was opened for it."""
        self._undo.close()

    def _asked(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The reply of the model that was there from the start; one of another model is thrown away."""
        started = perf_counter()
        try:
            reply = self._connection.get(path) if body is None else self._connection.post(path, body)
        except Refused as error:
            raise self._refusal(error) from error
        finally:
            self.seconds += perf_counter() - started
        self._require_same()
        return reply

    def _refusal(self, error: Refused) -> Exception:
        where = f"the server at {self.model.address}"
        if error.is_for_good:
            return ModelError(f"{where} refuses a request: {error.said}", hint="is it of a version that is too old?")
        return OutOfResource(f"{where} failed: {error.said}", hint="look at what it says, and run the command again")

    def _require_same(self) -> None:
        made = self._connection.made
        if made == self._compared:
            return
        self.start_over()
        now = self._read_again(self._connection)
        if now != self.model:
            raise OutOfResource(
                f"the server at {self.model.address} was {self.model.name} ({self.model.build}) when this began, "
                f"and is {now.name} ({now.build}) now{'' if now.name != self.model.name else ', not the same one'}",
                hint="start it with the first model again, and run the same command: it goes on where it was",
            )
        self._compared = made  # only now: until then, no answer from behind it is believed
