"""`python -m llama_cpp.server`, llama-cpp-python's own: it is asked in text, and answers as OpenAI's completions do.

It takes no tokens, and tells neither its vocabulary nor its chat template. So the model's file has to be at hand, on
this machine and under the name that the server gives it: what is legal, and what would be markup, is read there. Tokens
of a few texts are held against that file's; a LoRA adapter (--lora_path) shows nowhere.

Text is tokenised by the server as a whole, with control tokens parsed. A text of the user's that holds such a literal
cannot be shown as text, and gets no answer. The tokens are not always those of the same prompt in process, where pieces
are tokenised apart.

The decision. `logprobs` gives logarithms of probabilities of the raw logits, before `logit_bias`, of the most likely
tokens by their text and of the one that was taken. The legal tokens are raised, so one of them is taken. Another is
looked up by its text, where no other token of the vocabulary has the same; else it is asked for alone. The server has
to be started with `--logits_all true`.

Alone in a crowd. The server always goes on from the longest beginning that it still holds. So it is led to one state:

    .                 another text, which makes it forget
    shared, shared    from its first token, then its last token alone, again; from here on once for each that shares it
    shared + own      what is new
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from localjudge.engine.llamacpp.model import vocabulary_of_file
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.gbnf import one_line
from localjudge.engine.server.model_server import AnswerPlace, ModelServer
from localjudge.engine.server.numbers import inside, log_probability, tokens_in, whole
from localjudge.engine.server.served_model import ServedModel, proved_file
from localjudge.errors import ModelError, OutOfResource, SampleError
from localjudge.printable import printable
from localjudge.types import VerdictRequest

KIND = "llama_cpp.server"
OWNER = "me"
"""Whose its models are, as it says."""
_LISTED = 64
_RAISED = 1000.0
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


def read_model(connection: ServerConnection, models: Sequence[Any]) -> ServedModel:
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
        kind=KIND,
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
        if found := _CONTEXT.search(error.said):
            return int(found[1])
    raise ModelError(f"the server at {connection.address} does not say how many tokens it takes")


class PythonServer(ModelServer):
    """A `llama_cpp.server` that is open. Raises ModelError for one whose answers are not as they should be."""

    begins_by_itself = True

    def __init__(self, connection: ServerConnection, model: ServedModel) -> None:
        super().__init__(connection, model, lambda again: read_model(again, inside(again.get("/v1/models"), "data")))
        self._held = ""

    @classmethod
    def opened(cls, connection: ServerConnection, model: ServedModel) -> "PythonServer":
        """The server, tried: it gives probabilities."""
        server = cls(connection, model)
        with ExitStack() as undo:
            undo.callback(server.close)
            server._completed("a", logprobs=1)
            undo.pop_all()
        return server

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
        found = self._read(place, wanted)
        return {token: found[token] if token in found else self._read(place, [token])[token] for token in wanted}

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
        reply = self._at(place, logit_bias=bias, logit_bias_type="input_ids", logprobs=_LISTED)
        told = inside(reply, "choices", 0, "logprobs")
        taken, listed = inside(told, "tokens", 0), inside(told, "top_logprobs", 0)
        of_taken = log_probability(inside(told, "token_logprobs", 0))
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
