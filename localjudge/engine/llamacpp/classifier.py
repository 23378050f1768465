"""Run a model with a classification head in llama.cpp: a sequence in, the head's outputs out.

A verdict has the same bits for any set of other requests, any order and any number of threads,
because each sequence is evaluated by itself, in one step, and removed from memory.

    request    "<s>{share}" (ours)   "Paris ..." (user's)   "</s>" (ours)   ...
    tokens     0 190                 2123 ...               2               ...
    outputs    2.71 = z              p_yes = sigmoid(scale x z + bias)
    answer     {"attributed":1}      the grammar's text for the label nearest to p_yes

A task may need an adapter: low-rank additions to the model's weights, in a registered file. Other
tasks are evaluated without it, to the same bits as by a model that has none.

The model writes nothing, so all of its probability is on valid answers.
"""

import math
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.decoding import answer_texts
from localjudge.engine.llamacpp.context import Encoder
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import (
    EngineSettings,
    EngineStats,
    equal_requests,
    require_room,
)
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.model_registry import ModelFile, find_adapter
from localjudge.progress import Progress
from localjudge.types import (
    CLASSIFIER,
    ONE_HALF,
    SHARE_PLACEHOLDER,
    Answer,
    ChatEnds,
    ClassifierReading,
    Grammar,
    NoAnswer,
    Node,
    Piece,
    VerdictRequest,
    sigmoid,
)

_NODES_KEPT = 4096


class LlamaCppClassifier:
    """Answer requests with one GGUF classifier. Reports a self-test to `progress`.

    `begin_of_text`: whether prompts start with the model's begin token. Raises ModelError if the
    model cannot be used, OutOfResource for too little memory. Equal requests are evaluated once.
    """

    shares_prefixes = True  # nothing can be shared: every token reads all others

    def __init__(
        self,
        file: ModelFile,
        settings: EngineSettings | None = None,
        *,
        begin_of_text: bool = True,
        progress: Progress | None = None,
    ) -> None:
        loaded = load(file, settings or EngineSettings(), progress)
        vocabulary = loaded.model.vocabulary
        with ExitStack() as undo:
            undo.callback(loaded.close)
            self._encoder = Encoder(
                loaded.model.pointer, n_ctx=loaded.n_ctx, threads=loaded.threads
            )
            undo.pop_all()
        self._loaded = loaded
        self._begin = vocabulary.start(begin_of_text=begin_of_text)
        # Not bound to self: a vocabulary in a cycle of references would be freed too late.
        self._tokenize_pieces = lru_cache(maxsize=_NODES_KEPT)(
            partial(_tokenize_pieces, vocabulary)
        )
        self._adapters: dict[str, Path | None] = {"": None}
        """Files by sha256."""
        self._seconds_total = 0.0
        self.vocabulary = vocabulary
        self.outputs = loaded.header.outputs
        self.name = file.name
        self.metadata = loaded.header.metadata
        self.capacity = loaded.n_ctx
        self._trained_context = loaded.header.size("context_length")
        self.memory_bytes = loaded.memory_bytes

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "engine": CLASSIFIER,
            **self._loaded.identity,
            "outputs": list(self.outputs),
            "begin_of_text": bool(self._begin),
        }

    @property
    def chat_ends(self) -> ChatEnds | None:
        return None

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        return None

    @property
    def stats(self) -> EngineStats:
        return EngineStats(
            unique_tokens=self._encoder.evaluated_tokens,
            evaluated_tokens=self._encoder.evaluated_tokens,
            seconds_inside=self._encoder.seconds_inside,
            seconds_total=self._seconds_total,
        )

    def tokenize(self, request: VerdictRequest) -> tuple[tuple[int, ...], int]:
        """Return the tokens of a request, and how many of them are its first text.

        Raises SampleError for unreadable text, ModelError for a request for another kind of model.
        """
        reading = require_reading(request, self.outputs)
        pieces: list[tuple[Piece, tuple[int, ...]]] = []
        for node in request.path:
            pieces += self._tokenize_pieces(node)
        texts = [tokens for piece, tokens in pieces if not piece.trusted]
        first: tuple[int, ...] = ()
        if texts:
            first = texts[0]
        step: tuple[int, ...] = ()
        if reading.share:
            others = frozenset(chain.from_iterable(texts[1:]))
            step = (reading.share[share_step(self.vocabulary, first, others, len(reading.share))],)
        tokens = list(self._begin)
        for piece, piece_tokens in pieces:
            if piece.trusted and SHARE_PLACEHOLDER in piece.text:
                before, after = piece.text.split(SHARE_PLACEHOLDER, 1)
                tokens += [*self.vocabulary.trusted(before), *step, *self.vocabulary.trusted(after)]
            else:
                tokens += piece_tokens
        if self._begin and tokens[1:2] == list(self._begin):
            del tokens[0]
        return tuple(tokens), len(first)

    def length(self, request: VerdictRequest) -> int:
        tokens, _ = self.tokenize(request)
        return len(tokens)

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        total = 0
        for indices in equal_requests(requests):
            with suppress(SampleError):
                total += self.length(requests[indices[0]])
        return total

    def read_back(self, request: VerdictRequest) -> str | None:
        if not self.vocabulary.exact or require_reading(request, self.outputs).share:
            return None
        all_tokens, _ = self.tokenize(request)
        tokens = list(all_tokens)
        begin = self.vocabulary.decode(list(self._begin)).decode(errors="replace")
        if not request.path[0][0].text.startswith(begin):
            tokens = tokens[len(self._begin) :]
        return self.vocabulary.decode(tokens).decode(errors="replace")

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        groups = equal_requests(requests)
        # Changing the adapter takes as long as a short text
        groups.sort(key=lambda indices: _adapter(requests[indices[0]]))
        for indices in groups:
            started = time.perf_counter()
            answer = self._answer(requests[indices[0]])
            self._seconds_total += time.perf_counter() - started
            for index in indices:
                yield index, answer

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        try:
            tokens, first_count = self.tokenize(request)
            beginning = f"the prompt (first text: {first_count} tokens) has"
            require_room(len(tokens), self.capacity, self._trained_context, beginning)
            reading = require_reading(request, self.outputs)
            if reading.adapter not in self._adapters:
                file = find_adapter(reading.adapter, self._loaded.file.sha256)
                self._adapters[reading.adapter] = file
            self._encoder.use(self._adapters[reading.adapter])
            outputs = self._encoder.outputs(tokens)
            return answer_from(outputs, reading, request.grammar)
        except SampleError as error:
            return NoAnswer(error=error.in_one_line)

    def close(self) -> None:
        self._encoder.close()
        self._loaded.close()


def _tokenize_pieces(vocabulary: Vocabulary, node: Node) -> list[tuple[Piece, tuple[int, ...]]]:
    return [(piece, vocabulary.node((piece,))) for piece in node]


def _adapter(request: VerdictRequest) -> str:
    if request.reading is None:
        return ""
    return request.reading.adapter


def require_reading(request: VerdictRequest, outputs: Sequence[str]) -> ClassifierReading:
    """Return how a request reads a head with these outputs.

    Raises ModelError for a request for another kind of model.
    """
    if request.reading is None or request.explanation is not None:
        raise ModelError(
            "this model gives probabilities of classes and writes no text",
            hint="use a prompt profile for its outputs",
        )
    if len(request.reading.outputs) != len(outputs):
        names = ", ".join(outputs)
        expected = ", ".join(request.reading.outputs)
        raise ModelError(
            f"the model's outputs are {names}, and the prompt profile expects {expected}",
            hint="use a prompt profile for its outputs",
        )
    return request.reading


def share_step(
    vocabulary: Vocabulary, first: Sequence[int], others: Collection[int], steps: int
) -> int:
    """Return the step of a share, from 0: of the first text's tokens, in the other texts.

    Tokens are weighted by their information.
    """
    total = 0.0
    covered = 0.0
    for token in first:
        information = max(0.0, -vocabulary.score(token))
        total += information
        if token in others:
            covered += information
    if not total:
        return 0
    share = covered / total
    return min(steps - 1, math.floor(steps * share))


def answer_from(
    outputs: NDArray[np.float32], reading: ClassifierReading, grammar: Grammar
) -> Answer:
    """Read the answer from the head's outputs. Raises SampleError if they are not finite."""
    scores = outputs.astype(np.float64)
    if not np.isfinite(scores).all():
        raise SampleError(
            "the model gave outputs that are not numbers: its file or the build is damaged"
        )
    z = float(scores[0])
    if len(reading.outputs) > 1:
        is_yes = np.array([name in reading.yes for name in reading.outputs])
        z = _log_sum_exp(scores[is_yes]) - _log_sum_exp(scores[~is_yes])
    p_yes = sigmoid(reading.scale * z + reading.bias)
    no, yes = answer_texts(grammar)
    text = no
    if p_yes >= ONE_HALF:
        text = yes
    return Answer(p_yes=p_yes, valid_mass=1.0, raw=text)


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = float(scores.max())
    return peak + math.log(float(np.exp(scores - peak).sum()))
