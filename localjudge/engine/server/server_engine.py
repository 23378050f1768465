r"""The engine on a server: prompts and grammars are ours, the tokens' probabilities are the server's.

    request ── tokens, as in process ──> server: log probabilities of the valid tokens ──> verdict, as in process
                                         server: the likely text of a reason            ──> its tokens, each checked

What else the server does cannot be seen from here (other people's requests in one batch with ours, a cache of quantised
numbers), so the identity says "not isolated".

The server says which model it is. A name that is the whole path of a file on this machine, with as many tokens and as
many bytes of weights, is proved by that file's checksum: registered profile, card and caution are that file's. Another
name proves nothing. A reply over a new connection counts once the server describes its model as before.
"""

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from localjudge import model_registry
from localjudge.engine.decoding import ConstrainedAnswer, DecodingEngine, TokenizedRequest
from localjudge.engine.llamacpp import gguf as gguf_header
from localjudge.engine.llamacpp.model import WHO_IT_IS, vocabulary_of_file
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.connection import Refused, ServerAddress, ServerConnection
from localjudge.engine.tokens import ChatTemplate, Vocabulary
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, NoAnswer, VerdictRequest
from localjudge.words import option_name, printable

_log = logging.getLogger(__name__)
_ROUNDING = 1e-3
_LEAST = -1e39  # where single precision ends
_TOO_OLD = "use a recent version of the server"


def inside(reply: Any, *steps: str | int, kind: type[Any] = object) -> Any:
    """The value of this kind at the end of these keys and places of a reply. Raises ModelError if there is none."""
    value = reply
    try:
        for step in steps:
            value = value[step]
    except (LookupError, TypeError) as error:
        raise ModelError(f"the server's reply has no {'.'.join(map(str, steps))}", hint=_TOO_OLD) from error
    if not isinstance(value, kind):
        raise ModelError(f"the server gives {value!r:.40} as {'.'.join(map(str, steps))}", hint=_TOO_OLD)
    return value


def whole(value: Any, what: str, *, least: int = 0, most: int | None = None) -> int:
    """A whole number of this range. Raises ModelError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise ModelError(f"the server gives {value!r:.40} as {what}")
    return value


def log_probability(value: Any) -> float:
    """A natural logarithm of a probability. Raises ModelError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _ROUNDING:
        raise ModelError(f"the server gives {value!r:.40} as the logarithm of a probability")
    return min(float(value), 0.0)


def tokens_in(reply: Any, vocabulary_size: int) -> list[int]:
    """The list `tokens` of a reply. Raises ModelError for anything else."""
    tokens = inside(reply, "tokens", kind=list)
    return [whole(token, "a token", most=vocabulary_size - 1) for token in tokens]


def by_token(rows: Sequence[Any], vocabulary_size: int) -> dict[int, float]:
    """Log probabilities by token, from rows with `id` and `logprob`. Raises ModelError for others, or a sum above 1."""
    by_id = {
        whole(inside(row, "id"), "a token", most=vocabulary_size - 1): log_probability(inside(row, "logprob"))
        for row in rows
    }
    total = math.fsum(map(math.exp, by_id.values()))
    if total > 1 + _ROUNDING:
        raise ModelError(f"the server's probabilities add up to {total:.3g}")
    return by_id


class ProvedFile(NamedTuple):
    """The file on this machine that a server names, and what its header says."""

    file: ModelFile
    metadata: Mapping[str, str]
    chat_template: bool


class ServedModel(NamedTuple):
    """A model behind an address.

    `kind` and `build` are the server's, `called` is what it calls the model, `n_ctx` the tokens that it takes at once.
    `bos` and `eos` are texts, as chat templates want them; `host` is set if it is not this machine; `facts` are sizes
    that tell a model that is not proved from others.
    """

    address: ServerAddress
    kind: str
    build: str
    called: str
    n_ctx: int
    vocabulary_size: int
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""
    quantisation: str | None = None
    proved: ProvedFile | None = None
    host: str | None = None
    facts: Mapping[str, int] = MappingProxyType({})

    @property
    def source(self) -> str:
        """The address, by which the judge is found again."""
        return str(self.address)

    @property
    def sha256(self) -> str | None:
        """The checksum of the model, if it is proved."""
        return self.proved.file.sha256 if self.proved else None

    @property
    def profile(self) -> str | None:
        """The profile that the model is registered with, if it is proved and registered."""
        return self.proved.file.profile if self.proved else None

    @property
    def name(self) -> str:
        """What people call the model: as a file of its bytes is called, or as the server calls it."""
        return self.proved.file.name if self.proved else Path(self.called).name.removesuffix(".gguf") or self.kind

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is; without one, its name."""
        return self.proved.metadata if self.proved else {"general.name": self.name}


def proved_file(
    named: str, *, vocabulary_size: int | None = None, weight_bytes: int | None = None
) -> ProvedFile | None:
    """The file of this name on this machine, if what the server says of its model fits it; else None."""
    path = Path(named)
    try:
        if not path.is_absolute() or not path.is_file():
            return None
        header = gguf_header.read(path)
        if vocabulary_size not in {None, header.lengths.get("tokenizer.ggml.tokens")}:
            return None
        padding = header.tensor_count * 64  # in a file, each tensor is padded to a whole block
        if weight_bytes is not None and not 0 <= header.weight_bytes - weight_bytes <= padding:
            return None
        file = model_registry.find(named)
    except (ModelError, OSError, ValueError) as error:  # ValueError: a name with a zero byte
        _log.debug(f"the server names {printable(named)[:200]}, which cannot be read: {error}")
        return None
    metadata = {key: header.text(key) for key in WHO_IT_IS}
    return ProvedFile(file, metadata, bool(header.text("tokenizer.chat_template")))


class AnswerPlace(NamedTuple):
    """A place in an answer: the tokens before it, those that neighbours share apart from the others."""

    shared: tuple[int, ...]
    own: tuple[int, ...]


class ServerEngine(DecodingEngine):
    """Answers requests with one model of a server.

    `read` reads from the connection which model it is: every question raises OutOfResource if the server is gone or has
    another model now. Raises ModelError if the context that was asked for is more than the server has.
    """

    ignored_settings = ("threads", "gpu_layers")
    memory_bytes = 0
    shares_prefixes = True
    begins_by_itself = False
    """Whether the server puts the model's begin token in front of every prompt."""
    _larger_context = "start the server with a larger one"

    def __init__(
        self,
        connection: ServerConnection,
        model: ServedModel,
        read: Callable[[ServerConnection], ServedModel],
        settings: EngineSettings,
        *,
        begin_of_text: bool = True,
    ) -> None:
        self.name, self.metadata = model.name, model.metadata
        self._model = model
        self._connection = connection
        self._read = read
        self._compared = connection.made
        """The connection over which the model was last compared with this one."""
        self._undo = ExitStack()
        self._undo.callback(connection.close)
        self._held: object = None
        """The shared beginning that the server was led to."""
        self._evaluated_tokens = 0
        self._seconds_waited = 0.0
        self._n_ctx = settings.n_ctx or model.n_ctx
        if self._n_ctx > model.n_ctx:
            raise ModelError(
                f"{option_name('n_ctx')} is {self._n_ctx:,}, and the server at {model.address} takes "
                f"{model.n_ctx:,} tokens at once",
                hint=f"start it with a larger context, or omit {option_name('n_ctx')}",
            )
        super().__init__(
            self._open_vocabulary(),
            capacity=self._n_ctx - 1,  # one is sampled to read a verdict
            begin_of_text=begin_of_text or self.begins_by_itself,
            template=ChatTemplate(model.chat_template, model.bos, model.eos) if model.chat_template else None,
        )

    def _open_vocabulary(self) -> Vocabulary:
        """The model's tokens, until the engine is closed: those of its file."""
        assert self._model.proved is not None
        return self._undo.enter_context(vocabulary_of_file(self._model.proved.file.path))

    @abstractmethod
    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Natural logarithm of the probability of each of these tokens at this place, before any grammar."""

    @abstractmethod
    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Most likely text here, at most `most` tokens of one line up to an end character, which may be missing."""

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The reply of the model that was there from the start; one of another model is thrown away."""
        started = perf_counter()
        try:
            reply = self._connection.ask(path, body)
        except Refused as error:
            raise self._refusal(error) from error
        finally:
            self._seconds_waited += perf_counter() - started
        made = self._connection.made
        if made != self._compared:
            self._held = None
            now = self._read(self._connection)
            if now != self._model:
                raise OutOfResource(
                    f"the server at {now.address} changed its model: {self.name} ({self._model.build}) before, "
                    f"{now.name} ({now.build}) now",
                    hint="start it with the first model again, as before, and run the same command to go on",
                )
            self._compared = made  # only now: until then, no reply over it is believed
        return reply

    def _refusal(self, error: Refused) -> Exception:
        if error.is_for_good:
            return error
        return OutOfResource(
            f"the server at {self._model.address} failed: {error.said}", hint="see its log, and run the command again"
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The server and its build, what is known of the model, and that answers are not isolated."""
        model, proved, template = self._model, self._model.proved, self._model.chat_template
        facts = {"model_sha256": proved.file.sha256, "model_size": proved.file.size} if proved else model.facts
        rendered = {"chat_template_sha256": sha256(template.encode(errors="replace")).hexdigest()} if template else {}
        return {
            "engine": "server",
            "server": model.kind,
            "server_build": model.build,
            "model": model.name,
            **facts,
            **({"quantisation": model.quantisation} if model.quantisation else {}),
            "vocabulary_size": model.vocabulary_size,
            **rendered,
            "llguidance": version("llguidance"),
            "n_ctx": self._n_ctx,
            "server_n_ctx": model.n_ctx,
            "begin_of_text": bool(self._begin),
            "shared_prompts": "reused" if self.shares_prefixes else "evaluated again",
            "batching": "not isolated",
            **({"host": model.host} if model.host else {}),
        }

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request; what is asked twice is asked once. Raises OutOfResource when the server goes away."""
        self._held = None
        yield from super().answers(requests)

    def close(self) -> None:
        """Close the connection, and free what was opened for it."""
        self._undo.close()

    @property
    def _evaluated(self) -> tuple[int, float]:
        return self._evaluated_tokens, self._seconds_waited

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        shared = tuple(token for node in request.path[:-1] for token in node)
        own = request.path[-1]
        while not answer.finished:
            place = AnswerPlace(shared, own)
            own = self._decided(answer, place) if answer.wanted else self._with_reason(answer, place)
            if not answer.finished:
                request.require_room(len(shared) + len(own) - 1)

    def _decided(self, answer: ConstrainedAnswer, place: AnswerPlace) -> tuple[int, ...]:
        """The tokens behind a verdict, which is read from the valid tokens; one other token has what is left of 1."""
        logarithms = self.log_probabilities(place, answer.wanted)
        scores = np.full(self.vocabulary.size, -np.inf, dtype=np.float64)
        scores[list(logarithms)] = list(logarithms.values())
        legal = float(np.exp(scores).sum())
        other = next(token for token in range(len(scores)) if token not in logarithms)
        scores[other] = np.log(max(1.0 - legal, np.finfo(np.float64).tiny))
        answer.take(scores)
        return (*place.own, *answer.pending)

    def _with_reason(self, answer: ConstrainedAnswer, place: AnswerPlace) -> tuple[int, ...]:
        """The tokens behind a reason, or behind what the grammar allows of it; it is closed as soon as it may be.

        Raises SampleError if it can be neither continued nor closed.
        """
        own = place.own
        end = self.vocabulary.user(answer.reason_end)[-1:]
        most = answer.reason_left
        written = self.written(place, end=answer.reason_end, most=most) if most else []
        for token in (*written, *end):
            if answer.finished or answer.wanted:
                break
            legal = next((candidate for candidate in (token, *end) if answer.is_legal(candidate)), None)
            if legal is None:
                raise SampleError("the server wrote a reason that the grammar does not allow")
            scores = np.zeros(self.vocabulary.size)
            scores[legal] = 1.0
            answer.take(scores)
            own = (*own, *answer.pending)
        return own
