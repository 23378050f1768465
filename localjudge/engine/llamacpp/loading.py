"""Loads a GGUF model into llama.cpp, or says why it cannot be used.

the file's header      is it a model that can judge, is it whole, does it fit into memory?
a process of its own   does llama.cpp survive it, and do its forks give the right logits?     once per machine
this process           the model

Invariant: the weights in memory are the bytes whose checksum the run records. They are a copy of our own, not a mapping
of the file: what is written over a mapped file while a run goes on would be read as weights without a word, and a
mapped file that is cut off ends the process (SIGBUS). The copy takes about half a second for a gigabyte of F16 or Q8_0,
and next to nothing for the 4-bit quantisations, which llama.cpp lays out anew when it loads them and would then hold
twice. Two processes do not share it.
"""

import ctypes
import os
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp

from localjudge import model_registry
from localjudge.engine.llamacpp import memory, model_check
from localjudge.engine.llamacpp.interrupts import interrupts_held_back
from localjudge.engine.llamacpp.kv_cache import UBATCH
from localjudge.engine.llamacpp.self_check import Finding, Trial, finding_of
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.settings import EngineSettings
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile

MAX_DEFAULT_CONTEXT = 8192
_ALL_LAYERS = -1
_LOG_LEVEL_ERROR = 4
_UNKNOWN_ARCHITECTURE = "unknown model architecture"
_complaints: deque[str] = deque(maxlen=8)


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_errors(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    """llama.cpp reports on stderr; keep what it says of errors for our own message, and drop the rest."""
    if level == _LOG_LEVEL_ERROR:
        _complaints.append(text.decode(errors="replace").strip())


@dataclass(frozen=True)
class OpenModel:
    """A model in memory, what it says of itself, and what runs it: processor features, llama.cpp's own version."""

    pointer: Any
    vocabulary: Vocabulary
    architecture: str
    quantisation: str
    chat_template: str | None
    system: str
    library: str

    def close(self) -> None:
        """Free the memory."""
        llama_cpp.llama_model_free(self.pointer)


@dataclass(frozen=True)
class LoadedModel(OpenModel):
    """An open model with the context that it gets, and what its self-check found."""

    n_ctx: int
    memory_bytes: int
    gpu_layers: int
    self_check: Finding


def load(file: ModelFile, settings: EngineSettings) -> LoadedModel:
    """Check, try and load the model. Raises ModelError if it cannot be used."""
    checked = model_check.check(file.path)
    n_ctx = min(settings.n_ctx or file.n_ctx or MAX_DEFAULT_CONTEXT, checked.number("context_length"))
    gpu_layers = _gpu_layers(settings)
    need = memory.needed(checked, n_ctx=n_ctx, n_ubatch=UBATCH)
    if not gpu_layers:
        memory.require(checked, need, n_ctx=n_ctx)
    trial = Trial(
        path=file.path,
        n_ctx=n_ctx,
        gpu_layers=gpu_layers,
        batching=settings.batching,
        threads=settings.used_threads,
    )
    found = finding_of(file.sha256, trial)
    opened = _opened_as_hashed(file, gpu_layers=gpu_layers)
    return LoadedModel(**vars(opened), n_ctx=n_ctx, memory_bytes=need.total, gpu_layers=gpu_layers, self_check=found)


def open_model(path: Path, *, gpu_layers: int, check_tensors: bool = False) -> OpenModel:
    """Give the file to llama.cpp as it is. Raises ModelError with llama.cpp's own words if it refuses."""
    llama_cpp.llama_log_set(_keep_errors, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = gpu_layers
    parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # not mapped: see above
    parameters.check_tensors = check_tensors
    _complaints.clear()
    with interrupts_held_back():
        pointer = llama_cpp.llama_model_load_from_file(os.fsencode(path), parameters)
    if not pointer:
        raise _refused(path)
    if llama_cpp.llama_model_has_encoder(pointer) or not llama_cpp.llama_model_has_decoder(pointer):
        llama_cpp.llama_model_free(pointer)
        raise ModelError(f"{path} cannot judge: it has an encoder", hint="use a text-generation model")
    template = (llama_cpp.llama_model_chat_template(pointer, None) or b"").decode(errors="replace") or None
    return OpenModel(
        pointer=pointer,
        vocabulary=Vocabulary(llama_cpp.llama_model_get_vocab(pointer), template),
        architecture=_metadata(pointer, "general.architecture"),
        quantisation=(llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(pointer)) or b"").decode(),
        chat_template=template,
        system=llama_cpp.llama_print_system_info().decode().strip(),
        library=llama_cpp.llama_version().decode(),
    )


def _opened_as_hashed(file: ModelFile, *, gpu_layers: int) -> OpenModel:
    """The model, read from the bytes that its checksum is of. Raises ModelError if they changed before or meanwhile."""
    with ExitStack() as undo:
        try:
            before = _state(file.path)
            opened = open_model(file.path, gpu_layers=gpu_layers)
            undo.callback(opened.close)
            unchanged = _state(file.path) == before and model_registry.sha256_of(file.path) == file.sha256
        except OSError:
            unchanged = False
        if not unchanged:
            raise ModelError(
                f"{file.path} was changed since its checksum was taken",
                hint="once nothing writes to it any more, run the same command again",
            )
        undo.pop_all()
    return opened


def _state(path: Path) -> list[tuple[int, int, int, int]]:
    """What changes when a file is written or replaced, for each part of the model."""
    facts = [part.stat() for part in model_registry.parts(path)]
    return [(fact.st_dev, fact.st_ino, fact.st_size, fact.st_mtime_ns) for fact in facts]


def _gpu_layers(settings: EngineSettings) -> int:
    """All layers, or as many as were asked for, if the build has a GPU backend; none if it has not."""
    if not llama_cpp.llama_supports_gpu_offload():
        return 0
    return _ALL_LAYERS if settings.gpu_layers is None else settings.gpu_layers


def _refused(path: Path) -> ModelError:
    said = "; ".join(dict.fromkeys(_complaints)) or "it gave no reason"
    if _UNKNOWN_ARCHITECTURE in said:
        hint = f"llama-cpp-python {version('llama-cpp-python')} does not know it: update it, or use another model"
    else:
        hint = "the file is damaged, or made for another version of llama.cpp: use another conversion of the model"
    return ModelError(f"llama.cpp cannot load {path}: {said}", hint=hint)


def _metadata(pointer: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(pointer, key.encode(), buffer, 256)
    return buffer.value.decode(errors="replace") if length >= 0 else ""
