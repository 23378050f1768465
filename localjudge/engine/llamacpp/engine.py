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

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from itertools import chain
from typing import Any

from localjudge.engine.decoding import CompiledGrammar, ConstrainedAnswer, Constraints
from localjudge.engine.llamacpp.context import KVCache
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.memory import UBATCH
from localjudge.engine.protocol import (
    EngineSettings,
    EngineStats,
    TokenPath,
    depth_first,
    distinct_tokens,
    equal_requests,
    require_room,
)
from localjudge.errors import SampleError
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.resources import package_version
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest

_NODES_KEPT = 4096


class LlamaCppEngine:
    """Answer requests with one GGUF model. Reports a self-test to `progress`.

    `begin_of_text`: whether prompts start with the model's begin token. Raises ModelError if the
    model cannot be used, OutOfResource for too little memory. Equal requests are decoded once.
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
            self._constraints = Constraints(vocabulary)
            self._template = vocabulary.template
            self._cache = KVCache(
                loaded.model.pointer,
                n_ctx=loaded.n_ctx,
                threads=loaded.threads,
                vocabulary_size=vocabulary.size,
                rewind_mode=rewind_mode,
            )
            undo.pop_all()
        self._loaded = loaded
        self._begin = vocabulary.start(begin_of_text=begin_of_text)
        self._tokenize_node = lru_cache(maxsize=_NODES_KEPT)(vocabulary.node)
        self._unique_tokens = 0
        self._generated_tokens = 0
        self._seconds_total = 0.0
        self.vocabulary = vocabulary
        self.name = file.name
        self.metadata = loaded.header.metadata
        self.capacity = loaded.n_ctx
        self._trained_context = loaded.header.size("context_length")
        self.memory_bytes = loaded.memory_bytes
        self.shares_prefixes = rewind_mode != "recompute"

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "engine": "llama.cpp",
            **self._loaded.identity,
            "llguidance": package_version("llguidance"),
            "n_ubatch": UBATCH,
            "begin_of_text": bool(self._begin),
        }

    @property
    def chat_ends(self) -> ChatEnds | None:
        if self._template is None:
            return None
        return self._template.ends

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        if self._template is None:
            return None
        return self._template.without_ends

    @property
    def stats(self) -> EngineStats:
        return EngineStats(
            unique_tokens=self._unique_tokens,
            evaluated_tokens=self._cache.evaluated_tokens,
            generated_tokens=self._generated_tokens,
            seconds_inside=self._cache.seconds_inside,
            seconds_total=self._seconds_total,
        )

    def tokenize(self, request: VerdictRequest) -> tuple[TokenPath, CompiledGrammar]:
        """Return the tokens of the prompt and of the answer's forced beginning, and its grammar.

        Raises SampleError for unreadable text, ModelError for an unusable grammar.
        """
        nodes = [self._tokenize_node(node) for node in request.path]
        if self._begin and nodes[0][:1] != self._begin:
            nodes[0] = self._begin + nodes[0]
        grammar = self._constraints.compile(request.grammar, request.explanation)
        nodes[-1] += grammar.start.forced
        return tuple(nodes), grammar

    def length(self, request: VerdictRequest) -> int:
        return _length(*self.tokenize(request))

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        paths: list[TokenPath] = []
        for request in requests:
            with suppress(SampleError):
                path, _ = self.tokenize(request)
                paths.append(path)
        return distinct_tokens(paths)

    def read_back(self, request: VerdictRequest) -> str | None:
        vocabulary = self.vocabulary
        if not vocabulary.exact:
            return None
        path, grammar = self.tokenize(request)
        tokens = list(chain.from_iterable(path))
        prompt = tokens[: len(tokens) - len(grammar.start.forced)]
        text = vocabulary.decode(prompt).decode(errors="replace")
        begin = vocabulary.decode(list(self._begin)).decode(errors="replace")
        if request.path[0][0].text.startswith(begin):
            return text
        return text.removeprefix(begin)

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        started = time.perf_counter()
        paths: list[TokenPath] = []
        questions: list[tuple[CompiledGrammar, list[int]]] = []
        refused: list[tuple[int, NoAnswer]] = []
        for indices in equal_requests(requests):
            try:
                path, grammar = self.tokenize(requests[indices[0]])
                beginning = "the prompt and the longest answer have"
                length = _length(path, grammar)
                require_room(length, self.capacity, self._trained_context, beginning)
            except SampleError as error:
                no_answer = NoAnswer(error=error.in_one_line)
                refused += [(index, no_answer) for index in indices]
                continue
            paths.append(path)
            questions.append((grammar, indices))
        self._unique_tokens += distinct_tokens(paths)
        self._seconds_total += time.perf_counter() - started
        yield from refused
        for index_of_path in depth_first(paths):
            grammar, indices = questions[index_of_path]
            answer = self._decode(paths[index_of_path], grammar)
            for index in indices:
                yield index, answer

    def _decode(self, path: TokenPath, grammar: CompiledGrammar) -> Answer | NoAnswer:
        started = time.perf_counter()
        answer = ConstrainedAnswer(self._constraints, grammar)
        try:
            self._write(answer, path, _length(path, grammar))
            return answer.answer()
        except SampleError as error:
            self._cache.clear()  # the cells may contain NaN
            return NoAnswer(error=error.in_one_line)
        finally:
            self._unique_tokens += answer.continued_tokens
            self._generated_tokens += answer.free_tokens
            self._seconds_total += time.perf_counter() - started

    def _write(self, answer: ConstrainedAnswer, path: TokenPath, longest: int) -> None:
        """Complete the answer. Raises SampleError if this is impossible."""
        position = self._cache.load_prefix(path[:-1])
        tokens = path[-1]
        while not answer.finished:
            answer.take(self._cache.logits_after(tokens, position))
            position += len(tokens)
            tokens = answer.pending
            if not answer.finished and position >= longest:
                problem = f"the answer did not end within the {longest} tokens kept for it"
                raise SampleError(problem)

    def close(self) -> None:
        self._cache.close()
        self._loaded.close()


def _length(path: TokenPath, grammar: CompiledGrammar) -> int:
    """Return the tokens of the prompt and the longest answer."""
    prompt = sum(map(len, path)) - len(grammar.start.forced)
    return prompt + grammar.longest
