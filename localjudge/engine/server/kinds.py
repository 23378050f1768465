"""Detect the kind of server and check that it can judge: it must return the probability of each valid answer.

    /props with a context                 llama-server
    /v1/models and /extras/tokenize       python -m llama_cpp.server
    anything else                         refused, with advice

Verdicts. Both servers return log probabilities of the raw logits, before samplers and grammar, for the chosen token;
llama-server also for the most likely tokens. `logit_bias` raises exactly the valid tokens, so one of them is chosen
and its probability is exact. If a valid token is missing among the most likely ones, llama-server is called again for
the shares of the valid tokens after sampling (about four correct digits, because 1000 is added to a logit in single
precision), and llama_cpp.server, which names tokens by text, once for each missing token.

Isolation. A server continues from the longest prefix in its cache, so by default an answer depends on earlier requests
(0.06 in the logits of one prompt with a 0.5 B model). Each prompt is therefore evaluated from one defined state:

    llama-server                                      llama_cpp.server, which always reuses its cache
    shared          cache_prompt false   from scratch .               another text, which clears the cache
    shared          cache_prompt true    last token   shared, shared  from its first token, then its last one again
    shared + own    cache_prompt true    own tokens   shared + own    new tokens

llama-server reports the number of tokens taken from its slot. Another number means that another client uses the slot.
A model that cannot return to a shared prefix (recurrent memory) is evaluated from scratch.

Without the model file, llama-server lists its vocabulary: each token with its bytes, and control tokens without, so
their literals are requested. No list shows which tokens match in plain text (llama.cpp's USER_DEFINED), so every token
that looks like markup is reserved, `<div>` as well as `<|im_end|>`.

llama_cpp.server takes text and reveals neither vocabulary nor chat template. So the model file must be on this machine,
and the tokens of a few texts are compared with it. A LoRA adapter (--lora_path) cannot be detected. The server parses
control tokens in all text, so user text with such a literal gets no answer.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from localjudge.engine.decoding import TokenizedRequest
from localjudge.engine.llamacpp.model import vocabulary_of_file
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.connection import Refused, ServerConnection, read_address
from localjudge.engine.server.server_engine import (
    AnswerPlace,
    ServedModel,
    ServerEngine,
    by_token,
    inside,
    log_probability,
    proved_file,
    tokens_in,
    whole,
)
from localjudge.engine.tokens import TokenTable, Vocabulary, is_reserved
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.types import VerdictRequest
from localjudge.words import option, printable

LLAMA_SERVER = "llama-server"
PYTHON_SERVER = "llama_cpp.server"
_RAISED = 1000.0
_LEAST = -700.0
"""Log probability used for a probability of 0."""
_LISTED = 256
"""Number of most likely tokens to request, about 32 kB."""
_TRIES = 3
_UNKNOWN = (404, 405, 501)
_FACTS = {"size": "weight_bytes", "n_params": "parameters", "n_embd": "width"}
"""Size fields of /v1/models, with their names in an identity."""
_FIELDS = ["completion_probabilities", "tokens", "tokens_evaluated", "timings", "truncated"]
_FOLDING = (3, 4)
"""llama.cpp's numbers of WordPiece and Unigram (`llama_vocab_type`), which fold case or accents."""
_MARKUP = re.compile(rb"<[^<>\s]+>|\[[^\[\]\s]*[A-Za-z][^\[\]\s]*\]")
_TRIALS = (
    "The bridge over the river opened in 1936, was widened twice, and a toll of 50 cents was charged until 1954.",
    "Straße, naïve café, Ελλάδα, мост, 桥梁 und 😀",
    "def opened(year):\n    return {'bridge': year >= 1936}",
)
"""Texts in several scripts for comparing two vocabularies."""
_TRIAL_OWN = 6
_OTHERS = (".", "a")
"""Texts that clear the cache; the second one for a prompt that begins with the first."""
_CONTEXT = re.compile(r"context (?:length is|window of) (\d+)")


def one_line(end: str) -> str:
    """Return a llama.cpp grammar for at least one character up to the end of the line."""
    controls = "\\x00-\\x1F\\x7F-\\x9F"
    if end == '"':
        return f'root ::= ([^"\\\\{controls}] | "\\\\" ["\\\\/bfnrt])+ "\\""'
    inside_class = f"\\{end}" if end in "\\[]^-" else end
    literal = f"\\{end}" if end == "\\" else end
    return f'root ::= [^{inside_class}{controls}]+ "{literal}"'


def _read_llama_server(connection: ServerConnection, props: Mapping[str, Any]) -> ServedModel:
    """Read the server's model description and compare it with the file, if that is on this machine."""
    meta = inside(connection.ask("/v1/models"), "data", 0, "meta", kind=dict)
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
        # 0 from a router, which has no model of its own.
        n_ctx=whole(inside(props, "default_generation_settings", "n_ctx"), "its context", least=1),
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
    """Raise ModelError for a model with LoRA adapters, whose path and size still describe its base file."""
    for row in _ask_if_known(connection, "/lora-adapters", list):
        if inside(row, "scale") != 0:
            raise ModelError(
                f"the server at {connection.address} changes its model by a LoRA adapter, "
                f"{printable(str(row.get('path')))[:200]!r}",
                hint="merge it into a model of its own (llama-export-lora), or start the server without --lora",
            )


class LlamaServer(ServerEngine):
    """Engine on a llama-server. Tests whether the server can return to a shared prefix."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.shares_prefixes = self._can_go_back()

    def _open_vocabulary(self) -> Vocabulary:
        if self._model.proved:
            return super()._open_vocabulary()
        meta = inside(self._ask("/v1/models"), "data", 0, "meta", kind=dict)
        if meta.get("vocab_type") in _FOLDING:
            raise ModelError(f"the model at {self._model.address} cannot judge: its tokens fold case or accents")
        return Vocabulary(self._listed_tokens(), self._model.chat_template)

    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Return log probabilities of the raw logits. Takes a second call if a valid token is not among the most
        likely.
        """
        raised = [[token, _RAISED] for token in wanted]
        likely = inside(self._at(place, n_probs=_LISTED, logit_bias=raised), "completion_probabilities", 0)
        by_id = by_token(inside(likely, "top_logprobs", kind=list), self._model.vocabulary_size)
        by_id |= by_token([likely], self._model.vocabulary_size)
        if all(token in by_id for token in wanted):
            return {token: by_id[token] for token in wanted}
        reply = self._at(place, n_probs=len(wanted), logit_bias=raised, post_sampling_probs=True)
        shares = self._shares(inside(reply, "completion_probabilities", 0, "top_probs", kind=list))
        reference = max(by_id.keys() & shares.keys(), key=shares.__getitem__, default=None)
        if reference is None:
            raise ModelError(f"the server at {self._model.address} gives shares of tokens that it did not choose among")
        scale = by_id[reference] - shares[reference]
        return {token: by_id.get(token, max(shares.get(token, _LEAST) + scale, _LEAST)) for token in wanted}

    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Return the most likely token at each step, under a grammar of one line."""
        reply = self._at(place, predict=most, grammar=one_line(end), samplers=["top_k"], top_k=1, return_tokens=True)
        return tokens_in(reply, self._model.vocabulary_size)

    def _at(self, place: AnswerPlace, **how: Any) -> dict[str, Any]:
        """Return the reply at a place, from a slot state that depends only on the place."""
        prompt = (*place.shared, *place.own)
        if not (self.shares_prefixes and place.shared):
            return self._complete(prompt, cached=None, **how)
        for _ in range(_TRIES):
            if self._held != place.shared:
                self._complete(place.shared, cached=None, predict=0)
                self._held = place.shared
            again = self._complete(place.shared, cached=len(place.shared) - 1, predict=0)
            reply = self._complete(prompt, cached=len(place.shared), **how) if again else again
            if reply:
                return reply
            self._held = None
        raise OutOfResource(
            f"the server at {self._model.address} forgets what it was just asked: somebody else is using it",
            hint="wait until nobody does, or start it with --parallel 1 for this run; then run the same command again",
        )

    def _complete(self, prompt: tuple[int, ...], *, cached: int | None, predict: int = 1, **how: Any) -> dict[str, Any]:
        """Return the reply, or {} if the slot did not supply `cached` tokens (None: evaluated from scratch)."""
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
                f"the server at {self._model.address} did not take the {len(prompt):,} tokens of a prompt as they are",
                hint="start it without options that shift or cut its context",
            )
        taken = whole(inside(reply, "timings", "cache_n"), "a number of tokens")
        self._evaluated_tokens += len(prompt) - taken
        return reply if cached is None or taken == cached else {}

    def _refusal(self, error: Refused) -> Exception:
        if "context" in error.said and error.is_for_good:
            return SampleError(f"the server at {self._model.address} has no room for the prompt: {error.said}")
        return super()._refusal(error)

    def _can_go_back(self) -> bool:
        """Return whether the server can return to a shared prefix and gives the same bits each time."""
        tokens = self._tokenize(_TRIALS[0])
        read = tokens[:2]
        self.log_probabilities(AnswerPlace((), tuple(tokens)), read)
        place = AnswerPlace(tuple(tokens[:-_TRIAL_OWN]), tuple(tokens[-_TRIAL_OWN:]))
        try:
            first, *others = [self.log_probabilities(place, read) for _ in range(_TRIES)]
        except OutOfResource:
            return False
        finally:
            self._held = None
        return bool(place.shared) and all(trial == first for trial in others)

    def _tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> list[int]:
        reply = self._ask("/tokenize", {"content": text, "add_special": begin, "parse_special": special})
        return tokens_in(reply, self._model.vocabulary_size)

    def _listed_tokens(self) -> TokenTable:
        """Return the vocabulary that the server lists with its probabilities. Control tokens have no bytes."""
        size, any_token = self._model.vocabulary_size, self._tokenize("a")[0]
        reply = self._complete((any_token,), cached=None, n_probs=size, logit_bias=[[any_token, _RAISED]])
        rows = inside(reply, "completion_probabilities", 0, "top_logprobs")
        try:
            by_id = {whole(row["id"], "a token", most=size - 1): bytes(row["bytes"]) for row in rows}
        except (LookupError, TypeError, ValueError):
            by_id = {}
        if len(by_id) != size or not any(by_id.values()):
            raise ModelError(f"the server at {self._model.address} does not list its {size:,} tokens with their bytes")
        control = {token for token, piece in by_id.items() if not piece}
        for token in control:
            by_id[token] = str(inside(self._ask("/detokenize", {"tokens": [token]}), "content")).encode()
        pieces = [by_id[token] for token in range(size)]
        begins = self._tokenize("", special=True, begin=True)
        ends = self._tokenize(self._model.eos, special=True) if self._model.eos else []
        return TokenTable(
            pieces=pieces,
            exact=True,
            reserved={
                token: piece
                for token, piece in enumerate(pieces)
                if (token in control or _MARKUP.fullmatch(piece.strip()))
                and is_reserved(piece, control=token in control)
            },
            bytes_alone={piece: token for token, piece in enumerate(pieces) if len(piece) == 1},
            bos=begins[0] if begins else -1,
            eos=ends[0] if len(ends) == 1 else -1,
            begin=begins[0] if begins else None,
            tokenize=lambda data: self._tokenize(data.decode()),
        )

    def _shares(self, rows: Sequence[Any]) -> dict[int, float]:
        """Return log shares after sampling, without tokens of share 0."""
        most = self._model.vocabulary_size - 1
        shares = {whole(inside(row, "id"), "a token", most=most): inside(row, "prob") for row in rows}
        if not shares or not all(isinstance(share, float | int) and 0 < share <= 1 for share in shares.values()):
            raise ModelError(f"the server at {self._model.address} gives {shares!r:.80} as shares")
        return {token: math.log(share) for token, share in shares.items()}


def _read_python_server(connection: ServerConnection, models: Sequence[Any]) -> ServedModel:
    """Read the server's model description, and the rest from the model file. Raises ModelError without the file."""
    named = str(inside(models, 0, "id"))
    proved = proved_file(named) if connection.is_local and len(models) == 1 else None
    if proved is None:
        raise ModelError(
            f"the server at {connection.address} names a model {printable(named)[:200]!r}, not the whole path of "
            "a file on this machine, whose vocabulary is needed",
            hint="start it with one model and its whole path: python -m llama_cpp.server --model /PATH/MODEL.gguf "
            "--logits_all true; or use llama-server, which needs no file here",
        )
    with vocabulary_of_file(proved.file.path) as vocabulary:
        _refuse_another(connection, vocabulary, proved.file.path)
        return ServedModel(
            address=connection.address,
            kind=PYTHON_SERVER,
            build=printable(str(inside(connection.ask("/openapi.json"), "info", "version"))),
            called=printable(named),
            n_ctx=_context_of(connection),
            vocabulary_size=vocabulary.size,
            chat_template=vocabulary.chat_template,
            bos=vocabulary.text_of(vocabulary.bos),
            eos=vocabulary.text_of(vocabulary.eos),
            proved=proved,
        )


def _refuse_another(connection: ServerConnection, vocabulary: Vocabulary, path: Path) -> None:
    """Raise ModelError if the server's tokens differ from the file's."""
    for text in _TRIALS:
        reply = connection.ask("/extras/tokenize", {"input": text})
        try:
            tokens = tokens_in(reply, vocabulary.size)
            spelled = vocabulary.decode([token for token in tokens if token not in (vocabulary.bos, vocabulary.eos)])
        except ModelError:
            spelled = b""
        if spelled.strip() != text.encode():
            raise ModelError(
                f"the server at {connection.address} names {printable(str(path))[:200]}, and cuts texts into other "
                "tokens than that file does",
                hint="start the server again with the file as it is now; if it runs in a container or behind a tunnel, "
                "use llama-server, which needs no file here",
            )


def _context_of(connection: ServerConnection) -> int:
    """Return the context size, which the server names when a request is too long."""
    try:
        connection.ask("/v1/completions", {"prompt": "a b " * 200_000, "max_tokens": 1})
    except Refused as error:
        if match := _CONTEXT.search(error.said):
            return int(match[1])
    raise ModelError(f"the server at {connection.address} does not say how many tokens it takes")


class PythonServer(ServerEngine):
    """Engine on a `llama_cpp.server`. Tests whether the server returns probabilities."""

    begins_by_itself = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._texts = Counter(piece.decode(errors="ignore") for piece in self.vocabulary.pieces)
        self._complete("a", logprobs=1)

    def tokenize(self, request: VerdictRequest) -> TokenizedRequest:
        """Tokenize with the model file. Raises SampleError for user text that the server would parse as markup."""
        for piece in (piece for node in request.path for piece in node if not piece.trusted):
            if self.vocabulary.has_markup(piece.text):
                raise SampleError(
                    "the text holds what the model reads as markup, and this server would take it for that",
                    hint="use llama-server, or the model's file itself",
                )
        return super().tokenize(request)

    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Return log probabilities of the raw logits: one call for the most likely tokens, one for each missing token.

        Raises the valid tokens so that one is chosen, because the end token has no list. Some tokens share their text.
        """
        spelled = {token: self.vocabulary.pieces[token].decode(errors="ignore") for token in wanted}
        raised: dict[str, Any] = {
            "logit_bias": {str(token): _RAISED for token in wanted},
            "logit_bias_type": "input_ids",
        }
        reply = self._at(place, logprobs=_LISTED, **raised)
        likely = inside(reply, "choices", 0, "logprobs", "top_logprobs", 0, kind=dict)
        listed = (token for token, text in spelled.items() if text in likely and self._texts[text] == 1)
        by_id = {token: log_probability(likely[spelled[token]]) for token in listed}
        for token in [token for token in wanted if token not in by_id]:
            bias = {str(token): _RAISED}
            reply = self._at(place, logit_bias=bias, logit_bias_type="input_ids", logprobs=1)
            reading = inside(reply, "choices", 0, "logprobs")
            taken = inside(reading, "tokens", 0)
            if taken != spelled[token]:
                raise ModelError(f"the server at {self._model.address} took {taken!r:.40}, which was not to be chosen")
            by_id[token] = log_probability(inside(reading, "token_logprobs", 0))
        return by_id

    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Return the most likely token at each step under a grammar of one line, retokenised here."""
        reply = self._at(place, max_tokens=most, grammar=one_line(end))
        return self.vocabulary.user(inside(reply, "choices", 0, "text", kind=str))[:most]

    def _at(self, place: AnswerPlace, **how: Any) -> dict[str, Any]:
        """Return the reply at a place, from a state that depends only on the place."""
        shared, prompt = self._text(place.shared), self._text((*place.shared, *place.own))
        if not shared or self._held != shared:
            other = next(text for text in _OTHERS if not prompt.startswith(text))
            self._complete(other)
            if shared:
                self._complete(shared)
                self._held = shared
        if shared:
            self._complete(shared)
        return self._complete(prompt, **how)

    def _text(self, tokens: tuple[int, ...]) -> str:
        """Return the text of the tokens without the begin token, which the server adds."""
        begin = self.vocabulary.begin
        spelled = self.vocabulary.decode(list(tokens[1:] if tokens[:1] == (begin,) else tokens))
        try:
            return spelled.decode()
        except UnicodeDecodeError as error:
            raise SampleError(
                "the answer was cut inside a character, and this server takes only whole characters"
            ) from error

    def _complete(self, prompt: str, *, max_tokens: int = 1, **how: Any) -> dict[str, Any]:
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0.0, "repeat_penalty": 1.0, "seed": 0, **how}
        reply: dict[str, Any] = self._ask("/v1/completions", body)
        self._evaluated_tokens += whole(inside(reply, "usage", "prompt_tokens"), "a number of tokens")
        return reply

    def _refusal(self, error: Refused) -> Exception:
        where = f"the server at {self._model.address}"
        if "logits_all" in error.said:
            return ModelError(
                f"{where} does not tell probabilities: {error.said}", hint="start it with --logits_all true"
            )
        if _CONTEXT.search(error.said):
            return SampleError(f"{where} has no room for the prompt: {error.said}")
        return OutOfResource(f"{where} failed: {error.said}", hint="see its log, and run the command again")


_ENGINES: dict[str, type[ServerEngine]] = {LLAMA_SERVER: LlamaServer, PYTHON_SERVER: PythonServer}


def served_model(judge: str, settings: EngineSettings) -> ServedModel:
    """Identify the model at the address in a judge's name.

    Raises ModelError if there is no server or it cannot judge; InputError for an invalid address or another machine;
    OutOfResource for a server that does not become ready.
    """
    with closing(ServerConnection(read_address(judge), settings.allow_host)) as connection:
        return _read(connection)


def open_server(model: ServedModel, settings: EngineSettings, *, begin_of_text: bool = True) -> ServerEngine:
    """Open the engine on the server. Raises the errors of `served_model`, also if the model has changed."""
    with ExitStack() as undo:
        connection = undo.enter_context(closing(ServerConnection(model.address, settings.allow_host)))
        if _read(connection) != model:
            raise ModelError(f"the server at {model.address} changed its model", hint="run the same command again")
        engine = _ENGINES[model.kind](connection, model, _read, settings, begin_of_text=begin_of_text)
        undo.pop_all()
    return engine


def _read(connection: ServerConnection) -> ServedModel:
    try:
        props = _ask_if_known(connection, "/props")
    except OutOfResource as error:
        if connection.made:
            raise
        raise ModelError(
            f"there is no server at {connection.address}: {error.message}",
            hint="start it, for example: llama-server -m MODEL.gguf --port 8080",
        ) from error
    if isinstance(props.get("default_generation_settings"), dict):
        return _read_llama_server(connection, props)
    models = _ask_if_known(connection, "/v1/models").get("data") or []
    owner = models[0].get("owned_by") if isinstance(models, list) and models and isinstance(models[0], dict) else None
    if owner == "me":  # as llama_cpp.server calls it
        return _read_python_server(connection, models)
    raise ModelError(
        f"the server at {connection.address} {'' if owner is None else f'({printable(str(owner))[:80]}) '}does not "
        "tell the probabilities of the valid answers",
        hint="use llama-server or python -m llama_cpp.server; of Ollama and LM Studio, judge with the model's file: "
        f"{option('judge', 'ollama:NAME')}, as `localjudge models` lists it",
    )


def _ask_if_known(connection: ServerConnection, path: str, kind: type[Any] = dict) -> Any:
    try:
        return connection.ask(path, kind=kind)
    except Refused as error:
        if error.status not in _UNKNOWN:
            raise
        return kind()
