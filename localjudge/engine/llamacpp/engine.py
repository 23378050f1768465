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
  F16 and Q4_K ones (measured: 0 to 12 and 23 to 51 of 59 logit vectors moved). So each goes alone,
  which costs a pass more for each: as much as about 15 tokens of a batch, on two cores.
- Flash attention is off: with it, one-token steps over 512 cells or more differ between 1 and 2 threads.

Decoding several answers at once, as forks of the path that they share, gave up the second of these and was taken out:
with a 0.5 B instruct model (Q4_K_M, two cores) it took 1 / 1.08 of the processor time, and 1 / 1.56 with reasons before
verdicts. `flash_attention` and `batching` stay in the identity as they were without it, so that answers stored by
earlier versions are found again.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp.decoding import IsolatedDecoder
from localjudge.engine.llamacpp.kv_cache import KVCache
from localjudge.engine.llamacpp.loading import LoadedModel, load
from localjudge.engine.llamacpp.outline import known_identity
from localjudge.engine.llamacpp.token_counter import LlamaCppTokenCounter
from localjudge.engine.llamacpp.tokenized import TokenizedQuestions, TokenizedRequest
from localjudge.engine.protocol import EngineStats, ModelShape
from localjudge.errors import SampleError
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, NoAnswer, VerdictRequest


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
