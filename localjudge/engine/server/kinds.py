"""Which server answers at an address, and whether it can judge: it has to give the probability of each legal answer.

    /props with a context                 llama-server
    /v1/models and /extras/tokenize       python -m llama_cpp.server
    anything else                         refused, with what to do instead

The decision. Both give logarithms of probabilities of the raw logits, before samplers and grammar, of the most likely
tokens and of the one that was taken. So the legal tokens, and they alone, are raised by `logit_bias`: one of them is
taken, whatever the model prefers, and its probability is known, the same to the last digit as in process (held against
the list of all 151,936 tokens of Qwen2.5-Coder-0.5B). One that is not among the most likely costs llama-server a second
call, for the shares of the legal tokens after sampling (right to about the fourth digit, as 1000 is added to a logit in
single precision), and llama_cpp.server, which lists tokens by texts that several may have, a call of its own.

Alone in a crowd. A server answers from the longest beginning that it still holds, so by default an answer depends on
what was asked before: the logits of one prompt moved by 0.06, of a 0.5 B model, Q4_K_M. It is led to one state:

    llama-server                                      llama_cpp.server, which always goes on from what it holds
    shared          cache_prompt false   afresh       .               another text, which makes it forget
    shared          cache_prompt true    last token   shared, shared  from its first token, then its last one again
    shared + own    cache_prompt true    own tokens   shared + own    what is new

22 verdicts of llama-server in mixed orders had the same bits. Its reply says how many tokens were taken from the slot:
if it is not what it should be, somebody else has been there, and it is begun again. One that cannot go back to a shared
beginning (a recurrent memory, a sliding window) is asked from scratch.

llama_cpp.server takes text, and tells neither its vocabulary nor its chat template. So the model's file has to be at
hand, on this machine and under the name that the server gives it, and tokens of a few texts are held against that
file's; a LoRA adapter (--lora_path) shows nowhere. Text is tokenised there as a whole, with control tokens parsed: a
text of the user's that holds such a literal gets no answer, and the tokens are not always those in process, where
pieces are tokenised apart.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from localjudge.engine.llamacpp.model import vocabulary_of_file
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.address import read_address
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.server_engine import (
    AnswerPlace,
    ModelServer,
    ServedModel,
    TokenCalls,
    by_token,
    inside,
    listed_tokens,
    log_probability,
    one_line,
    proved_file,
    tokens_in,
    whole,
)
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.types import VerdictRequest
from localjudge.words import option, printable

LLAMA_SERVER = "llama-server"
_SLOT = 0
_LISTED = 256
"""So many of the most likely tokens are asked for: 32 kB."""
_RAISED = 1000.0
_LEAST = -700.0
"""Logarithm of a probability that is given as 0."""
_TRIES = 3
_UNKNOWN = (404, 405, 501)
_FACTS = {"size": "weight_bytes", "n_params": "parameters", "n_embd": "width"}
"""What /v1/models says of the weights, and what it is called in an identity."""
_FIELDS = ["completion_probabilities", "tokens", "tokens_evaluated", "timings", "truncated"]
_TRIAL = "The bridge over the river opened in 1936, was widened twice, and a toll of 50 cents was charged until 1954."
_TRIAL_OWN = 6


def read_llama_server(connection: ServerConnection, props: Mapping[str, Any]) -> ServedModel:
    """What the server says of its model, the file held against it where that is on this machine."""
    n_ctx = whole(inside(props, "default_generation_settings", "n_ctx"), "its context")
    if not n_ctx:
        raise ModelError(
            f"the server at {connection.address} has no model of its own: it hands requests on to others",
            hint="name the address of a llama-server that was started with one model (-m MODEL.gguf)",
        )
    meta = inside(connection.get("/v1/models"), "data", 0, "meta")
    size = whole(inside(meta, "n_vocab"), "the size of its vocabulary")
    named = str(props.get("model_path", ""))
    proved = None
    if connection.is_local:
        proved = proved_file(named, vocabulary_size=size, weight_bytes=whole(meta.get("size", 0), "the model's size"))
    _refuse_adapters(connection)
    template = str(props.get("chat_template") or "")
    return ServedModel(
        address=connection.address,
        kind=LLAMA_SERVER,
        build=printable(str(props.get("build_info", "unknown"))),
        called=printable(str(props.get("model_alias") or named)),
        n_ctx=n_ctx,
        vocabulary_size=size,
        # Without one in its file, the server says the template that it would take instead.
        chat_template=None if proved and not proved.chat_template else template or None,
        bos=str(props.get("bos_token", "")),
        eos=str(props.get("eos_token", "")),
        quantisation=printable(str(meta.get("ftype") or "")) or None,
        proved=proved,
        host=None if connection.is_local else connection.address.host,
        facts={fact: whole(meta[name], fact) for name, fact in _FACTS.items() if meta.get(name) is not None},
    )


def _refuse_adapters(connection: ServerConnection) -> None:
    """Raise ModelError for a model that is changed by LoRA adapters: path and size are still those of its own file."""
    try:
        adapters = connection.get_rows("/lora-adapters")
    except Refused as error:
        if error.status not in _UNKNOWN:
            raise
        return
    for row in adapters:
        if inside(row, "scale") != 0:
            raise ModelError(
                f"the server at {connection.address} changes its model by a LoRA adapter, "
                f"{printable(str(row.get('path', row.get('id'))))[:200]!r}: whose answers these are could not be told",
                hint="merge it into a model of its own (llama-export-lora), or start the server without --lora",
            )


class LlamaServer(ModelServer):
    """A llama-server that is open, and tried: does it go back to a shared beginning?

    Raises ModelError for one whose answers are not as they should be.
    """

    def __init__(self, connection: ServerConnection, model: ServedModel) -> None:
        super().__init__(connection, model, lambda again: read_llama_server(again, again.get("/props")))
        self._held: tuple[int, ...] = ()
        self.reuses_prefixes = False
        self.reuses_prefixes = self._can_go_back()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """That of the model's file, or, where that is not at hand, the one that the server lists."""
        if self.model.proved:
            return self._undo.enter_context(vocabulary_of_file(self.model.proved.path))
        calls = TokenCalls(
            plain=partial(self._tokenized, special=False),
            special=partial(self._tokenized, special=True),
            text_of=self._text_of,
        )
        meta = inside(self._asked("/v1/models"), "data", 0, "meta")
        begins = self._tokenized("", special=True, begin=True)
        table = listed_tokens(
            self._pieces(calls), meta.get("vocab_type", 0), begins=begins, eos=self.model.eos, calls=calls
        )
        return Vocabulary(table, self.model.chat_template)

    def start_over(self) -> None:
        """Evaluate the next beginning from its first token."""
        self._held = ()

    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Of the raw logits. Two calls where a legal token is not among the most likely ones, else one."""
        raised = [[token, _RAISED] for token in wanted]
        likely = inside(self._at(place, n_probs=_LISTED, logit_bias=raised), "completion_probabilities", 0)
        by_id = by_token(inside(likely, "top_logprobs"), self.model.vocabulary_size)
        by_id |= by_token([likely], self.model.vocabulary_size)
        missing = [token for token in wanted if token not in by_id]
        if not missing:
            return {token: by_id[token] for token in wanted}
        shares = self._at(place, n_probs=len(wanted), logit_bias=raised, post_sampling_probs=True)
        share = self._shares(inside(shares, "completion_probabilities", 0, "top_probs"))
        reference = max(by_id.keys() & share.keys(), key=share.__getitem__, default=None)
        if reference is None:
            raise ModelError(f"the server at {self.model.address} gives shares of tokens that it did not choose among")
        scale = by_id[reference] - share[reference]
        return {token: by_id.get(token, max(share.get(token, _LEAST) + scale, _LEAST)) for token in wanted}

    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Under a grammar of one line, the most likely token at each step."""
        reply = self._at(place, predict=most, grammar=one_line(end), samplers=["top_k"], top_k=1, return_tokens=True)
        return tokens_in(inside(reply, "tokens"), self.model.vocabulary_size)

    def _at(self, place: AnswerPlace, **how: Any) -> dict[str, Any]:
        """The reply at a place, from a state of the slot that hangs on the place alone."""
        prompt = (*place.shared, *place.own)
        if not (self.reuses_prefixes and place.shared):
            return self._completed(prompt, cached=None, **how)
        for _ in range(_TRIES):
            if self._held != place.shared:
                self._completed(place.shared, cached=None, predict=0)
                self._held = place.shared
            again = self._completed(place.shared, cached=len(place.shared) - 1, predict=0)
            reply = self._completed(prompt, cached=len(place.shared), **how) if again else again
            if reply:
                return reply
            self._held = ()
        raise OutOfResource(
            f"the server at {self.model.address} forgets what it was just asked: somebody else is using it",
            hint="wait until nobody does, or start it with --parallel 1 for this run; then run the same command again",
        )

    def _completed(
        self, prompt: tuple[int, ...], *, cached: int | None, predict: int = 1, **how: Any
    ) -> dict[str, Any]:
        """The reply; {} if other than `cached` tokens were taken from the slot (None: it is evaluated afresh)."""
        body = {
            "prompt": list(prompt),
            "n_predict": predict,
            "cache_prompt": cached is not None,
            "id_slot": _SLOT,
            "samplers": [],
            "mirostat": 0,
            "grammar": "",
            "temperature": 1.0,
            "seed": 0,
            "response_fields": _FIELDS,
            **how,
        }
        reply = self._asked("/completion", body)
        if inside(reply, "tokens_evaluated") != len(prompt) or reply.get("truncated"):
            raise ModelError(
                f"the server at {self.model.address} did not take the {len(prompt):,} tokens of a prompt as they are",
                hint="start it without options that shift or cut its context",
            )
        taken = whole(inside(reply, "timings", "cache_n"), "a number of tokens")
        self.evaluated_tokens += len(prompt) - taken
        return reply if cached is None or taken == cached else {}

    def _refusal(self, error: Refused) -> Exception:
        if "context" in error.said and error.is_for_good:
            return SampleError(f"the server at {self.model.address} has no room for the prompt: {error.said}")
        return super()._refusal(error)

    def _can_go_back(self) -> bool:
        """Whether a shared beginning can be gone back to, and gives the same bits each time."""
        tokens = self._tokenized(_TRIAL, special=False)
        shared, own = tuple(tokens[:-_TRIAL_OWN]), tuple(tokens[-_TRIAL_OWN:])
        tokens_read = tokens[:2]
        self.log_probabilities(AnswerPlace((), (*shared, *own)), tokens_read)
        if not shared:
            return False
        self.reuses_prefixes = True
        try:
            trials = [self.log_probabilities(AnswerPlace(shared, own), tokens_read) for _ in range(_TRIES)]
        except OutOfResource:
            return False
        finally:
            self.reuses_prefixes = False
            self._held = ()
        return all(trial == trials[0] for trial in trials)

    def _tokenized(self, text: str, *, special: bool, begin: bool = False) -> list[int]:
        reply = self._asked("/tokenize", {"content": text, "add_special": begin, "parse_special": special})
        return tokens_in(inside(reply, "tokens"), self.model.vocabulary_size)

    def _text_of(self, tokens: Sequence[int]) -> str:
        return str(inside(self._asked("/detokenize", {"tokens": list(tokens)}), "content"))

    def _pieces(self, calls: TokenCalls) -> list[bytes]:
        """The bytes of each token, from a list of probabilities of all."""
        [any_token, *_] = calls.plain("a")
        size = self.model.vocabulary_size
        reply = self._completed((any_token,), cached=None, n_probs=size, logit_bias=[[any_token, _RAISED]])
        rows = inside(reply, "completion_probabilities", 0, "top_logprobs")
        try:
            pieces = {whole(row["id"], "a token", most=size - 1): bytes(row["bytes"]) for row in rows}
        except (LookupError, TypeError, ValueError) as error:
            raise ModelError(f"the server at {self.model.address} gives no list of its tokens") from error
        if len(pieces) != size:
            raise ModelError(f"the server at {self.model.address} lists {len(pieces):,} of its {size:,} tokens")
        return [pieces[token] for token in range(size)]

    def _shares(self, rows: Any) -> dict[int, float]:
        """Logarithms of the shares after sampling; what has none is not listed."""
        if not isinstance(rows, list):
            raise ModelError(f"the server at {self.model.address} gives {rows!r:.40} as a list of shares")
        most = self.model.vocabulary_size - 1
        by_id = {whole(inside(row, "id"), "a token", most=most): inside(row, "prob") for row in rows}
        sound = {
            token: math.log(share)
            for token, share in by_id.items()
            if isinstance(share, float | int) and 0 < share <= 1
        }
        if not sound or len(sound) != len(by_id):
            raise ModelError(f"the server at {self.model.address} gives shares that are none: {by_id!r:.80}")
        return sound


PYTHON_SERVER = "llama_cpp.server"
OWNER = "me"
"""Whose its models are, as it says."""
_PYTHON_SERVER_LISTED = 64
_OTHERS = (".", "a")
"""Texts to forget by; the second for a prompt that begins with the first."""
_TRIALS = (
    "The bridge over the river opened in 1936, was widened twice, and a toll of 50 cents was charged until 1954.",
    "Straße, naïve café, Ελλάδα, мост, 桥梁 und 😀",
    "def opened(year):\n    return {'bridge': year >= 1936}",
)
"""Texts in several scripts, by whose tokens two vocabularies differ."""
_TOO_LONG = "a b " * 200_000
_CONTEXT = re.compile(r"context (?:length is|window of) (\d+)")
_WITHOUT_LOGITS = "logits_all"
_ONE_MODEL = 1


def read_python_server(connection: ServerConnection, models: Sequence[Any]) -> ServedModel:
    """What the server says of its model, and what the model's file says of the rest.

    Raises ModelError where the file is not at hand.
    """
    named = str(inside(models, 0, "id"))
    proved = proved_file(named) if connection.is_local and len(models) == _ONE_MODEL else None
    if proved is None:
        raise ModelError(
            f"the server at {connection.address} names a model {printable(named)[:200]!r}, not the whole path of "
            "a file on this machine: it takes text and tells no vocabulary, so that of the file is needed",
            hint="start it with one model and its whole path: python -m llama_cpp.server --model /PATH/MODEL.gguf "
            "--logits_all true; or take llama-server, which needs no file here",
        )
    with vocabulary_of_file(proved.path) as vocabulary:
        _refuse_another(connection, vocabulary, proved.path)
        size = vocabulary.size
        bos, eos = vocabulary.text_of(vocabulary.bos), vocabulary.text_of(vocabulary.eos)
        template = vocabulary.chat_template
    build = inside(connection.get("/openapi.json"), "info", "version")
    return ServedModel(
        address=connection.address,
        kind=PYTHON_SERVER,
        build=printable(str(build)),
        called=printable(named),
        n_ctx=_context_of(connection),
        vocabulary_size=size,
        chat_template=template,
        bos=bos,
        eos=eos,
        proved=proved,
    )


def _refuse_another(connection: ServerConnection, vocabulary: Vocabulary, path: Path) -> None:
    """Raise ModelError if the server's tokens are not those of the file: it was replaced since, or is another one here.

    A model of the same family has the same tokens: that it is this very file is not proved by them.
    """
    for text in _TRIALS:
        tokens = inside(connection.post("/extras/tokenize", {"input": text}), "tokens")
        try:
            own = [
                token for token in tokens_in(tokens, vocabulary.size) if token not in (vocabulary.bos, vocabulary.eos)
            ]
            same = vocabulary.decode(own).strip() == text.encode() if vocabulary.exact else own == vocabulary.user(text)
        except ModelError:
            same = False
        if not same:
            raise ModelError(
                f"the server at {connection.address} names {printable(str(path))[:200]}, and cuts texts into other "
                "tokens than that file does",
                hint="start the server again with the file as it is now; in a container, or behind a tunnel, its paths "
                "are not this machine's: take llama-server there, which needs no file here",
            )


def _context_of(connection: ServerConnection) -> int:
    """How many tokens fit, which the server says when it is asked for too many."""
    try:
        connection.post("/v1/completions", {"prompt": _TOO_LONG, "max_tokens": 1})
    except Refused as error:
        if match := _CONTEXT.search(error.said):
            return int(match[1])
    raise ModelError(f"the server at {connection.address} does not say how many tokens it takes")


class PythonServer(ModelServer):
    """A `llama_cpp.server` that is open, and tried: does it give probabilities?

    Raises ModelError for one whose answers are not as they should be.
    """

    begins_by_itself = True

    def __init__(self, connection: ServerConnection, model: ServedModel) -> None:
        super().__init__(
            connection, model, lambda again: read_python_server(again, inside(again.get("/v1/models"), "data"))
        )
        self._held = ""
        self._completed("a", logprobs=1)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """That of the model's file."""
        if self.model.proved is None:
            raise ModelError(f"the file of the model at {self.model.address} is not at hand")
        return self._undo.enter_context(vocabulary_of_file(self.model.proved.path))

    @cached_property
    def _ambiguous(self) -> frozenset[bytes]:
        """Texts that several tokens have."""
        counts = Counter(piece.decode(errors="ignore").encode() for piece in self.vocabulary.pieces)
        return frozenset(piece for piece, count in counts.items() if count > 1)

    def require_plain(self, request: VerdictRequest) -> None:
        """Raise SampleError for a text of the user's that holds markup of the model: the server would read it so."""
        for piece in (piece for node in request.path for piece in node if not piece.trusted):
            if self.vocabulary.has_markup(piece.text):
                raise SampleError(
                    "the text holds what the model reads as markup, and this server cannot be told that it is none",
                    hint="use llama-server, or the model's file itself",
                )

    def start_over(self) -> None:
        """Evaluate the next beginning from its first token."""
        self._held = ""

    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Of the raw logits; one call, and one for each token that its answer does not tell."""
        by_id = self._read(place, wanted)
        return {token: by_id[token] if token in by_id else self._read(place, [token])[token] for token in wanted}

    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Under a grammar of one line, the most likely token at each step; tokenised again here."""
        reply = self._at(place, max_tokens=most, grammar=one_line(end))
        text = inside(reply, "choices", 0, "text")
        if not isinstance(text, str):
            raise ModelError(f"the server at {self.model.address} gives {text!r:.40} as a text")
        return self.vocabulary.user(text)[:most]

    def _read(self, place: AnswerPlace, raised: Sequence[int]) -> dict[int, float]:
        """What one call tells of these tokens; of a single one, always its probability."""
        bias = {str(token): _RAISED for token in raised}
        reply = self._at(place, logit_bias=bias, logit_bias_type="input_ids", logprobs=_PYTHON_SERVER_LISTED)
        reading = inside(reply, "choices", 0, "logprobs")
        taken, listed = inside(reading, "tokens", 0), inside(reading, "top_logprobs", 0)
        of_taken = log_probability(inside(reading, "token_logprobs", 0))
        texts = {token: self.vocabulary.pieces[token].decode(errors="ignore") for token in raised}
        if taken not in texts.values():
            raise ModelError(f"the server at {self.model.address} took {taken!r:.40}, which was not to be chosen")
        if len(raised) == 1:
            return {raised[0]: of_taken}
        if not isinstance(listed, dict):
            raise ModelError(f"the server at {self.model.address} gives {listed!r:.40} as a list of probabilities")
        return {
            token: of_taken if text == taken else log_probability(listed[text])
            for token, text in texts.items()
            if text in listed and text.encode() not in self._ambiguous
        }

    def _at(self, place: AnswerPlace, **how: Any) -> dict[str, Any]:
        """The reply at a place, from a state that hangs on the place alone."""
        shared, prompt = self._text(place.shared), self._text((*place.shared, *place.own))
        if not shared or self._held != shared:
            other = next(text for text in _OTHERS if not prompt.startswith(text))
            self._completed(other)
            if shared:
                self._completed(shared)
                self._held = shared
        if shared:
            self._completed(shared)
        return self._completed(prompt, **how)

    def _text(self, tokens: tuple[int, ...]) -> str:
        """What the tokens spell, without the begin token, which the server puts there itself."""
        begin = self.vocabulary.begin
        spelled = self.vocabulary.decode(list(tokens[1:] if tokens[:1] == (begin,) else tokens))
        try:
            return spelled.decode()
        except UnicodeDecodeError as error:
            raise SampleError(
                "the answer was cut inside a character, and this server takes whole ones alone"
            ) from error

    def _completed(self, prompt: str, *, max_tokens: int = 1, **how: Any) -> dict[str, Any]:
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0.0, "repeat_penalty": 1.0, "seed": 0, **how}
        reply = self._asked("/v1/completions", body)
        self.evaluated_tokens += whole(inside(reply, "usage", "prompt_tokens"), "a number of tokens")
        return reply

    def _refusal(self, error: Refused) -> Exception:
        where = f"the server at {self.model.address}"
        if _WITHOUT_LOGITS in error.said:
            return ModelError(
                f"{where} does not tell probabilities: {error.said}", hint="start it with --logits_all true"
            )
        if _CONTEXT.search(error.said):
            return SampleError(f"{where} has no room for the prompt: {error.said}")
        return OutOfResource(f"{where} failed: {error.said}", hint="look at what it says, and run the command again")


_SERVERS: dict[str, Callable[[ServerConnection, ServedModel], ModelServer]] = {
    LLAMA_SERVER: LlamaServer,
    PYTHON_SERVER: PythonServer,
}
_TAKES = "localjudge takes llama-server and python -m llama_cpp.server"


def served_model(judge: str, settings: EngineSettings) -> ServedModel:
    """What is served at the address that a judge is named by.

    Raises ModelError if there is no server, or one that cannot judge; InputError for an address that is not this
    machine's, or none; OutOfResource for one that does not get ready.
    """
    with closing(ServerConnection(read_address(judge), settings.allow_host)) as connection:
        return _read(connection)


def open_server(model: ServedModel, settings: EngineSettings) -> ModelServer:
    """The server, open and tried. Raises as `served_model` does, and if it serves another model by now."""
    with ExitStack() as undo:
        connection = undo.enter_context(closing(ServerConnection(model.address, settings.allow_host)))
        if _read(connection) != model:
            raise ModelError(f"the server at {model.address} changed its model", hint="run the same command again")
        server: ModelServer = _SERVERS[model.kind](connection, model)
        undo.pop_all()
    return server


def _read(connection: ServerConnection) -> ServedModel:
    try:
        props = _asked(connection, "/props")
    except OutOfResource as error:
        if connection.made:
            raise
        raise ModelError(
            f"there is no server at {connection.address}: {error.message}",
            hint="start it, for example: llama-server -m MODEL.gguf --port 8080",
        ) from error
    if isinstance(props.get("default_generation_settings"), dict):
        return read_llama_server(connection, props)
    models = _asked(connection, "/v1/models").get("data") or []
    owner = models[0].get("owned_by") if isinstance(models, list) and models and isinstance(models[0], dict) else None
    if owner == OWNER:
        return read_python_server(connection, models)
    raise _cannot_judge(connection, owner)


def _cannot_judge(connection: ServerConnection, owner: object) -> ModelError:
    """Why what is there is refused."""
    if "version" in _asked(connection, "/api/version"):
        return ModelError(
            f"at {connection.address} is Ollama, which tells the probabilities of the 20 most likely tokens before the "
            "grammar: not those of the legal answers",
            hint=f"judge with the model's file itself: `localjudge models` lists it, {option('judge', 'ollama:NAME')}",
        )
    if owner is None:
        return ModelError(f"at {connection.address} is no server of a model that localjudge knows", hint=_TAKES)
    return ModelError(
        f"at {connection.address} is a server ({printable(str(owner))}) that does not tell the probabilities of the "
        "legal answers",
        hint=f"judge with the model's file itself ({option('judge', 'MODEL.gguf')}); {_TAKES}",
    )


def _asked(connection: ServerConnection, path: str) -> dict[str, Any]:
    """What is there; nothing for a server that does not know the path."""
    try:
        return connection.get(path)
    except Refused:
        return {}
