"""llama-server, asked through its own calls (/props, /tokenize, /detokenize, /completion), in tokens and not in text.

The decision. `n_probs` gives logarithms of probabilities of the raw logits, before samplers and grammar, of the most
likely tokens and of the one that was sampled. So the legal tokens, and they alone, are raised by `logit_bias`: one of
them is sampled, whatever the model prefers, and its probability is known. Those of the others mostly stand among the
most likely ones; where one does not, a second call gives the shares of the legal tokens after sampling, which the first
one turns into probabilities. So `p_yes` and the legal mass are what they are in process, as exactly as that: of a token
that is listed, the same to the last digit (held against the list of all 151,936 tokens of Qwen2.5-Coder-0.5B); of one
that is not, right to about the fourth digit, as 1000 is added to a logit in single precision. (Shares after a grammar
were the same to the last digit; they are not what is asked for.)

Alone in a crowd. The server answers from the longest beginning that its slot still holds, so by default an answer
depends on what was asked before: the logits of one prompt moved by 0.06, of a 0.5 B model, Q4_K_M. With
`cache_prompt: false` they never did, and every verdict costs its whole prompt. In between:

    shared            cache_prompt false     from its first token; once for all that share it
    shared            cache_prompt true      its last token alone, again: what followed it is forgotten
    shared + own      cache_prompt true      its own tokens, in one go

Each step gives the slot one state, whatever was in it; 22 verdicts in mixed orders had the same bits. The reply says
how many tokens were taken from the slot: if it is not what it should be, somebody else has been there, and it is begun
again. A server that cannot go back to a shared beginning (a recurrent memory, a sliding window) is asked from scratch.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from typing import Any

from localjudge.engine.llamacpp.model import vocabulary_of_file
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.gbnf import one_line
from localjudge.engine.server.listed_tokens import TokenCalls, listed_tokens
from localjudge.engine.server.model_server import AnswerPlace, ModelServer
from localjudge.engine.server.numbers import by_token, inside, tokens_in, whole
from localjudge.engine.server.served_model import ServedModel, proved_file
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.printable import printable

KIND = "llama-server"
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


def read_model(connection: ServerConnection, props: Mapping[str, Any]) -> ServedModel:
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
        kind=KIND,
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
    """A llama-server that is open. Raises ModelError for one whose answers are not as they should be."""

    def __init__(self, connection: ServerConnection, model: ServedModel) -> None:
        super().__init__(connection, model, lambda again: read_model(again, again.get("/props")))
        self._held: tuple[int, ...] = ()
        self.reuses_prefixes = False

    @classmethod
    def opened(cls, connection: ServerConnection, model: ServedModel) -> "LlamaServer":
        """The server, tried: it gives probabilities, and it does or does not go back to a shared beginning."""
        server = cls(connection, model)
        with ExitStack() as undo:
            undo.callback(server.close)
            server.reuses_prefixes = server._can_go_back()
            undo.pop_all()
        return server

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
        found = by_token(inside(likely, "top_logprobs"), self.model.vocabulary_size)
        found |= by_token([likely], self.model.vocabulary_size)
        missing = [token for token in wanted if token not in found]
        if not missing:
            return {token: found[token] for token in wanted}
        shares = self._at(place, n_probs=len(wanted), logit_bias=raised, post_sampling_probs=True)
        share = self._shares(inside(shares, "completion_probabilities", 0, "top_probs"))
        known = max(found.keys() & share.keys(), key=share.__getitem__, default=None)
        if known is None:
            raise ModelError(f"the server at {self.model.address} gives shares of tokens that it did not choose among")
        scale = found[known] - share[known]
        return {token: found.get(token, max(share.get(token, _LEAST) + scale, _LEAST)) for token in wanted}

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
        wanted = tokens[:2]
        self.log_probabilities(AnswerPlace((), (*shared, *own)), wanted)
        if not shared:
            return False
        self.reuses_prefixes = True
        try:
            found = [self.log_probabilities(AnswerPlace(shared, own), wanted) for _ in range(_TRIES)]
        except OutOfResource:
            return False
        finally:
            self.reuses_prefixes = False
            self._held = ()
        return all(one == found[0] for one in found)

    def _tokenized(self, text: str, *, special: bool, begin: bool = False) -> list[int]:
        reply = self._asked("/tokenize", {"content": text, "add_special": begin, "parse_special": special})
        return tokens_in(inside(reply, "tokens"), self.model.vocabulary_size)

    def _text_of(self, tokens: Sequence[int]) -> str:
        return str(inside(self._asked("/detokenize", {"tokens": list(tokens)}), "content"))

    def _pieces(self, calls: TokenCalls) -> list[bytes]:
        """The bytes of each token, from a list of probabilities of all."""
        [one, *_] = calls.plain("a")
        size = self.model.vocabulary_size
        reply = self._completed((one,), cached=None, n_probs=size, logit_bias=[[one, _RAISED]])
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
        found = {whole(inside(row, "id"), "a token", most=most): inside(row, "prob") for row in rows}
        sound = {
            token: math.log(share)
            for token, share in found.items()
            if isinstance(share, float | int) and 0 < share <= 1
        }
        if not sound or len(sound) != len(found):
            raise ModelError(f"the server at {self.model.address} gives shares that are none: {found!r:.80}")
        return sound
