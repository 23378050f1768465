"""Run a model with a classification head in llama.cpp: one sequence in, the outputs of the head out.

A verdict has the same bits for any set of other requests, any order and any number of threads,
because each sequence is evaluated alone, in one step, without flash attention, and nothing of it
stays in memory.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.classification import ClassifyingEngine
from localjudge.engine.llamacpp.encoder import Encoder
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.llamacpp.model import llama_cpp
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
        self._file = file
        self._loaded = load(file, settings or EngineSettings(), progress)
        model = self._loaded.model
        with ExitStack() as undo:
            undo.callback(model.close)
            super().__init__(
                model.vocabulary,
                outputs=self._loaded.outputs,
                capacity=self._loaded.n_ctx,
                begin_of_text=begin_of_text,
            )
            self._encoder = Encoder(
                model.pointer, n_ctx=self._loaded.n_ctx, threads=self._loaded.threads
            )
            undo.pop_all()
        self.name = file.name
        self.metadata = self._loaded.metadata
        self.shape = self._loaded.shape
        self.memory_bytes = self._loaded.memory_bytes

    @property
    def identity(self) -> dict[str, Any]:
        check = self._loaded.self_check
        model = self._loaded.model
        identity = {
            "engine": "llama.cpp classifier",
            "model_sha256": self._file.sha256,
            "model_size": self._file.size,
            "llama_cpp_python": version("llama-cpp-python"),
            "llama_cpp": llama_cpp.llama_version().decode(),
            "system": llama_cpp.llama_print_system_info().decode().strip(),
            "n_ctx": self.capacity,
            "flash_attention": False,
            "gpu_layers": self._loaded.gpu_layers,
            "batching": "isolated",
            "architecture": self.metadata["general.architecture"],
            "outputs": list(self.outputs),
            "quantisation": model.quantisation,
            "begin_of_text": bool(self._begin),
            "self_check": check.verdict,
        }
        if not check.repack:
            identity["repack"] = False
        return identity

    def close(self) -> None:
        self._encoder.close()
        self._loaded.model.close()

    @property
    def _evaluated(self) -> tuple[int, float]:
        return self._encoder.evaluated_tokens, self._encoder.seconds_inside

    def _outputs_for(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        return self._encoder.outputs(tokens)
