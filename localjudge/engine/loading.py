"""Loads a GGUF model into llama.cpp, or says why it cannot be used."""

import ctypes
from collections import deque
from dataclasses import dataclass
from typing import Any

import llama_cpp

from localjudge.engine.settings import EngineSettings
from localjudge.engine.vocabulary import Vocabulary
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile

_ALL_LAYERS = -1
_LOG_LEVEL_ERROR = 4
_complaints: deque[str] = deque(maxlen=8)


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_errors(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    """llama.cpp reports on stderr; keep what it says of errors for our own message, and drop the rest."""
    if level == _LOG_LEVEL_ERROR:
        _complaints.append(text.decode(errors="replace").strip())


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory and what it says of itself."""

    pointer: Any
    vocabulary_pointer: Any
    vocabulary: Vocabulary
    architecture: str
    quantisation: str
    chat_template: str | None
    n_ctx_train: int
    gpu_layers: int
    system: str

    def close(self) -> None:
        """Free the memory."""
        llama_cpp.llama_model_free(self.pointer)


def load(file: ModelFile, settings: EngineSettings) -> LoadedModel:
    """Load the model. Raises ModelError with llama.cpp's own words if it cannot."""
    llama_cpp.llama_log_set(_keep_errors, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    gpu = bool(llama_cpp.llama_supports_gpu_offload())
    gpu_layers = (settings.gpu_layers if settings.gpu_layers is not None else _ALL_LAYERS) if gpu else 0
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = gpu_layers
    _complaints.clear()
    pointer = llama_cpp.llama_model_load_from_file(str(file.path).encode(), parameters)
    if not pointer:
        said = "; ".join(dict.fromkeys(_complaints)) or "it gave no reason"
        raise ModelError(f"llama.cpp cannot load {file.path}: {said}", hint="give the path to a complete GGUF model")
    vocabulary_pointer = llama_cpp.llama_model_get_vocab(pointer)
    template = llama_cpp.llama_model_chat_template(pointer, None)
    return LoadedModel(
        pointer=pointer,
        vocabulary_pointer=vocabulary_pointer,
        vocabulary=Vocabulary(vocabulary_pointer),
        architecture=_metadata(pointer, "general.architecture"),
        quantisation=(llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(pointer)) or b"").decode(),
        chat_template=template.decode(errors="replace") if template else None,
        n_ctx_train=llama_cpp.llama_model_n_ctx_train(pointer),
        gpu_layers=gpu_layers,
        system=llama_cpp.llama_print_system_info().decode().strip(),
    )


def _metadata(pointer: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(pointer, key.encode(), buffer, 256)
    return buffer.value.decode(errors="replace") if length >= 0 else ""
