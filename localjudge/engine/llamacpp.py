"""The engine: llama.cpp in process, driven token by token through its low-level interface.

    resident path     instructions ─ context ─ statement 1 {"attributed":     -> logits -> verdict
    cut back to       instructions ─ context
    resident path     instructions ─ context ─ statement 2 {"attributed":     -> logits -> verdict

Invariant: a verdict is bit-identical whatever else is asked, in any order, with any number of threads. What keeps it:

- One sequence, stack discipline. A path occupies cells 0 .. length-1; nothing else is resident while a verdict is
  decoded. Going to the next request removes cells from the end and evaluates what is new.
- Every node is fed from its own start in steps of `n_ubatch` tokens. Nodes are cut where the prompt profile cuts them,
  shared or not: llama.cpp's kernels round differently for other batch shapes.
- No two statements in one batch, for the same reason: it moved logits by up to 0.18 on a 1.2 B model.
- Flash attention is off on a CPU: with it, one-token steps over 512 cells or more differ between 1 and 2 threads.
"""

import os
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.constraint import Constraints
from localjudge.engine.loading import LoadedModel, load
from localjudge.engine.planner import Node, Path, depth_first, distinct_tokens, shared_nodes
from localjudge.engine.protocol import Effort
from localjudge.engine.settings import EngineSettings
from localjudge.errors import ModelError, SampleError
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, NoAnswer, VerdictRequest

MAX_DEFAULT_CONTEXT = 8192
_UBATCH = 512


class LlamaCppEngine:
    """Answers requests with one GGUF model. Raises ModelError if the model cannot be used."""

    def __init__(self, file: ModelFile, settings: EngineSettings | None = None, *, begin_of_text: bool = True) -> None:
        settings = settings or EngineSettings()
        self._file = file
        self._settings = settings
        self._model: LoadedModel = load(file, settings)
        self._vocabulary = self._model.vocabulary
        self._constraints = Constraints(self._vocabulary)
        self._begin: Node = (self._vocabulary.begin,) if begin_of_text and self._vocabulary.begin is not None else ()
        wanted = settings.n_ctx or file.n_ctx or MAX_DEFAULT_CONTEXT
        self._n_ctx = min(wanted, self._model.n_ctx_train)
        self._context = self._open_context()
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(_UBATCH, 0, 1)
        self._resident: Path = ()
        self._unique = self._evaluated = 0
        self._inside = self._total = 0.0

    @property
    def identity(self) -> dict[str, Any]:
        """Model, build, processor features and every setting that can move a logit."""
        return {
            "engine": "llama.cpp",
            "model_sha256": self._file.sha256,
            "model_size": self._file.size,
            "architecture": self._model.architecture,
            "quantisation": self._model.quantisation,
            "llama_cpp_python": version("llama-cpp-python"),
            "llguidance": version("llguidance"),
            "system": self._model.system,
            "n_ctx": self._n_ctx,
            "n_ubatch": _UBATCH,
            "flash_attention": False,
            "gpu_layers": self._model.gpu_layers,
            "begin_of_text": bool(self._begin),
            "batching": "isolated",
        }

    @property
    def chat_template(self) -> str | None:
        """The model's own chat template, if it has one."""
        return self._model.chat_template

    @property
    def special_texts(self) -> tuple[str, str]:
        """Texts of the begin and end tokens, as chat templates want them."""
        return self._vocabulary.text_of(self._vocabulary.bos), self._vocabulary.text_of(self._vocabulary.eos)

    @property
    def effort(self) -> Effort:
        """Work done since the engine was opened."""
        return Effort(
            unique_tokens=self._unique,
            evaluated_tokens=self._evaluated,
            generated_tokens=0,
            seconds_inside=self._inside,
            seconds_total=self._total,
        )

    @property
    def capacity(self) -> int:
        """Tokens that fit the context."""
        return self._n_ctx

    def length(self, request: VerdictRequest) -> int:
        """Tokens of the prompt with the forced part of the answer, and one for the verdict."""
        return sum(map(len, self._path(request))) + 1

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request, sharing what they have in common."""
        started = time.perf_counter()
        paths: dict[int, Path] = {}
        for index, request in enumerate(requests):
            try:
                paths[index] = self._fitting(request)
            except SampleError as error:
                yield index, NoAnswer(error=str(error))
        indices = list(paths)
        self._unique += distinct_tokens(list(paths.values()))
        self._total += time.perf_counter() - started
        for position in depth_first(list(paths.values())):
            index = indices[position]
            started = time.perf_counter()
            answer = self._answer(requests[index], paths[index])
            self._total += time.perf_counter() - started
            yield index, answer

    def close(self) -> None:
        """Free the context and the model."""
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        self._model.close()

    def _answer(self, request: VerdictRequest, path: Path) -> Answer:
        logits = self._logits(path)
        return self._constraints.verdict_point(request.grammar).read(logits)

    def _fitting(self, request: VerdictRequest) -> Path:
        path = self._path(request)
        length = sum(map(len, path)) + 1
        if length > self._n_ctx:
            raise SampleError(f"the prompt has {length} tokens, and the judge's context holds {self._n_ctx}")
        return path

    def _path(self, request: VerdictRequest) -> Path:
        """Tokens of every node; the root begins with the begin token, the leaf ends with the forced answer."""
        nodes = [
            tuple(token for piece in node for token in self._tokens(piece.text, trusted=piece.trusted))
            for node in request.path
        ]
        if self._begin and nodes[0][:1] != self._begin:
            nodes[0] = self._begin + nodes[0]
        nodes[-1] += tuple(self._constraints.verdict_point(request.grammar).forced)
        return tuple(nodes)

    def _tokens(self, text: str, *, trusted: bool) -> list[int]:
        return self._vocabulary.trusted(text) if trusted else self._vocabulary.user(text)

    def _logits(self, path: Path) -> NDArray[np.float32]:
        """Logits after the path's last token, shape (vocabulary,); evaluates only what is not resident."""
        shared = min(shared_nodes(self._resident, path), len(path) - 1)
        position = sum(map(len, path[:shared]))
        self._forget_from(position)
        self._resident = path[:shared]
        for depth in range(shared, len(path)):
            self._evaluate(path[depth], position, last=depth == len(path) - 1)
            position += len(path[depth])
        self._resident = path
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary.size,))

    def _forget_from(self, position: int) -> None:
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, position, -1):
            llama_cpp.llama_memory_clear(self._memory, True)
            raise ModelError(
                "this model's memory cannot be cut back to a shared prefix",
                hint="use a model with ordinary attention",
            )

    def _evaluate(self, node: Node, position: int, *, last: bool) -> None:
        for offset in range(0, len(node), _UBATCH):
            step = node[offset : offset + _UBATCH]
            self._fill(step, position + offset, want_logits=last and offset + len(step) == len(node))
            started = time.perf_counter()
            status = llama_cpp.llama_decode(self._context, self._batch)
            llama_cpp.llama_synchronize(self._context)
            self._inside += time.perf_counter() - started
            if status != 0:
                self._resident = ()
                raise ModelError(f"llama.cpp could not evaluate {len(step)} tokens (status {status})")
            self._evaluated += len(step)

    def _fill(self, tokens: Sequence[int], position: int, *, want_logits: bool) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = False
        batch.logits[len(tokens) - 1] = want_logits

    def _open_context(self) -> Any:
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = self._n_ctx
        parameters.n_batch = _UBATCH
        parameters.n_ubatch = _UBATCH
        parameters.n_seq_max = 1
        parameters.n_threads = parameters.n_threads_batch = self._settings.threads or len(os.sched_getaffinity(0))
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.kv_unified = True
        parameters.no_perf = True
        context = llama_cpp.llama_init_from_model(self._model.pointer, parameters)
        if not context:
            raise ModelError(
                f"llama.cpp could not open a context of {self._n_ctx} tokens for {self._file.path}",
                hint="ask for a smaller context with --n-ctx, or free memory",
            )
        return context
