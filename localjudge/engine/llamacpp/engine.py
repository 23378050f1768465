"""Answers on their way through the cells, one after the other.

instructions ─ context ─ statement 1 {"attributed":     the path is held, the answer grows behind it
instructions ─ context                                  and goes, before the next begins

The engine: llama.cpp in process, driven token by token through its low-level interface.

    resident path     instructions ─ context ─ statement 1 {"attributed":     -> logits -> verdict
    cut back to       instructions ─ context
    resident path     instructions ─ context ─ statement 2 {"attributed":     -> logits -> verdict

Invariant: a verdict is bit-identical whatever else is asked, in any order, with any number of threads. What keeps it:

- One sequence, stack discipline. A path occupies cells 0 .. length-1; nothing else is resident while a verdict is
  decoded. Going to the next request removes cells from the end (a recurrent memory, which cannot be cut, gets the
  state back that was saved there) and evaluates what is new.
- Every node is fed from its own start in steps of `n_ubatch` tokens. Nodes are cut where the prompt profile cuts them,
  shared or not: llama.cpp's kernels round differently for other batch shapes.
- No two statements in one batch, for the same reason: it moved logits by up to 0.18 on a 1.2 B model. Giving each
  statement whole slots of 16 or 64 cells, alone and together, keeps the bits of most Q8_0 and Q4_0 models, but not of
  F16 and Q4_K ones (measured: 0 to 12 and 23 to 51 of 59 logit vectors moved). So each goes alone,
  which costs a pass more for each: as much as about 15 tokens of a batch, on two cores.
- Flash attention is off: with it, one-token steps over 512 cells or more differ between 1 and 2 threads.

Decoding several answers at once, as forks of the path that they share, gave up the second of these and was taken out:
with a 0.5 B instruct model (Q4_K_M, two cores) it took 1 / 1.08 of the processor time, and 1 / 1.56 with reasons before
verdicts. `flash_attention` and `batching` stay in the identity as they were without it, so that answers stored by
earlier versions are found again.

What is known of an engine before its model is loaded: from the file's header, the settings and this machine.

What a model's vocabulary and chat template alone tell: how long requests are, and what stands around them.

An engine is one of these with the weights; one without them costs a tenth of a second, for a process that leaves
answering to others.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any, NamedTuple

from localjudge.engine import tokens as chat
from localjudge.engine.decoding import (
    ConstrainedAnswer,
    Constraints,
    RequestTokenizer,
    TokenizedQuestions,
    TokenizedRequest,
    tokens_to_evaluate,
)
from localjudge.engine.llamacpp import gguf as memory
from localjudge.engine.llamacpp import gguf as model_check
from localjudge.engine.llamacpp.gguf import UBATCH
from localjudge.engine.llamacpp.kv_cache import KVCache, PrefixCache, TokenRun
from localjudge.engine.llamacpp.library import llama_cpp
from localjudge.engine.llamacpp.loading import LoadedModel, load, used_gpu_layers
from localjudge.engine.llamacpp.model import OpenModel, open_model
from localjudge.engine.protocol import EngineSettings, EngineStats, ModelOutline, ModelShape
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import SampleError
from localjudge.judge import profile as prompts
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest


class Decoded(NamedTuple):
    """An answer for each verdict, or why there is none, and what it took.

    `continued` counts the tokens evaluated behind the answer's forced beginning, `free` those that the model chose for
    reasons.
    """

    answers: tuple[Answer, ...] | NoAnswer
    continued: int
    free: int


class IsolatedDecoder:
    """Decodes every answer by itself: nothing but its own path is in the cells."""

    def __init__(self, constraints: Constraints, cache: KVCache) -> None:
        self._constraints = constraints
        self._cache = cache
        self._prefix = PrefixCache(cache)

    def decode(self, request: TokenizedRequest) -> Decoded:
        """The answer to one request. Only what its path does not share with the one before is evaluated."""
        answer = ConstrainedAnswer(self._constraints, request.grammar, request.explanation)
        answers: tuple[Answer, ...] | NoAnswer
        try:
            self._write(answer, request)
            answers = answer.answers()
        except SampleError as error:
            self._prefix.wipe()  # the cells may hold what is not a number
            answers = NoAnswer(error=error.in_one_line)
        return Decoded(answers, answer.continued_tokens, answer.free_tokens)

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        """Evaluate and decide until the answer is finished. Raises SampleError if it cannot be."""
        run = TokenRun(self._prefix.hold(request.path[:-1]), request.path[-1])
        while not answer.finished:
            answer.take(self._cache.logits_behind(run))
            run = TokenRun(run.end, answer.pending)
            if not answer.finished and run.end >= request.longest:
                raise SampleError(f"the answer did not end within the {request.longest} tokens kept for it")


def outline_of(file: ModelFile, settings: EngineSettings) -> ModelOutline:
    """The outline of the engine that would run the file. Raises ModelError for a model that cannot judge."""
    checked = model_check.check(file.path)
    n_ctx = memory.context_for(checked, settings.n_ctx or file.n_ctx)
    gpu_layers = used_gpu_layers(settings)
    return ModelOutline(
        identity=known_identity(file, n_ctx=n_ctx, gpu_layers=gpu_layers),
        n_ctx=n_ctx,
        memory_bytes=memory.needed(checked, n_ctx=n_ctx, n_ubatch=UBATCH).total,
        uses_gpu=bool(gpu_layers),
    )


def known_identity(file: ModelFile, *, n_ctx: int, gpu_layers: int) -> dict[str, Any]:
    """The part of an engine's identity that needs no model: build, processor features, every setting."""
    return {
        "engine": "llama.cpp",
        "model_sha256": file.sha256,
        "model_size": file.size,
        "llama_cpp_python": version("llama-cpp-python"),
        "llama_cpp": llama_cpp.llama_version().decode(),
        "llguidance": version("llguidance"),
        "system": llama_cpp.llama_print_system_info().decode().strip(),
        "n_ctx": n_ctx,
        "n_ubatch": UBATCH,
        "flash_attention": False,
        "gpu_layers": gpu_layers,
        "batching": "isolated",
    }


class LlamaCppTokenCounter:
    """Counts tokens of requests for an open model. `begin_of_text` is as its prompt profile says if None."""

    def __init__(self, file: ModelFile, model: OpenModel, n_ctx: int, *, begin_of_text: bool | None) -> None:
        if begin_of_text is None:
            begin_of_text = prompts.load_profile(file.profile or prompts.DEFAULT_PROFILE).begin_of_text
        self._file = file
        self._model = model
        self._n_ctx = n_ctx
        self._tokenizer = RequestTokenizer(self.vocabulary, begin_of_text=begin_of_text)

    @property
    def name(self) -> str:
        """The name it is registered under, or that of its file."""
        return self._file.name

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is: name, base name and architecture, by the file's keys."""
        return self._model.metadata

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's own chat template puts around a message, if it has one.

        Raises ModelError if the template cannot be rendered.
        """
        template = self._model.chat_template
        return chat.chat_ends(template, **self._ends_of_text) if template else None

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The model's chat template for conversations alone, if it has one."""
        template = self._model.chat_template
        return chat.without_ends(template, **self._ends_of_text) if template else None

    @property
    def _ends_of_text(self) -> dict[str, str]:
        bos, eos = self.special_texts
        return {"bos": bos, "eos": eos}

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return self._model.vocabulary

    def tokenize(self, request: VerdictRequest) -> TokenizedRequest:
        """The request in tokens, with its grammars.

        Raises SampleError for text that the model cannot be shown, ModelError if its tokens cannot write the answers.
        """
        return self._tokenizer.tokenize(request)

    @property
    def special_texts(self) -> tuple[str, str]:
        """Texts of the begin and end tokens, as chat templates want them."""
        return self.vocabulary.text_of(self.vocabulary.bos), self.vocabulary.text_of(self.vocabulary.eos)

    @property
    def capacity(self) -> int:
        """Tokens that fit the context."""
        return self._n_ctx

    def length(self, request: VerdictRequest) -> int:
        """Tokens of the prompt and the longest legal answer, up to its last decision."""
        return self.tokenize(request).longest

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens of the tree that the requests form; what the model cannot be shown counts nothing."""
        return tokens_to_evaluate(requests, self.tokenize)

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, without the answer and the begin token that the engine puts in front.

        None for a vocabulary that folds case or accents. Raises SampleError for what the model cannot be shown.
        """
        return self._tokenizer.read_back(request)


class VocabularyCounter(LlamaCppTokenCounter):
    """The same of a model whose weights are not loaded. Raises ModelError if llama.cpp refuses the file.

    A file that a self-check has not tried may end the process.
    """

    def __init__(self, file: ModelFile, settings: EngineSettings, *, begin_of_text: bool | None) -> None:
        outline = outline_of(file, settings)
        self._identity = outline.identity
        model = open_model(file.path, gpu_layers=0, vocabulary_alone=True)
        super().__init__(file, model, outline.n_ctx, begin_of_text=begin_of_text)

    @property
    def identity(self) -> dict[str, Any]:
        """That of an engine with this model on this machine, without what is found by trying it."""
        return self._identity

    def close(self) -> None:
        """Free the vocabulary."""
        self._model.close()


class LlamaCppEngine(LlamaCppTokenCounter):
    """Answers requests with one GGUF model.

    Raises ModelError if the model cannot be used, OutOfResource if there is too little memory for it.

    `begin_of_text`: whether prompts start with the model's begin token; as its prompt profile says if None.
    """

    def __init__(
        self, file: ModelFile, settings: EngineSettings | None = None, *, begin_of_text: bool | None = None
    ) -> None:
        settings = settings or EngineSettings()
        self._loaded: LoadedModel = load(file, settings)
        with ExitStack() as undo:
            undo.callback(self._loaded.close)
            super().__init__(file, self._loaded.model, self._loaded.n_ctx, begin_of_text=begin_of_text)
            self._cache = KVCache(
                self._loaded.model.pointer,
                n_ctx=self._n_ctx,
                threads=settings.used_threads,
                vocabulary_size=self.vocabulary.size,
                rewind_mode=self._loaded.self_check.rewind_mode,
            )
            undo.pop_all()
        self._decoder = IsolatedDecoder(self._tokenizer.constraints, self._cache)
        self._unique = self._generated = 0
        self._total = 0.0

    @property
    def identity(self) -> dict[str, Any]:
        """Model, build, processor features and every setting that can move a logit."""
        plain = {} if self._loaded.self_check.repack else {"repack": False}
        return {
            **known_identity(self._file, n_ctx=self._n_ctx, gpu_layers=self._loaded.gpu_layers),
            "architecture": self._model.architecture,
            "quantisation": self._model.quantisation,
            "begin_of_text": bool(self._tokenizer.begin),
            "self_check": self._loaded.self_check.verdict,
            **plain,
        }

    @property
    def forks(self) -> bool:
        """Whether requests share what they have in common; if not, each is evaluated from scratch."""
        return self._loaded.self_check.rewind_mode != "recompute"

    @property
    def stats(self) -> EngineStats:
        """Work done since the engine was opened."""
        return EngineStats(
            unique_tokens=self._unique,
            evaluated_tokens=self._cache.evaluated_tokens,
            generated_tokens=self._generated,
            seconds_inside=self._cache.seconds_inside,
            seconds_total=self._total,
        )

    @property
    def shape(self) -> ModelShape:
        """How large the model is, and what it was trained for."""
        return self._loaded.shape

    @property
    def memory_bytes(self) -> int:
        """Weights, cache and working space."""
        return self._loaded.memory_bytes

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request, sharing what they have in common; what is asked twice is decoded once."""
        started = time.perf_counter()
        questions = TokenizedQuestions(requests, self._fitting)
        self._unique += questions.distinct_tokens
        self._total += time.perf_counter() - started
        yield from questions.refused
        yield from questions.answers(self._decoded)

    def close(self) -> None:
        """Free the context and the model."""
        self._cache.close()
        self._loaded.close()

    def _fitting(self, request: VerdictRequest) -> TokenizedRequest:
        tokenized = self.tokenize(request)
        if tokenized.longest > self._n_ctx:
            raise SampleError(
                f"the prompt and the longest answer have {tokenized.longest} tokens, and the judge's context holds "
                f"{self._n_ctx}",
                hint="ask for a larger context with n_ctx, or name a model that has one",
            )
        return tokenized

    def _decoded(self, request: TokenizedRequest) -> tuple[Answer, ...] | NoAnswer:
        """The answers to one request, what they took added to the counts."""
        started = time.perf_counter()
        decoded = self._decoder.decode(request)
        self._total += time.perf_counter() - started
        self._unique += decoded.continued
        self._generated += decoded.free
        return decoded.answers
