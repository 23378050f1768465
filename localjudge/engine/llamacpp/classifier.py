"""Run a model with a classification head in llama.cpp: a sequence in, the head's outputs out.

A verdict has the same bits for any set of other requests, any order and any number of threads,
because each sequence is evaluated alone, in one step, without flash attention, and nothing of it
stays in memory.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.classification import ClassifyingEngine
from localjudge.engine.llamacpp.encoder import Encoder
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress


class LlamaCppClassifier(ClassifyingEngine):
    """Answer requests with one GGUF classifier. Reports a self-test to `progress`.

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
        model = loaded.model
        with ExitStack() as undo:
            undo.callback(loaded.close)
            super().__init__(
                model.vocabulary,
                outputs=loaded.outputs,
                capacity=loaded.n_ctx,
                begin_of_text=begin_of_text,
            )
            self._encoder = Encoder(model.pointer, n_ctx=loaded.n_ctx, threads=loaded.threads)
            undo.pop_all()
        self._loaded = loaded
        self.name = file.name
        self.metadata = loaded.metadata
        self.shape = loaded.shape
        self.memory_bytes = loaded.memory_bytes

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "engine": "llama.cpp classifier",
            **self._loaded.identity,
            "outputs": list(self.outputs),
            "begin_of_text": bool(self._begin),
        }

    def close(self) -> None:
        self._encoder.close()
        self._loaded.close()

    @property
    def _evaluated(self) -> tuple[int, float]:
        return self._encoder.evaluated_tokens, self._encoder.seconds_inside

    def _outputs_for(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        return self._encoder.outputs(tokens)
