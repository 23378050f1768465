"""The engine on a server: prompts and grammars are ours, the tokens' probabilities are the server's.

    request ── tokens, as in process ──> server: log probabilities of the legal tokens ──> verdict, as in process
                                         server: the likely text of a reason            ──> its tokens, each checked

Only the evaluation is elsewhere. What is legal, what it means, and how much of the model's probability went to it is
decided here, with the same code as for a model's file. A reason is written under a grammar by the server; the verdict
is then read in a call of its own.

What a server does besides cannot be seen from here: other people's requests in one batch with ours, options of its
start, a cache of quantised numbers. So an answer is not promised to be the same for ever, and the identity says
"not isolated"; how near it comes is a matter of each server, and stands in its module.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp.constrained_answer import ConstrainedAnswer
from localjudge.engine.llamacpp.tokenized import (
    RequestTokenizer,
    TokenizedQuestions,
    TokenizedRequest,
    tokens_to_evaluate,
)
from localjudge.engine.protocol import EngineStats
from localjudge.engine.server.model_server import AnswerPlace, ModelServer
from localjudge.errors import ModelError, SampleError
from localjudge.judge import prompts
from localjudge.option_spelling import option_name
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest

NOT_ISOLATED = "not isolated"


class ServerEngine:
    """Answers requests with the model of a server, which it closes the connection to.

    Raises ModelError if the context that was asked for is more than the server has.
    """

    def __init__(
        self, server: ModelServer, settings: EngineSettings | None = None, *, begin_of_text: bool | None = None
    ) -> None:
        settings = settings or EngineSettings()
        if begin_of_text is None:
            begin_of_text = prompts.load(server.model.profile or prompts.DEFAULT_PROFILE).begin_of_text
        self._server = server
        self._model = model = server.model
        if settings.n_ctx and settings.n_ctx > model.n_ctx:
            raise ModelError(
                f"the server at {model.address} takes {model.n_ctx:,} tokens at once, and {option_name('n_ctx')} says "
                f"{settings.n_ctx:,}",
                hint=f"start it with a larger context, or leave out {option_name('n_ctx')}",
            )
        self._n_ctx = settings.n_ctx or model.n_ctx
        self._tokenizer = RequestTokenizer(server.vocabulary, begin_of_text=begin_of_text or server.begins_by_itself)
        self._unique = self._generated = 0
        self._total = 0.0

    @classmethod
    def opened(
        cls, server: ModelServer, settings: EngineSettings, *, begin_of_text: bool | None = None
    ) -> "ServerEngine":
        """The engine on a server, which is closed if there can be none; as the model's profile says if None."""
        with ExitStack() as undo:
            undo.callback(server.close)
            engine = cls(server, settings, begin_of_text=begin_of_text)
            undo.pop_all()
        return engine

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
            "begin_of_text": bool(self._tokenizer.begin),
            "shared_prompts": "reused" if self._server.reuses_prefixes else "evaluated again",
            "batching": NOT_ISOLATED,
            **({"host": model.host} if model.host else {}),
        }

    @property
    def name(self) -> str:
        """What people call the model."""
        return self._model.name

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is, or the name that the server has for it."""
        return self._model.metadata

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's chat template puts around a message. Raises ModelError if it cannot be rendered."""
        return self._server.chat(ends=True)

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The chat template for conversations alone."""
        return self._server.chat(ends=False)

    @property
    def forks(self) -> bool:
        """Whether the server evaluates once what requests share."""
        return self._server.reuses_prefixes

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""
        return EngineStats(
            unique_tokens=self._unique,
            evaluated_tokens=self._server.evaluated_tokens,
            generated_tokens=self._generated,
            seconds_inside=self._server.seconds,
            seconds_total=self._total,
        )

    @property
    def capacity(self) -> int:
        """Tokens that fit the context, but for the one that is sampled to read a verdict."""
        return self._n_ctx - 1

    @property
    def memory_bytes(self) -> int:
        """The memory is the server's."""
        return 0

    def length(self, request: VerdictRequest) -> int:
        """Tokens of the prompt and the longest legal answer, up to its last decision."""
        return self._tokenized(request).longest

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens of the tree that the requests form; what the model cannot be shown counts nothing."""
        return tokens_to_evaluate(requests, self._tokenized)

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, as for a model's file."""
        return self._tokenizer.read_back(request)

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request; what is asked twice is asked once. Raises OutOfResource when the server goes away."""
        started = time.perf_counter()
        questions = TokenizedQuestions(requests, self._fitting)
        self._unique += questions.distinct_tokens
        self._total += time.perf_counter() - started
        yield from questions.refused
        self._server.start_over()
        yield from questions.answers(self._answered)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _tokenized(self, request: VerdictRequest) -> TokenizedRequest:
        self._server.require_plain(request)
        return self._tokenizer.tokenize(request)

    def _fitting(self, request: VerdictRequest) -> TokenizedRequest:
        tokenized = self._tokenized(request)
        if tokenized.longest > self.capacity:
            raise SampleError(
                f"the prompt and the longest answer have {tokenized.longest} tokens, and the server's context holds "
                f"{self.capacity}",
                hint="start the server with a larger one",
            )
        return tokenized

    def _answered(self, request: TokenizedRequest) -> tuple[Answer, ...] | NoAnswer:
        """The answers to one request, what they took added to the counts."""
        started = time.perf_counter()
        answer = ConstrainedAnswer(self._tokenizer.constraints, request.grammar, request.explanation)
        try:
            self._write(answer, request)
            return answer.answers()
        except SampleError as error:
            return NoAnswer(error=error.in_one_line)
        finally:
            self._unique += answer.continued_tokens
            self._generated += answer.free_tokens
            self._total += time.perf_counter() - started

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        """Decide until the answer is finished. Raises SampleError if it cannot be."""
        shared = tuple(token for node in request.path[:-1] for token in node)
        own = request.path[-1]
        while not answer.finished:
            place = AnswerPlace(shared, own)
            own = self._decided(answer, place) if answer.wanted else self._with_reason(answer, place)
            if not answer.finished and len(shared) + len(own) > request.longest:
                raise SampleError(f"the answer did not end within the {request.longest} tokens kept for it")

    def _decided(self, answer: ConstrainedAnswer, place: AnswerPlace) -> tuple[int, ...]:
        """The tokens behind a verdict, which is read from the legal tokens; what is left of 1 is no answer's."""
        found = self._server.log_probabilities(place, answer.wanted)
        scores = np.full(self._tokenizer.size, -np.inf, dtype=np.float64)
        scores[list(found)] = list(found.values())
        legal = float(np.exp(scores).sum())
        beside = next(token for token in range(len(scores)) if token not in found)
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
            legal = next((one for one in (token, *end) if answer.is_legal(one)), None)
            if legal is None:
                raise SampleError("the server wrote a reason that the grammar does not allow")
            answer.take(self._only(legal))
            own = (*own, *answer.pending)
        return own

    def _only(self, token: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Scores by which this token is chosen."""
        scores = np.zeros(self._tokenizer.size)
        scores[token] = 1.0
        return scores
