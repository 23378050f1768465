r"""Engine on a server: we control prompts and grammars, the server supplies token probabilities.

    request ── tokens, as in process ──> server: log probabilities of the valid tokens ──> verdict, as in process
                                         server: the likely text of a reason            ──> its tokens, each checked

Other effects inside the server are invisible here (other requests in the same batch, a quantised cache), so the
identity says "not isolated".

The server names its model. If the name is the full path of a file on this machine with equal token count and weight
size, the file's checksum identifies the model, and its registered profile, card and caution apply. Any other name
proves nothing. A reply over a new connection counts only after the server describes the same model again.
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
    """Return the value of type `kind` at a path of keys and indices in a reply. Raises ModelError if missing."""
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
    """Return an integer within the range. Raises ModelError otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise ModelError(f"the server gives {value!r:.40} as {what}")
    return value


def log_probability(value: Any) -> float:
    """Return a natural log probability. Raises ModelError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _ROUNDING:
        raise ModelError(f"the server gives {value!r:.40} as the logarithm of a probability")
    return min(float(value), 0.0)


def tokens_in(reply: Any, vocabulary_size: int) -> list[int]:
    """Return the list `tokens` of a reply. Raises ModelError otherwise."""
    tokens = inside(reply, "tokens", kind=list)
    return [whole(token, "a token", most=vocabulary_size - 1) for token in tokens]


def by_token(rows: Sequence[Any], vocabulary_size: int) -> dict[int, float]:
    """Return log probabilities by token from rows with `id` and `logprob`.

    Raises ModelError for invalid rows or a sum of probabilities above 1.
    """
    by_id = {
        whole(inside(row, "id"), "a token", most=vocabulary_size - 1): log_probability(inside(row, "logprob"))
        for row in rows
    }
    total = math.fsum(map(math.exp, by_id.values()))
    if total > 1 + _ROUNDING:
        raise ModelError(f"the server's probabilities add up to {total:.3g}")
    return by_id


class ProvedFile(NamedTuple):
    """Local file that a server names, with its header."""

    file: ModelFile
    metadata: Mapping[str, str]
    chat_template: bool


class ServedModel(NamedTuple):
    """Model at a server address.

    `kind` and `build` describe the server, `called` is its name for the model, `n_ctx` the maximum number of tokens.
    `bos` and `eos` are texts for chat templates. `host` is set for another machine. `facts` are sizes that distinguish
    models without a proved file.
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
        """Address of the server."""
        return str(self.address)

    @property
    def sha256(self) -> str | None:
        """Checksum of the proved file, or None."""
        return self.proved.file.sha256 if self.proved else None

    @property
    def profile(self) -> str | None:
        """Registered profile of the proved file, or None."""
        return self.proved.file.profile if self.proved else None

    @property
    def name(self) -> str:
        """Display name: the name of the proved file, or the server's name for the model."""
        return self.proved.file.name if self.proved else Path(self.called).name.removesuffix(".gguf") or self.kind

    @property
    def metadata(self) -> Mapping[str, str]:
        """Identifying metadata of the proved file, or the model's name."""
        return self.proved.metadata if self.proved else {"general.name": self.name}


def proved_file(
    named: str, *, vocabulary_size: int | None = None, weight_bytes: int | None = None
) -> ProvedFile | None:
    """Return the local file of this name if it matches the server's description, else None."""
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
    """Position in an answer: the preceding tokens, split into shared and own ones."""

    shared: tuple[int, ...]
    own: tuple[int, ...]


class ServerEngine(DecodingEngine):
    """Answer requests with one model of a server.

    `read` identifies the model behind the connection. Requests raise OutOfResource if the server is gone or serves
    another model. Raises ModelError if the requested context exceeds the server's.
    """

    ignored_settings = ("threads", "gpu_layers")
    memory_bytes = 0
    shares_prefixes = True
    begins_by_itself = False
    """Whether the server adds the model's begin token to every prompt."""
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
        """Connection on which the model was last checked."""
        self._undo = ExitStack()
        self._undo.callback(connection.close)
        self._held: object = None
        """Shared prefix in the server's cache."""
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
        """Return the vocabulary of the model file, open until the engine is closed."""
        assert self._model.proved is not None
        return self._undo.enter_context(vocabulary_of_file(self._model.proved.file.path))

    @abstractmethod
    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Return the natural log probability of each token at this place, before any grammar."""

    @abstractmethod
    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Return the most likely text here: at most `most` tokens of one line up to an optional end character."""

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return a reply of the original model and discard replies of another one."""
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
        """Server, build, known facts of the model, and the note that answers are not isolated."""
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
        """Answer every request, duplicates only once. Raises OutOfResource when the server disappears."""
        self._held = None
        yield from super().answers(requests)

    def close(self) -> None:
        """Close the connection and the vocabulary."""
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
        """Read a verdict from the valid tokens and return the tokens after it. The remaining probability goes to one
        other token.
        """
        logarithms = self.log_probabilities(place, answer.wanted)
        scores = np.full(self.vocabulary.size, -np.inf, dtype=np.float64)
        scores[list(logarithms)] = list(logarithms.values())
        legal = float(np.exp(scores).sum())
        other = next(token for token in range(len(scores)) if token not in logarithms)
        scores[other] = np.log(max(1.0 - legal, np.finfo(np.float64).tiny))
        answer.take(scores)
        return (*place.own, *answer.pending)

    def _with_reason(self, answer: ConstrainedAnswer, place: AnswerPlace) -> tuple[int, ...]:
        """Return the tokens after a reason or its valid beginning. Closes the reason as soon as possible.

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
