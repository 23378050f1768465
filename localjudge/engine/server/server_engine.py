"""Judge with a llama-server. Prompts and grammars are applied here; the server returns probabilities of tokens.

Verdicts. The server returns log probabilities, before samplers and grammar, of the chosen token and the most likely
ones. `logit_bias` raises the valid tokens, so one of them is chosen. If another is not listed, a second call returns
the shares of the valid tokens after sampling, to about four digits (1000 is added to a logit in single precision).

Isolation. The server reuses the longest prefix in its cache, so an answer would depend on earlier requests: the logits
of one prompt differed by 0.06 with a 0.5B model. Three calls evaluate each prompt from the same state:

    shared            cache_prompt false   evaluates all tokens
    shared            cache_prompt true    evaluates the last token again
    shared + suffix   cache_prompt true    evaluates the suffix

Another number of cached tokens shows that another client uses the slot. Other requests in a batch and a quantised cache
cannot be detected, so the identity says "not isolated".

Vocabulary. The server does not report which tokens it matches in plain text (llama.cpp's USER_DEFINED). Without the
model's file, every token that looks like markup is therefore reserved: `<div>` as well as `<|im_end|>`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from hashlib import sha256
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np

from localjudge.engine.decoding import REASON_END, ConstrainedAnswer, DecodingEngine, TokenizedRequest
from localjudge.engine.llamacpp.model import vocabulary_of_file
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.served_model import LLAMA_SERVER, ServedModel, inside, read_model, whole
from localjudge.engine.tokens import ChatTemplate, TokenTable, Vocabulary, is_reserved
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.types import Answer, NoAnswer, VerdictRequest
from localjudge.words import option_name

_Tokens = tuple[int, ...]
_RAISED = 1000.0
_LEAST = -700.0
"""Log probability for a probability of 0."""
_LOWEST = -1e39  # below all single-precision numbers
_ROUNDING = 1e-3
_LISTED = 256
"""Number of most likely tokens to request, about 32 kB."""
_TRIES = 3
_FIELDS = ["completion_probabilities", "tokens", "tokens_evaluated", "timings", "truncated"]
_FOLDING = (3, 4)
"""WordPiece and Unigram in llama.cpp's `llama_vocab_type`, which fold case or accents."""
_MARKUP = re.compile(rb"<[^<>\s]+>|\[[^\[\]\s]*[A-Za-z][^\[\]\s]*\]")
_REASON = r'''root ::= ([^"\\\x00-\x1F\x7F-\x9F] | "\\" ["\\/bfnrt])+ "\""'''
"""llama.cpp grammar of a reason: the rest of a JSON string in one line."""
_TRIAL = "The bridge over the river opened in 1936, was widened twice, and a toll of 50 cents was charged until 1954."
_TRIAL_SUFFIX = 6


def open_server(model: ServedModel, settings: EngineSettings, *, begin_of_text: bool = True) -> "ServerEngine":
    """Open the engine on the server. Raises the errors of `served_model`, and ModelError if the model has changed."""
    with ExitStack() as undo:
        connection = undo.enter_context(closing(ServerConnection(model.address, settings.allow_host)))
        if read_model(connection) != model:
            raise ModelError(f"the server at {model.address} changed its model", hint="run the same command again")
        engine = ServerEngine(connection, model, settings, begin_of_text=begin_of_text)
        undo.pop_all()
    return engine


class ServerEngine(DecodingEngine):
    """Engine on a llama-server. Raises ModelError if the requested context exceeds the server's.

    `answers` raises OutOfResource if the server is gone, used by others, or serves another model.
    """

    ignored_settings = ("threads", "gpu_layers")
    memory_bytes = 0
    _larger_context = "start the server with a larger one"

    def __init__(
        self, connection: ServerConnection, model: ServedModel, settings: EngineSettings, *, begin_of_text: bool
    ) -> None:
        self.name, self.metadata = model.name, model.metadata
        self._model = model
        self._connection = connection
        self._compared = connection.made
        self._undo = ExitStack()
        self._undo.callback(connection.close)
        self._cached_prefix: _Tokens | None = None
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
            begin_of_text=begin_of_text,
            template=ChatTemplate(model.chat_template, model.bos, model.eos) if model.chat_template else None,
        )
        self.shares_prefixes = True
        self.shares_prefixes = self._can_reuse_prefixes()

    @property
    def identity(self) -> dict[str, Any]:
        model, proved, template = self._model, self._model.proved, self._model.chat_template
        facts = {"model_sha256": proved.file.sha256, "model_size": proved.file.size} if proved else model.facts
        rendered = {"chat_template_sha256": sha256(template.encode(errors="replace")).hexdigest()} if template else {}
        return {
            "engine": "server",
            "server": LLAMA_SERVER,
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
        self._cached_prefix = None
        yield from super().answers(requests)

    def close(self) -> None:
        self._undo.close()

    @property
    def _evaluated(self) -> tuple[int, float]:
        return self._evaluated_tokens, self._seconds_waited

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        shared = tuple(token for node in request.path[:-1] for token in node)
        suffix = request.path[-1]
        while not answer.finished:
            append = self._append_verdict if answer.wanted else self._append_reason
            suffix = append(answer, shared, suffix)
            if not answer.finished:
                request.require_room(len(shared) + len(suffix) - 1)

    def _append_verdict(self, answer: ConstrainedAnswer, shared: _Tokens, suffix: _Tokens) -> _Tokens:
        """Append a verdict to the suffix. One invalid token gets the remaining probability."""
        logarithms = self._log_probabilities(shared, suffix, answer.wanted)
        scores = np.full(self.vocabulary.size, -np.inf, dtype=np.float64)
        scores[list(logarithms)] = list(logarithms.values())
        legal = float(np.exp(scores).sum())
        other = next(token for token in range(len(scores)) if token not in logarithms)
        scores[other] = np.log(max(1.0 - legal, np.finfo(np.float64).tiny))
        answer.take(scores)
        return (*suffix, *answer.pending)

    def _append_reason(self, answer: ConstrainedAnswer, shared: _Tokens, suffix: _Tokens) -> _Tokens:
        """Append a reason to the suffix. Raises SampleError if it cannot be closed."""
        end = self.vocabulary.user(REASON_END)[-1:]
        likely: list[int] = []
        if most := answer.reason_left:
            how = {"grammar": _REASON, "samplers": ["top_k"], "top_k": 1, "return_tokens": True}
            likely = self._tokens_in(self._reply_after(shared, suffix, predict=most, **how))
        for token in (*likely, *end):
            if answer.finished or answer.wanted:
                break
            legal = next((candidate for candidate in (token, *end) if answer.is_legal(candidate)), None)
            if legal is None:
                raise SampleError("the server wrote a reason that the grammar does not allow")
            scores = np.zeros(self.vocabulary.size)
            scores[legal] = 1.0
            answer.take(scores)
            suffix = (*suffix, *answer.pending)
        return suffix

    def _log_probabilities(self, shared: _Tokens, suffix: _Tokens, wanted: Sequence[int]) -> Mapping[int, float]:
        """Return the natural log probability of each token after a prompt, before any grammar."""
        raised = [[token, _RAISED] for token in wanted]
        reply = self._reply_after(shared, suffix, n_probs=_LISTED, logit_bias=raised)
        likely = inside(reply, "completion_probabilities", 0)
        by_id = self._by_token([*inside(likely, "top_logprobs", kind=list), likely])
        if all(token in by_id for token in wanted):
            return {token: by_id[token] for token in wanted}
        reply = self._reply_after(shared, suffix, n_probs=len(wanted), logit_bias=raised, post_sampling_probs=True)
        shares = self._shares(inside(reply, "completion_probabilities", 0, "top_probs", kind=list))
        reference = max(by_id.keys() & shares.keys(), key=shares.__getitem__, default=None)
        if reference is None:
            raise ModelError(f"the server at {self._model.address} gives probabilities of other tokens than requested")
        scale = by_id[reference] - shares[reference]
        return {token: by_id.get(token, max(shares.get(token, _LEAST) + scale, _LEAST)) for token in wanted}

    def _reply_after(self, shared: _Tokens, suffix: _Tokens, **how: Any) -> dict[str, Any]:
        """Return the reply to a prompt, from a state that depends only on the prompt."""
        prompt = (*shared, *suffix)
        if not (self.shares_prefixes and shared):
            return self._complete(prompt, cached=None, **how)
        for _ in range(_TRIES):
            if self._cached_prefix != shared:
                self._complete(shared, cached=None, predict=0)
                self._cached_prefix = shared
            again = self._complete(shared, cached=len(shared) - 1, predict=0)
            reply = self._complete(prompt, cached=len(shared), **how) if again else again
            if reply:
                return reply
            self._cached_prefix = None
        raise OutOfResource(
            f"the server at {self._model.address} lost its cached prompt: another program is using it",
            hint="wait until it is free, or start it with --parallel 1 for this run; then run the same command again",
        )

    def _complete(self, prompt: _Tokens, *, cached: int | None, predict: int = 1, **how: Any) -> dict[str, Any]:
        """Return the reply, or {} if the cache did not supply `cached` tokens (None: not used)."""
        body = {
            "prompt": list(prompt),
            "n_predict": predict,
            "cache_prompt": cached is not None,
            "id_slot": 0,
            "samplers": [],
            "mirostat": 0,
            "grammar": "",
            "temperature": 1.0,
            "seed": 0,
            "response_fields": _FIELDS,
            **how,
        }
        reply: dict[str, Any] = self._ask("/completion", body)
        if inside(reply, "tokens_evaluated") != len(prompt) or reply.get("truncated"):
            raise ModelError(
                f"the server at {self._model.address} changed the {len(prompt):,} tokens of a prompt",
                hint="start it without options that shift or cut its context",
            )
        taken = whole(inside(reply, "timings", "cache_n"), "a number of tokens")
        self._evaluated_tokens += len(prompt) - taken
        return reply if cached is None or taken == cached else {}

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        started = perf_counter()
        try:
            reply = self._connection.ask(path, body)
        except Refused as error:
            raise self._refusal(error) from error
        finally:
            self._seconds_waited += perf_counter() - started
        made = self._connection.made
        if made != self._compared:
            self._cached_prefix = None
            now = read_model(self._connection)
            if now != self._model:
                raise OutOfResource(
                    f"the server at {now.address} changed its model: {self.name} ({self._model.build}) before, "
                    f"{now.name} ({now.build}) now",
                    hint="start it with the first model again, and run the same command to resume",
                )
            self._compared = made  # only now: replies over an unchecked connection are not trusted
        return reply

    def _refusal(self, error: Refused) -> Exception:
        where = f"the server at {self._model.address}"
        if not error.is_permanent:
            return OutOfResource(f"{where} failed: {error.said}", hint="see its log, and run the command again")
        return SampleError(f"{where} has no room for the prompt: {error.said}") if "context" in error.said else error

    def _can_reuse_prefixes(self) -> bool:
        """Return whether the server gives the same bits after each return to a shared prefix."""
        tokens = tuple(self._tokenize(_TRIAL))
        shared, suffix, wanted = tokens[:-_TRIAL_SUFFIX], tokens[-_TRIAL_SUFFIX:], tokens[:2]
        self._log_probabilities((), tokens, wanted)
        try:
            first, *others = [self._log_probabilities(shared, suffix, wanted) for _ in range(_TRIES)]
        except OutOfResource:
            return False
        finally:
            self._cached_prefix = None
        return bool(shared) and all(trial == first for trial in others)

    def _open_vocabulary(self) -> Vocabulary:
        if self._model.proved:
            return self._undo.enter_context(vocabulary_of_file(self._model.proved.file.path))
        meta = inside(self._ask("/v1/models"), "data", 0, "meta", kind=dict)
        if meta.get("vocab_type") in _FOLDING:
            raise ModelError(f"the model at {self._model.address} cannot judge: its tokens fold case or accents")
        size, any_token = self._model.vocabulary_size, self._tokenize("a")[0]
        reply = self._complete((any_token,), cached=None, n_probs=size, logit_bias=[[any_token, _RAISED]])
        rows = inside(reply, "completion_probabilities", 0, "top_logprobs")
        try:
            by_id = {self._token(row["id"]): bytes(row["bytes"]) for row in rows}
        except (LookupError, TypeError, ValueError):
            by_id = {}
        if len(by_id) != size or not any(by_id.values()):
            raise ModelError(f"the server at {self._model.address} does not list its {size:,} tokens with their bytes")
        control = {token for token, piece in by_id.items() if not piece}  # listed without bytes
        for token in control:
            by_id[token] = str(inside(self._ask("/detokenize", {"tokens": [token]}), "content")).encode()
        pieces = [by_id[token] for token in range(size)]
        begins = self._tokenize("", special=True, begin=True)
        ends = self._tokenize(self._model.eos, special=True) if self._model.eos else []
        table = TokenTable(
            pieces=pieces,
            exact=True,
            reserved={
                token: piece
                for token, piece in enumerate(pieces)
                if (token in control or _MARKUP.fullmatch(piece.strip()))
                and is_reserved(piece, control=token in control)
            },
            byte_tokens={piece: token for token, piece in enumerate(pieces) if len(piece) == 1},
            bos=begins[0] if begins else -1,
            eos=ends[0] if len(ends) == 1 else -1,
            begin=begins[0] if begins else None,
            tokenize=lambda data: self._tokenize(data.decode()),
        )
        return Vocabulary(table, self._model.chat_template)

    def _tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> list[int]:
        return self._tokens_in(
            self._ask("/tokenize", {"content": text, "add_special": begin, "parse_special": special})
        )

    def _tokens_in(self, reply: Any) -> list[int]:
        return [self._token(token) for token in inside(reply, "tokens", kind=list)]

    def _token(self, value: Any) -> int:
        return whole(value, "a token", most=self._model.vocabulary_size - 1)

    def _by_token(self, rows: Sequence[Any]) -> dict[int, float]:
        """Return natural log probabilities by token. Raises ModelError for impossible ones."""
        by_id = {self._token(inside(row, "id")): _log_probability(inside(row, "logprob")) for row in rows}
        total = math.fsum(map(math.exp, by_id.values()))
        if total > 1 + _ROUNDING:
            raise ModelError(f"the server's probabilities add up to {total:.3g}")
        return by_id

    def _shares(self, rows: Sequence[Any]) -> dict[int, float]:
        """Return log shares after sampling. Raises ModelError for impossible ones."""
        shares = {self._token(inside(row, "id")): inside(row, "prob") for row in rows}
        if not shares or not all(isinstance(share, float | int) and 0 < share <= 1 for share in shares.values()):
            raise ModelError(f"the server at {self._model.address} gives {shares!r:.80} as probabilities")
        return {token: math.log(share) for token, share in shares.items()}


def _log_probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LOWEST <= value <= _ROUNDING:
        raise ModelError(f"the server gives {value!r:.40} as the logarithm of a probability")
    return min(float(value), 0.0)
