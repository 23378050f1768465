"""vLLM, asked through its completions (OpenAI's form, with token ids) and its /tokenize.

Written by its documentation and tested against a made-up server that speaks so; not tried on a real one.

It tells neither vocabulary nor chat template, so the model's folder (`tokenizer.json`) has to be on this machine and be
what the server was started with. The bytes of its weights are not proved: what tells the model from another is
checksums of the folder's small files, and the sizes of its large ones.

The decision. One call gives the most likely tokens, at most 20 by default (`--max-logprobs`). If all legal ones are
among them, that is all. Else a second call allows the legal tokens alone. What its probabilities are hangs on how the
server was started, and shows in what it lists:

    --logprobs-mode processed_logprobs   shares of the legal tokens; a legal one that was listed gives the scale. If
                                         none was, all have less than any that was listed: 0 is taken, the least
    raw_logprobs (the default)           of the raw logits: each token that is missing is asked for by itself, as the
                                         only one that is allowed

vLLM batches what comes in and keeps prefixes as it sees fit: bits are not promised by it, and not by us.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.server.connection import ServerConnection
from localjudge.engine.server.model_server import AnswerPlace
from localjudge.engine.server.numbers import inside, log_probability, require_shares, tokens_in, whole
from localjudge.engine.server.same_model_server import SameModelServer
from localjudge.engine.server.served_model import ServedModel
from localjudge.engine.server.tokenizer_folder import folder_facts, read_folder
from localjudge.errors import ModelError
from localjudge.printable import printable
from localjudge.types import VerdictRequest

KIND = OWNER = "vllm"
_LISTED = 20
_NONE = -9000.0
"""Below this a logarithm is minus infinity, as JSON has none: vLLM writes -9999."""
_LEAST = -700.0
_PREFIX = "token_id:"
_DIGITS = 9
"""Of a token's number, at most."""
_PLAIN = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
}
"""Nothing that changes probabilities: vLLM takes what is not said from the model's own generation_config.json
(https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html)."""
_ALL = 0.99
"""Shares of all legal tokens add up to 1."""


def read_model(connection: ServerConnection, models: Sequence[Any]) -> ServedModel:
    """What the server says of its model. Raises ModelError where the model's folder is not at hand."""
    [row, *_] = models
    root = Path(str(inside(row, "root")))
    if not (connection.is_local and root.is_absolute() and root.is_dir()):
        raise ModelError(
            f"vLLM at {connection.address} was started with {printable(str(root))[:200]!r}, not with the whole path of "
            "a folder on this machine: which tokens are legal is read there",
            hint="start it with the folder: vllm serve /PATH/MODEL; or take llama-server, which needs no file here",
        )
    folder = read_folder(root)
    return ServedModel(
        address=connection.address,
        kind=KIND,
        build=printable(str(connection.get("/version").get("version", "unknown"))),
        called=printable(str(inside(row, "id"))),
        n_ctx=whole(inside(row, "max_model_len"), "its context"),
        vocabulary_size=len(folder.pieces),
        chat_template=folder.chat_template,
        bos=folder.bos,
        eos=folder.eos,
        facts=folder_facts(root),
    )


class VllmServer(SameModelServer):
    """A vLLM that is open. Raises ModelError for one whose answers are not as they should be."""

    reuses_prefixes = True
    begins_by_itself = False

    def __init__(self, connection: ServerConnection, model: ServedModel) -> None:
        super().__init__(connection, model, lambda again: read_model(again, inside(again.get("/v1/models"), "data")))

    @classmethod
    def opened(cls, connection: ServerConnection, model: ServedModel) -> "VllmServer":
        """The server, tried: it gives probabilities."""
        server = cls(connection, model)
        tokens = server._tokenized("a", special=False)
        server.log_probabilities(AnswerPlace((), tuple(tokens)), tokens[:1])
        return server

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """That of the model's folder; texts are tokenised by the server."""
        models = inside(self._asked("/v1/models"), "data")
        folder = read_folder(Path(str(inside(models, 0, "root"))))
        begins = self._tokenized("", special=True)
        table = folder.table(begins, lambda data: self._tokenized(data.decode(), special=False))
        return Vocabulary(table, self.model.chat_template)

    def require_plain(self, request: VerdictRequest) -> None:
        """Tokens are sent, and no text: nothing is read as markup."""

    def start_over(self) -> None:
        """What it keeps is its own matter."""

    def log_probabilities(self, place: AnswerPlace, wanted: Sequence[int]) -> Mapping[int, float]:
        """Of the raw logits, as far as they can be had: see the top."""
        found = self._listed(place)
        if all(token in found for token in wanted):
            return {token: found[token] for token in wanted}
        allowed = self._listed(place, allowed_token_ids=list(wanted))
        if not allowed:
            raise ModelError(f"vLLM at {self.model.address} gives the legal answers no probability")
        if allowed.keys() <= set(wanted) and math.fsum(map(math.exp, allowed.values())) > _ALL:
            known = max(found.keys() & allowed.keys(), key=allowed.__getitem__, default=None)
            scale = found[known] - allowed[known] if known is not None else _LEAST
            return {token: max(allowed.get(token, _LEAST) + scale, 2 * _LEAST) for token in wanted}
        found |= {token: value for token, value in allowed.items() if token in wanted}
        for token in wanted:
            if token not in found:
                found[token] = self._listed(place, allowed_token_ids=[token]).get(token, _LEAST)
        return {token: found[token] for token in wanted}

    def written(self, place: AnswerPlace, *, end: str, most: int) -> list[int]:
        """Under a regular expression of one line, the most likely token at each step; tokenised again here."""
        line = (
            r'([^"\\\x00-\x1F\x7F-\x9F]|\\["\\/bfnrt])+"'
            if end == '"'
            else rf"[^\x{ord(end):02X}\x00-\x1F]+\x{ord(end):02X}"
        )
        reply = self._completed(place, max_tokens=most, structured_outputs={"regex": line})
        text = inside(reply, "choices", 0, "text")
        if not isinstance(text, str):
            raise ModelError(f"vLLM at {self.model.address} gives {text!r:.40} as a text")
        return self.vocabulary.user(text)[:most]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _listed(self, place: AnswerPlace, **how: Any) -> dict[int, float]:
        """The most likely tokens and the one that was taken; nothing of those that cannot be."""
        reply = self._completed(place, logprobs=_LISTED, return_tokens_as_token_ids=True, **how)
        rows = inside(reply, "choices", 0, "logprobs", "top_logprobs", 0)
        if not isinstance(rows, dict):
            raise ModelError(f"vLLM at {self.model.address} gives {rows!r:.40} as a list of probabilities")
        found = {self._token(name): log_probability(value) for name, value in rows.items()}
        require_shares(found)
        return {token: value for token, value in found.items() if value > _NONE}

    def _token(self, name: str) -> int:
        digits = name.removeprefix(_PREFIX)
        if digits == name or not digits.isdecimal() or len(digits) > _DIGITS:
            raise ModelError(
                f"vLLM at {self.model.address} names a token {name!r:.40}: is it of a version that is too old?"
            )
        return int(digits)

    def _completed(self, place: AnswerPlace, *, max_tokens: int = 1, **how: Any) -> dict[str, Any]:
        prompt = [*place.shared, *place.own]
        body = {
            "model": self.model.called,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "seed": 0,
            **_PLAIN,
            **how,
        }
        reply = self._asked("/v1/completions", body)
        taken = whole(inside(reply, "usage", "prompt_tokens"), "a number of tokens")
        if taken != len(prompt):
            raise ModelError(
                f"vLLM at {self.model.address} did not take the {len(prompt):,} tokens of a prompt as they are"
            )
        self._evaluated += taken
        return reply

    def _tokenized(self, text: str, *, special: bool) -> list[int]:
        body = {"model": self.model.called, "prompt": text, "add_special_tokens": special}
        return tokens_in(inside(self._asked("/tokenize", body), "tokens"), self.model.vocabulary_size)
