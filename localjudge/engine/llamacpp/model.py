"""Gives a file to llama.cpp, and says in its words why it was refused.

The weights in memory are a copy of our own, not a mapping of the file: what is written over a mapped file while a run
goes on would be read as weights without a word, and a mapped file that is cut off ends the process (SIGBUS). The copy
takes about half a second for a gigabyte of F16 or Q8_0, and next to nothing for the 4-bit quantisations, which
llama.cpp lays out anew when it loads them and would then hold twice. Two processes do not share it.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from localjudge.engine.llamacpp import gguf as memory
from localjudge.engine.llamacpp.library import complaints, interrupts_held_back, listen, llama_cpp
from localjudge.engine.tokens import Vocabulary, loaded_tokens
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource

WHO_IT_IS = ("general.architecture", "general.basename", "general.name")
"""Keys of a GGUF file that say which model it holds."""
_UNKNOWN_ARCHITECTURE = "unknown model architecture"


@dataclass(frozen=True)
class OpenModel:
    """A model in memory, what it says of itself, and what runs it: processor features, llama.cpp's own version.

    `metadata` holds what its file says of who it is, by the file's keys.
    """

    pointer: Any
    vocabulary: Vocabulary
    architecture: str
    quantisation: str
    chat_template: str | None
    metadata: Mapping[str, str]
    system: str
    library: str

    def close(self) -> None:
        """Free the memory."""
        llama_cpp.llama_model_free(self.pointer)


def open_model(
    path: Path, *, gpu_layers: int, repack: bool = True, check_tensors: bool = False, vocabulary_alone: bool = False
) -> OpenModel:
    """Give the file to llama.cpp as it is. Raises ModelError or OutOfResource with llama.cpp's own words.

    Of a model whose vocabulary alone is loaded, the quantisation is not known.
    """
    listen()
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = gpu_layers
    parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # not mapped: see the top
    parameters.check_tensors = check_tensors
    parameters.use_extra_bufts = repack
    parameters.vocab_only = vocabulary_alone
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
        vocabulary=Vocabulary(loaded_tokens(llama_cpp.llama_model_get_vocab(pointer)), template),
        architecture=_metadata(pointer, "general.architecture"),
        quantisation=(llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(pointer)) or b"").decode(),
        chat_template=template,
        metadata={key: _metadata(pointer, key) for key in WHO_IT_IS},
        system=llama_cpp.llama_print_system_info().decode().strip(),
        library=llama_cpp.llama_version().decode(),
    )


@contextmanager
def vocabulary_of_file(path: Path) -> Iterator[Vocabulary]:
    """The vocabulary of a file with its chat template, its weights not loaded. Raises as `open_model` does."""
    with closing(open_model(path, gpu_layers=0, vocabulary_alone=True)) as model:
        yield model.vocabulary


def _refused(path: Path) -> LocaljudgeError:
    said = complaints() or "it gave no reason"
    if memory.was_refused(said):
        return OutOfResource(
            f"llama.cpp was refused memory or threads to load {path}: {said}", hint=memory.what_to_do()
        )
    if _UNKNOWN_ARCHITECTURE in said:
        hint = f"llama-cpp-python {version('llama-cpp-python')} does not know it: update it, or use another model"
    else:
        hint = "the file is damaged, or made for another version of llama.cpp: use another conversion of the model"
    return ModelError(f"llama.cpp cannot load {path}: {said}", hint=hint)


def _metadata(pointer: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(pointer, key.encode(), buffer, 256)
    return buffer.value.decode(errors="replace") if length >= 0 else ""
