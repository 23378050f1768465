"""Run llama.cpp in process, token by token, through its low-level interface.

    resident path     instructions ─ context ─ statement 1 {"attributed":     -> logits -> verdict
    cut back to       instructions ─ context
    resident path     instructions ─ context ─ statement 2 {"attributed":     -> logits -> verdict

A verdict has the same bits for any set of other requests, any order and any number of threads,
because

- a path occupies cells 0 .. length-1, and no other path is in memory while a verdict is decoded;
- every node is evaluated from its start in steps of `n_ubatch` tokens, since kernels round by
  batch shape;
- two statements never share a batch: it changed logits by up to 0.18 on a 1.2 B model;
- flash attention is off: with it, one-token steps over 512 or more cells differ between 1 and 2
  threads.
"""

from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

from localjudge.engine.decoding import ConstrainedAnswer, DecodingEngine, TokenizedRequest
from localjudge.engine.llamacpp import memory
from localjudge.engine.llamacpp.kv_cache import KVCache
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import SampleError
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress


class LlamaCppEngine(DecodingEngine):
    """Answer requests with one GGUF model. Reports a self-test to `progress`.

    `begin_of_text`: whether prompts start with the model's begin token. Raises ModelError if the
    model cannot be used, OutOfResource for too little memory.
    """

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
        rewind_mode = loaded.self_check.rewind_mode or "recompute"
        with ExitStack() as undo:
            undo.callback(loaded.close)
            super().__init__(
                vocabulary,
                capacity=loaded.n_ctx,
                begin_of_text=begin_of_text,
                template=vocabulary.template,
            )
            self._cache = KVCache(
                loaded.model.pointer,
                n_ctx=loaded.n_ctx,
                threads=loaded.threads,
                vocabulary_size=vocabulary.size,
                rewind_mode=rewind_mode,
            )
            undo.pop_all()
        self._loaded = loaded
        self.name = file.name
        self.metadata = loaded.metadata
        self.shape = loaded.shape
        self.memory_bytes = loaded.memory_bytes
        self.shares_prefixes = rewind_mode != "recompute"

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "engine": "llama.cpp",
            **self._loaded.identity,
            "llguidance": version("llguidance"),
            "n_ubatch": memory.UBATCH,
            "begin_of_text": bool(self._begin),
        }

    def close(self) -> None:
        self._cache.close()
        self._loaded.close()

    @property
    def _evaluated(self) -> tuple[int, float]:
        return self._cache.evaluated_tokens, self._cache.seconds_inside

    def _write(self, answer: ConstrainedAnswer, request: TokenizedRequest) -> None:
        position = self._cache.load_prefix(request.path[:-1])
        tokens = request.path[-1]
        try:
            while not answer.finished:
                answer.take(self._cache.logits_after(tokens, position))
                position += len(tokens)
                tokens = answer.pending
                if not answer.finished:
                    request.require_room(position)
        except SampleError:
            self._cache.clear()  # the cells may contain NaN
            raise
