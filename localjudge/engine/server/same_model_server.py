"""What every server has in common: behind its address there has to be the same model from the first call to the last.

call ──> reply ──same connection as when it was compared──────────────────────────> the reply
               ──another connection──> what the server says of its model, all of it ──equal──> the reply
                                                                                    ──else───> thrown away, each time
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from localjudge.engine.llamacpp import chat_template
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.model_server import ServerWork
from localjudge.engine.server.served_model import ServedModel
from localjudge.errors import ModelError, OutOfResource
from localjudge.types import ChatEnds


class SameModelServer:
    """A connection to a server that is asked for one model, with the work that it was asked to do.

    `read_again` is how it says what its model is. Each call raises OutOfResource if that is not `model` any more.
    """

    def __init__(
        self, connection: ServerConnection, model: ServedModel, read_again: Callable[[ServerConnection], ServedModel]
    ) -> None:
        self.model = model
        self._connection = connection
        self._read_again = read_again
        self._compared = connection.made
        """The connection behind which the model was last found to be this one."""
        self._evaluated = 0
        self._seconds = 0.0

    @property
    def work(self) -> ServerWork:
        """Tokens and seconds so far."""
        return ServerWork(self._evaluated, self._seconds)

    def chat(self, ends: bool) -> ChatEnds | None:
        """The chat template, rendered here."""
        template = self.model.chat_template
        if template is None:
            return None
        rendered = chat_template.chat_ends if ends else chat_template.without_ends
        return rendered(template, bos=self.model.bos, eos=self.model.eos)

    def _asked(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The reply of the model that was there from the start; one of another model is thrown away."""
        started = perf_counter()
        try:
            reply = self._connection.get(path) if body is None else self._connection.post(path, body)
        except Refused as error:
            raise self._refusal(error) from error
        finally:
            self._seconds += perf_counter() - started
        self._require_same()
        return reply

    def _refusal(self, error: Refused) -> Exception:
        where = f"the server at {self.model.address}"
        if error.is_for_good:
            return ModelError(f"{where} refuses a request: {error.said}", hint="is it of a version that is too old?")
        return OutOfResource(f"{where} failed: {error.said}", hint="look at what it says, and run the command again")

    def _forget(self) -> None:
        """Take nothing for known that an earlier connection left in the server."""

    def _require_same(self) -> None:
        made = self._connection.made
        if made == self._compared:
            return
        self._forget()
        now = self._read_again(self._connection)
        if now != self.model:
            raise OutOfResource(
                f"the server at {self.model.address} was {self.model.name} ({self.model.build}) when this began, "
                f"and is {now.name} ({now.build}) now{'' if now.name != self.model.name else ', not the same one'}",
                hint="start it with the first model again, and run the same command: it goes on where it was",
            )
        self._compared = made  # only now: until then, no answer from behind it is believed
