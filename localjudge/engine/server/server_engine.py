r"""The engine on a server: prompts and grammars are ours, the tokens' probabilities are the server's.

    request ── tokens, as in process ──> server: log probabilities of the legal tokens ──> verdict, as in process
                                         server: the likely text of a reason            ──> its tokens, each checked

What is legal, what it means, and how much of the model's probability went to it is decided here, with the same code as
for a model's file. A reason is written by the server under a grammar of one line (GBNF), which may allow more than the
answer's own. What a server does besides cannot be seen from here (other people's requests in one batch with ours, a
cache of quantised numbers), so the identity says "not isolated".

Which model it is, it says itself. A name that is the whole path of a file on this machine, with as many tokens and as
many bytes of weights, is proved by that file's checksum: registered profile, card and caution are that file's. (It is
the checksum of the file as it lies there now.) Anything else is a name, and who runs the server answers for the rest.
A reply over a new connection counts once all that the server says of its model is what it was.

A model whose file is not at hand has the vocabulary that its server lists: each token with its bytes, control tokens
with none, so that their literals are asked for. Which tokens match in plain text whatever it is (llama.cpp's
USER_DEFINED) no list says. So every token that looks like markup counts as reserved, `<div>` with `<|im_end|>`: user
text is then cut inside it, which spells the same text by other tokens.
"""

import logging
import math
import re
from abc import ABC, abstractmethod
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
from localjudge.engine.llamacpp.model import WHO_IT_IS
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.address import ServerAddress
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.tokens import ChatTemplate, TokenTable, Vocabulary, is_reserved
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.local_models import size_of
from localjudge.types import Answer, NoAnswer, VerdictRequest
from localjudge.words import option_name, printable

_CONTROLS = "\\x00-\\x1F\\x7F-\\x9F"
_QUOTE = '"'
_ESCAPED = frozenset('"\\[]^-')


def one_line(end: str) -> str:
    """At least one character, and then the one that ends it."""
    inside_class = f"\\{end}" if end in _ESCAPED else end
    literal = f"\\{end}" if end in '"\\' else end
    if end == _QUOTE:
        return f'root ::= ([^"\\\\{_CONTROLS}] | "\\\\" ["\\\\/bfnrt])+ "{literal}"'
    return f'root ::= [^{inside_class}{_CONTROLS}]+ "{literal}"'


_FOLDING = (3, 4)
"""llama.cpp's numbers for WordPiece and Unigram (`llama_vocab_type`), whose tokens fold case or accents."""
_MARKUP = re.compile(rb"<[^<>\s]+>|\[[^\[\]\s]*[A-Za-z][^\[\]\s]*\]")
_AT_ONCE = 256
_NO_TOKEN = -1


class TokenCalls(NamedTuple):
    """How a server is asked: texts to tokens, without and with control tokens, and tokens to a text."""

    plain: Callable[[str], list[int]]
    special: Callable[[str], list[int]]
    text_of: Callable[[Sequence[int]], str]


def listed_tokens(
    pieces: list[bytes], vocabulary_type: int, *, begins: Sequence[int], eos: str, calls: TokenCalls
) -> TokenTable:
    """The table of listed pieces. `begins` is what the server puts in front of a text, `eos` the text that ends one.

    Raises ModelError for a list that cannot be one of tokens.
    """
    if not any(pieces):
        raise ModelError(
            "the server lists tokens without their bytes: it is of a version that localjudge does not know"
        )
    control = _control_literals(pieces, calls)
    exact = vocabulary_type not in _FOLDING
    spelled = [control.get(token, piece) for token, piece in enumerate(pieces)]
    if not exact:
        spelled = [piece.removeprefix(b" ") for piece in spelled]
    ends = calls.special(eos) if eos else []
    return TokenTable(
        pieces=spelled,
        exact=exact,
        reserved={
            token: piece
            for token, piece in enumerate(spelled)
            if is_reserved(piece, control=token in control) and (token in control or _MARKUP.fullmatch(piece.strip()))
        },
        bytes_alone={piece: token for token, piece in enumerate(spelled) if len(piece) == 1},
        bos=begins[0] if begins else _NO_TOKEN,
        eos=ends[0] if len(ends) == 1 else _NO_TOKEN,
        begin=begins[0] if begins else None,
        tokenize=lambda data: calls.plain(data.decode()),
    )


def _control_literals(pieces: Sequence[bytes], calls: TokenCalls) -> dict[int, bytes]:
    """Literals of the tokens that are listed without bytes, asked for many at once with line ends between them."""
    silent = [token for token, piece in enumerate(pieces) if not piece]
    line_end = calls.plain("\n")
    if len(line_end) != 1 or pieces[line_end[0]] != b"\n":
        return {token: calls.text_of([token]).encode() for token in silent}
    literals: dict[int, bytes] = {}
    for start in range(0, len(silent), _AT_ONCE):
        some = silent[start : start + _AT_ONCE]
        spelled = calls.text_of([part for token in some for part in (token, *line_end)]).split("\n")
        if len(spelled) == len(some) + 1:
            literals |= {token: text.encode() for token, text in zip(some, spelled, strict=False)}
        else:
            literals |= {token: calls.text_of([token]).encode() for token in some}
    return literals


_ROUNDING = 1e-3
_LEAST = -1e39  # where single precision ends


def inside(reply: Any, *way: str | int) -> Any:
    """The value at the end of this way of keys and places. Raises ModelError where it leads nowhere."""
    value = reply
    for step in way:
        try:
            value = value[step]
        except (LookupError, TypeError) as error:
            spelled = ".".join(map(str, way))
            raise ModelError(f"the server's answer has no {spelled}: is it of a version that is too old?") from error
    return value


def whole(value: Any, what: str, *, most: int | None = None) -> int:
    """A whole number from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (most is not None and value > most):
        raise ModelError(f"the server gives {value!r:.40} as {what}")
    return value


def log_probability(value: Any) -> float:
    """A natural logarithm of a probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _ROUNDING:
        raise ModelError(f"the server gives {value!r:.40} as the logarithm of a probability")
    return min(float(value), 0.0)


def tokens_in(value: Any, vocabulary_size: int) -> list[int]:
    """A list of tokens."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ModelError(f"the server gives {value!r:.40} as a list of tokens")
    return [whole(token, "a token", most=vocabulary_size - 1) for token in value]


def by_token(rows: Any, vocabulary_size: int) -> dict[int, float]:
    """Logarithms of probabilities by token, from rows with `id` and `logprob`.

    Raises ModelError for what is none, and for probabilities that add up to more than 1.
    """
    if not isinstance(rows, list):
        raise ModelError(f"the server gives {rows!r:.40} as a list of probabilities")
    by_id = {
        whole(inside(row, "id"), "a token", most=vocabulary_size - 1): log_probability(inside(row, "logprob"))
        for row in rows
    }
    total = math.fsum(map(math.exp, by_id.values()))
    if total > 1 + _ROUNDING:
        raise ModelError(f"the server's probabilities add up to {total:.3g}")
    return by_id


_VOCABULARY = "tokenizer.ggml.tokens"
_log = logging.getLogger(__name__)


class ProvedFile(NamedTuple):
    """The file that a server named, which is here: its checksum, its size in bytes, what its header says."""

    path: Path
    sha256: str
    size: int
    metadata: Mapping[str, str]
    chat_template: bool


class ServedModel(NamedTuple):
    """A model behind an address.

    `kind` and `build` are the server's, `called` is what it calls the model, `n_ctx` the tokens that it takes at once.
    `bos` and `eos` are texts, as chat templates want them.
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
    """The host, where it is not this machine."""
    facts: Mapping[str, int] = MappingProxyType({})
    """What is known of a model that is not proved, to tell it from others: its sizes."""

    @property
    def source(self) -> str:
        """The address, by which the judge is found again."""
        return str(self.address)

    @property
    def sha256(self) -> str | None:
        """The checksum of the model, if it is proved."""
        return self.proved.sha256 if self.proved else None

    @property
    def profile(self) -> str | None:
        """The profile that the model is registered with, if it is proved and registered."""
        registered = model_registry.registered_as(self.proved.sha256) if self.proved else None
        return registered.profile if registered else None

    @property
    def name(self) -> str:
        """What people call the model: as a file of its bytes is called, or as the server calls it."""
        if not self.proved:
            return Path(self.called).name.removesuffix(".gguf") or self.kind
        registered = model_registry.registered_as(self.proved.sha256)
        return registered.name if registered else self.proved.path.stem

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is; without one, its name."""
        return self.proved.metadata if self.proved else {"general.name": self.name}


def proved_file(
    named: str, *, vocabulary_size: int | None = None, weight_bytes: int | None = None
) -> ProvedFile | None:
    """The file of this name, if it is one of this machine and can be the server's; None if it is not, or cannot be.

    Numbers that the server gives of its model are held against the file.
    """
    path = Path(named)
    try:
        if not path.is_absolute() or not path.is_file():
            return None
        header = gguf_header.read(path)
        if vocabulary_size not in {None, header.lengths.get(_VOCABULARY)}:
            return None
        padding = header.tensor_count * 64  # in a file, each tensor is padded to a whole block
        if weight_bytes is not None and not 0 <= header.weight_bytes - weight_bytes <= padding:
            return None
        sha256, size = model_registry.sha256_of(path), size_of(path)
    except (ModelError, OSError, ValueError) as error:  # ValueError: a name with a zero byte
        _log.debug(f"the server names {printable(named)[:200]}, which cannot be read: {error}")
        return None
    metadata = {key: header.text(key) for key in WHO_IT_IS}
    return ProvedFile(path, sha256, size, metadata, bool(header.text("tokenizer.chat_template")))


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
        made = self._connection.made
        if made != self._compared:
            self.start_over()
            now = self._read_again(self._connection)
            if now != self.model:
                raise OutOfResource(
                    f"the server at {self.model.address} was {self.model.name} ({self.model.build}) when this began, "
                    f"and is {now.name} ({now.build}) now{'' if now.name != self.model.name else ', not the same one'}",
                    hint="start it with the first model again, and run the same command: it goes on where it was",
                )
            self._compared = made  # only now: until then, no answer from behind it is believed
        return reply

    def _refusal(self, error: Refused) -> Exception:
        where = f"the server at {self.model.address}"
        if error.is_for_good:
            return ModelError(f"{where} refuses a request: {error.said}", hint="is it of a version that is too old?")
        return OutOfResource(f"{where} failed: {error.said}", hint="look at what it says, and run the command again")


class ServerEngine(DecodingEngine):
    """Answers requests with the model of a server, which is closed with it, and if there can be no engine.

    Raises ModelError if the context that was asked for is more than the server has.
    """

    ignored_settings = ("threads", "gpu_layers")
    """What the server decides."""
    memory_bytes = 0
    """The memory is the server's."""
    _larger_context = "start the server with a larger one"

    def __init__(
        self, server: ModelServer, settings: EngineSettings | None = None, *, begin_of_text: bool = True
    ) -> None:
        settings = settings or EngineSettings()
        self._server = server
        self._model = model = server.model
        self._n_ctx = settings.n_ctx or model.n_ctx
        with ExitStack() as undo:
            undo.callback(server.close)
            if self._n_ctx > model.n_ctx:
                raise ModelError(
                    f"the server at {model.address} takes {model.n_ctx:,} tokens at once, and "
                    f"{option_name('n_ctx')} says {self._n_ctx:,}",
                    hint=f"start it with a larger context, or leave out {option_name('n_ctx')}",
                )
            super().__init__(
                server.vocabulary,
                capacity=self._n_ctx - 1,  # one is sampled to read a verdict
                begin_of_text=begin_of_text or server.begins_by_itself,
                template=ChatTemplate(model.chat_template, model.bos, model.eos) if model.chat_template else None,
            )
            undo.pop_all()
        self.name = model.name
        self.metadata = model.metadata
        self.shares_prefixes = server.reuses_prefixes

    @property
    def identity(self) -> dict[str, Any]:
        """The server and its build, the model as far as it is known, and that nobody promises for the rest."""
        model, proved = self._model, self._model.proved
        known = {"model_sha256": proved.sha256, "model_size": proved.size} if proved else model.facts
        template = model.chat_template
        rendered = {"chat_template_sha256": sha256(template.encode(errors="replace")).hexdigest()} if template else {}
        return {
            "engine": "server",
            "server": model.kind,
            "server_build": model.build,
            "model": model.name,
            **known,
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

    def tokenize(self, request: VerdictRequest) -> TokenizedRequest:
        """As for a model's file, unless the server would read a text of the user's as markup (SampleError)."""
        self._server.require_plain(request)
        return super().tokenize(request)

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request; what is asked twice is asked once. Raises OutOfResource when the server goes away."""
        self._server.start_over()
        yield from super().answers(requests)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    @property
    def _evaluated(self) -> tuple[int, float]:
        return self._server.evaluated_tokens, self._server.seconds

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        shared = tuple(token for node in request.path[:-1] for token in node)
        own = request.path[-1]
        while not answer.finished:
            place = AnswerPlace(shared, own)
            own = self._decided(answer, place) if answer.wanted else self._with_reason(answer, place)
            if not answer.finished:
                request.require_room(len(shared) + len(own) - 1)

    def _decided(self, answer: ConstrainedAnswer, place: AnswerPlace) -> tuple[int, ...]:
        """The tokens behind a verdict, which is read from the legal tokens; what is left of 1 is no answer's."""
        logarithms = self._server.log_probabilities(place, answer.wanted)
        scores = np.full(self.vocabulary.size, -np.inf, dtype=np.float64)
        scores[list(logarithms)] = list(logarithms.values())
        legal = float(np.exp(scores).sum())
        beside = next(token for token in range(len(scores)) if token not in logarithms)
        scores[beside] = np.log(max(1.0 - legal, np.finfo(np.float64).tiny))
        answer.take(scores)
        return (*place.own, *answer.pending)

    def _with_reason(self, answer: ConstrainedAnswer, place: AnswerPlace) -> tuple[int, ...]:
        """The tokens behind a reason, or behind as much of it as the grammar allows; it is closed where it may be.

        Raises SampleError if nothing of it is legal and it cannot be closed.
        """
        own = place.own
        end = self._server.vocabulary.user(answer.reason_end)[-1:]
        written = (
            self._server.written(place, end=answer.reason_end, most=answer.reason_left) if answer.reason_left else []
        )
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
