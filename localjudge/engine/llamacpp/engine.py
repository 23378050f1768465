"""The engine: llama.cpp in process, driven token by token through its low-level interface.

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
  F16 and Q4_K ones (`scripts/bench-isolation`: 0 to 12 and 23 to 51 of 59 logit vectors moved). So each goes alone,
  which costs a pass more for each: as much as about 15 tokens of a batch, on two cores.
- Flash attention is off: with it, one-token steps over 512 cells or more differ between 1 and 2 threads.

Decoding several answers at once, as forks of the path that they share, gave up the second of these and was taken out:
with a 0.5 B instruct model (Q4_K_M, two cores) it took 1 / 1.08 of the processor time, and 1 / 1.56 with reasons before
verdicts. `flash_attention` and `batching` stay in the identity as they were without it, so that answers stored by
earlier versions are found again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import version
from typing import Any

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp import chat_template as chat
from localjudge.engine.llamacpp.decoding import IsolatedDecoder
from localjudge.engine.llamacpp.kv_cache import KVCache
from localjudge.engine.llamacpp.loading import LoadedModel, load
from localjudge.engine.llamacpp.memory import UBATCH
from localjudge.engine.llamacpp.tokenized import RequestTokenizer, TokenizedRequest
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.planner import by_question, depth_first, distinct_tokens
from localjudge.engine.protocol import EngineStats, ModelShape
from localjudge.errors import SampleError
from localjudge.judge import prompts
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest


class LlamaCppEngine:
    """Answers requests with one GGUF model.

    Raises ModelError if the model cannot be used, OutOfResource if there is too little memory for it.

    `begin_of_text`: whether prompts start with the model's begin token; as its prompt profile says if None.
    """

    def __init__(
        self, file: ModelFile, settings: EngineSettings | None = None, *, begin_of_text: bool | None = None
    ) -> None:
        settings = settings or EngineSettings()
        if begin_of_text is None:
            begin_of_text = prompts.load(file.profile or prompts.DEFAULT_PROFILE).begin_of_text
        self._file = file
        self._loaded: LoadedModel = load(file, settings)
        self._n_ctx = self._loaded.n_ctx
        with ExitStack() as undo:
            undo.callback(self._loaded.close)
            self._tokenizer = RequestTokenizer(self.vocabulary, begin_of_text=begin_of_text)
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
            "engine": "llama.cpp",
            "model_sha256": self._file.sha256,
            "model_size": self._file.size,
            "architecture": self._loaded.model.architecture,
            "quantisation": self._loaded.model.quantisation,
            "llama_cpp_python": version("llama-cpp-python"),
            "llama_cpp": self._loaded.model.library,
            "llguidance": version("llguidance"),
            "system": self._loaded.model.system,
            "n_ctx": self._n_ctx,
            "n_ubatch": UBATCH,
            "flash_attention": False,
            "gpu_layers": self._loaded.gpu_layers,
            "begin_of_text": bool(self._tokenizer.begin),
            "self_check": self._loaded.self_check.verdict,
            "batching": "isolated",
            **plain,
        }

    @property
    def name(self) -> str:
        """The name it is registered under, or that of its file."""
        return self._file.name

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is: name, base name and architecture, by the file's keys."""
        return self._loaded.model.metadata

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's own chat template puts around a message, if it has one.

        Raises ModelError if the template cannot be rendered.
        """
        template = self._loaded.model.chat_template
        return chat.chat_ends(template, **self._ends_of_text) if template else None

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The model's chat template for conversations alone, if it has one."""
        template = self._loaded.model.chat_template
        return chat.without_ends(template, **self._ends_of_text) if template else None

    @property
    def _ends_of_text(self) -> dict[str, str]:
        bos, eos = self.special_texts
        return {"bos": bos, "eos": eos}

    @property
    def forks(self) -> bool:
        """Whether requests share what they have in common; if not, each is evaluated from scratch."""
        return self._loaded.self_check.rewind_mode != "recompute"

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return self._loaded.model.vocabulary

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
    def capacity(self) -> int:
        """Tokens that fit the context."""
        return self._n_ctx

    def length(self, request: VerdictRequest) -> int:
        """Tokens of the prompt and the longest legal answer, up to its last decision."""
        return self.tokenize(request).longest

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens of the tree that the requests form; what the model cannot be shown counts nothing."""
        paths = []
        for request in requests:
            with suppress(SampleError):
                paths.append(self.tokenize(request).path)
        return distinct_tokens(paths)

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, without the answer and the begin token that the engine puts in front.

        None for a vocabulary that folds case or accents. Raises SampleError for what the model cannot be shown.
        """
        return self._tokenizer.read_back(request)

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
        distinct: list[TokenizedRequest] = []
        askers: list[list[int]] = []
        for indices in by_question(requests):
            try:
                distinct.append(self._fitting(requests[indices[0]]))
                askers.append(indices)
            except SampleError as error:
                yield from ((index, NoAnswer(error=error.in_one_line)) for index in indices)
        paths = [tokenized.path for tokenized in distinct]
        self._unique += distinct_tokens(paths)
        self._total += time.perf_counter() - started
        for place in depth_first(paths):
            answers = self._decoded(distinct[place])
            for index in askers[place]:
                yield index, answers if isinstance(answers, NoAnswer) else answers[requests[index].entry]

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
                hint="ask for a larger context with --n-ctx, or name a model that has one",
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
