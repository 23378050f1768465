"""What a model holds in its last layer when it is about to give a verdict, with what it then says.

    project's own prompt ─> ... {"attributed":  ─> state (width,)  ─> logits ─> p_yes
                                                 kept              as ever     kept

States are those of `llama_get_embeddings_ith`: behind the last norm, so that a head is one more row of the output
matrix. A readout is 512 of the logits, evenly spaced over the vocabulary, less their mean: a linear map of the state.
Middle layers are read by llama.cpp's callback for every node of its graph, at the verdict's place and as the mean over
the tokens of the unit, with what closes the prompt. Only the pass of the last node gives states out.
"""

import ctypes
import os
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from reference_judge.labelled import Example

from localjudge.engine.llamacpp.kv_cache import TokenRun
from localjudge.engine.llamacpp.model import llama_cpp
from localjudge.run.judges import OpenJudge, open_judge
from localjudge.run.settings import RunSettings
from localjudge.types import Answer, Attribution, Relevance, Span, Unit

READOUT = 512


class Asked(NamedTuple):
    """A labelled question, and where it is from: `dev`, `train` or `made`."""

    split: str
    task: str
    example: Example

    @property
    def key(self) -> str:
        """What it is found by."""
        example = self.example
        text = "\x1f".join([self.split, self.task, example.dataset, example.given, example.judged])
        return sha256(text.encode()).hexdigest()[:16]


def task_of(asked: Asked) -> Attribution | Relevance:
    """As the metrics ask it."""
    example = asked.example
    kind = {"attribution": "statement", "relevance": "sentence", "chunk": "chunk"}[asked.task]
    source = "response" if asked.task == "attribution" else "retrieved_contexts"
    unit = Unit(kind=kind, index=0, source=source, span=Span.whole(example.judged))  # type: ignore[arg-type]
    if asked.task == "attribution":
        return Attribution(unit=unit, contexts=(example.given,))
    return Relevance(unit=unit, user_input=example.given, contexts=example.beside)


class Reader:
    """A judge whose passes over the last node also give the state at the verdict's place."""

    def __init__(self, judge: str, layers: Sequence[int] = ()) -> None:
        self.layers = [f"l_out-{layer}" for layer in layers]
        self.middle: dict[str, np.ndarray] = {}
        if layers:
            self._listen()
        self.judge: OpenJudge = open_judge(judge, RunSettings(n_ctx=4096))
        self.cache: Any = self.judge.engine._cache  # type: ignore[attr-defined]
        self.width = llama_cpp.llama_model_n_embd(llama_cpp.llama_get_model(self.cache._context))
        self.state: np.ndarray | None = None
        self.readout: np.ndarray | None = None
        self._plain = self.cache.logits_behind
        self.cache.logits_behind = self._reading

    def _reading(self, run: TokenRun) -> Any:
        context = self.cache._context
        if self.state is not None:  # behind the verdict
            return self._plain(run)
        self.middle = {}
        llama_cpp.llama_set_embeddings(context, True)
        logits = self._plain(run)
        some = logits[np.arange(READOUT) * len(logits) // READOUT].astype(np.float64)
        self.readout = (some - some.mean()).astype(np.float16)
        pointer = llama_cpp.llama_get_embeddings_ith(context, -1)
        self.state = np.ctypeslib.as_array(pointer, shape=(self.width,)).astype(np.float16)
        llama_cpp.llama_set_embeddings(context, False)
        return logits

    def _listen(self) -> None:
        """Have the context call back for the layers that are wanted."""
        folder = Path(llama_cpp.__file__).parent / "lib"
        ggml = ctypes.CDLL(str(next(folder.glob("libggml-base*"))))
        ggml.ggml_get_name.restype = ctypes.c_char_p
        ggml.ggml_get_name.argtypes = ggml.ggml_nelements.argtypes = [ctypes.c_void_p]
        ggml.ggml_nelements.restype = ctypes.c_int64
        ggml.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]

        def called(tensor: int, ask: bool, _: int) -> bool:
            name = ggml.ggml_get_name(tensor).decode()
            if name not in self.layers:
                return not ask
            if not ask:
                values = np.empty(ggml.ggml_nelements(tensor), np.float32)
                ggml.ggml_backend_tensor_get(tensor, values.ctypes.data, 0, values.nbytes)
                self.middle[name] = values.reshape(-1, self.width)
            return True

        self._called = callback = llama_cpp.ggml_backend_sched_eval_callback(called)
        open_context = llama_cpp.llama_init_from_model

        def with_callback(model: Any, parameters: Any) -> Any:
            parameters.cb_eval = callback
            return open_context(model, parameters)

        llama_cpp.llama_init_from_model = with_callback

    def read(self, asked: Asked) -> dict[str, Any] | None:
        """Probability and states of one question; None if it cannot be judged in one piece."""
        requests = self.judge.judge.requests([task_of(asked)])
        if len(requests) != 1:
            return None
        self.state = None
        [(_, answer)] = self.judge.engine.answers(requests)
        if not isinstance(answer, Answer):
            return None
        states = {"last": self.state, "readout": self.readout}
        for name, rows in self.middle.items():
            states[f"{name} at the place"] = rows[-1].astype(np.float16)
            states[f"{name} mean"] = rows.mean(axis=0).astype(np.float16)
        return {"p_yes": answer.p_yes, **states}


def cost(judge: str, rows: Sequence[Asked]) -> str:
    """What reading takes: the same questions with and without it, taking turns; whether a bit of an answer moved."""
    reader = Reader(judge)
    cache, plain, reading = reader.cache, reader._plain, reader._reading
    seconds: dict[bool, float] = {True: 0.0, False: 0.0}
    moved = 0
    for asked in rows:
        answers = {}
        for is_read in (False, True, True, False):
            cache.clear()
            cache.logits_behind = reading if is_read else plain
            before = cache.seconds_inside
            read = reader.read(asked)
            seconds[is_read] += cache.seconds_inside - before
            answers[is_read] = read and read["p_yes"]
        moved += answers[True] != answers[False]
    ratio = seconds[True] / seconds[False]
    return f"{len(rows)} questions from an empty cache: {ratio:.3f} times as long, {moved} probabilities moved"


def collect(
    judge: str, rows: Sequence[Asked], file: Path, *, minutes: float, layers: Sequence[int] = ()
) -> Iterator[str]:
    """Read what is missing in the file, as long as there is time; rows of one context after each other."""
    stored = dict(np.load(file, allow_pickle=True)) if file.exists() else {}
    columns: dict[str, list[Any]] = {name: list(values) for name, values in stored.items()}
    done, until = set(columns.get("key", [])), time.monotonic() + 60 * minutes
    missing = [row for row in rows if row.key not in done]
    reader = Reader(judge, layers)
    for number, asked in enumerate(missing, 1):
        if read := reader.read(asked):
            example = asked.example
            about = {"key": asked.key, "split": asked.split, "task": asked.task, "dataset": example.dataset}
            for name, value in {**about, "group": example.group, "label": example.label, **read}.items():
                columns.setdefault(name, []).append(value)
        late = time.monotonic() > until
        if number % 50 == 0 or late or number == len(missing):
            part = file.with_suffix(".part.npz")
            np.savez(part, **{name: np.array(values) for name, values in columns.items()})  # type: ignore[arg-type]
            os.replace(part, file)
            yield f"{number} of {len(missing)} rows"
        if late:
            return
