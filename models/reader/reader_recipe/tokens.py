"""Tokens as in llama.cpp, and the prompt of the reader, which inference must repeat exactly."""

import ctypes
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

START = 0
END = 2
MASK = 250001
SHARE = (106, 116, 138, 201, 190, 305, 361, 382)  # the pieces "▁1" to "▁8"
MAX_TOKENS = 512
MAX_STATEMENT = 128

ATTRIBUTION = 0
RELEVANCE = 1
ANSWER = 2
MARKERS = {ATTRIBUTION: [], RELEVANCE: [MASK], ANSWER: [MASK, MASK]}
"""What stands before the statement or question, behind the share."""


class Tokenizer:
    """The tokenizer in a GGUF file, run by llama.cpp. Control tokens in a text stay text."""

    def __init__(self, path: Path) -> None:
        import llama_cpp  # a machine that only trains need not have it

        self._llama_cpp = llama_cpp
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise OSError(f"{path}: llama.cpp cannot read the vocabulary of this file")
        self._vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self._room = 4096
        self._buffer = (ctypes.c_int32 * self._room)()

    def encode(self, text: str) -> Ids:
        data = text.encode(errors="replace")
        count = self._tokenize(data)
        if count < 0:
            self._room = -count
            self._buffer = (ctypes.c_int32 * self._room)()
            count = self._tokenize(data)
        return np.array(self._buffer[:count], dtype=np.int32)

    def _tokenize(self, data: bytes) -> int:
        add_special = False
        parse_special = False
        count: int = self._llama_cpp.llama_tokenize(
            self._vocabulary,
            data,
            len(data),
            self._buffer,
            self._room,
            add_special,
            parse_special,
        )
        return count


def piece_weights(path: Path) -> npt.NDArray[np.float64]:
    """The weight of each piece: minus its log probability in the vocabulary, at least 0."""
    scores = gguf.GGUFReader(path).fields["tokenizer.ggml.scores"].contents()
    weights: npt.NDArray[np.float64] = np.maximum(0.0, -np.array(scores, dtype=np.float64))
    return weights


def share_step(statement: Ids, window: Ids, weights: npt.NDArray[np.float64]) -> int:
    """Which eighth of the statement's weight the window contains: 0 to 7."""
    weight = weights[statement]
    total = float(weight.sum())
    if total == 0.0:
        return 0
    shared = float(weight[np.isin(statement, window)].sum())
    return min(7, int(8.0 * shared / total))


def prompt(task: int, statement: Ids, window: Ids, weights: npt.NDArray[np.float64]) -> Ids:
    """`<s>` SHARE statement `</s>` window `</s>`, with the task's markers before the statement."""
    share = SHARE[share_step(statement, window, weights)]
    front = [START, share, *MARKERS[task]]
    parts = (front, statement, [END], window, [END])
    return np.concatenate([np.asarray(part, dtype=np.int32) for part in parts])
