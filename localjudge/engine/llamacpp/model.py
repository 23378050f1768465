"""Gives a file to llama.cpp, and says in its words why it was refused.

The weights in memory are a copy of our own, not a mapping of the file: what is written over a mapped file while a run
goes on would be read as weights without a word, and a mapped file that is cut off ends the process (SIGBUS). The copy
takes about half a second for a gigabyte of F16 or Q8_0, and next to nothing for the 4-bit quantisations, which
llama.cpp lays out anew when it loads them and would then hold twice. Two processes do not share it.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from localjudge.engine.llamacpp import gguf as memory
from localjudge.engine.llamacpp.library import complaints, interrupts_held_back, listen, llama_cpp
from localjudge.engine.tokens import ChatTemplate, TokenTable, Vocabulary, is_reserved
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource

WHO_IT_IS = ("general.architecture", "general.basename", "general.name")
"""Keys of a GGUF file that say which model it holds."""
_NORMALISING = (llama_cpp.LLAMA_VOCAB_TYPE_WPM, llama_cpp.LLAMA_VOCAB_TYPE_UGM)
_CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
_DEFINED = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED | llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
_UNKNOWN_ARCHITECTURE = "unknown model architecture"


@dataclass(frozen=True)
class OpenModel:
    """A model in memory, and what it says of itself: `metadata` holds who it is, by the file's keys."""

    pointer: Any
    vocabulary: Vocabulary
    architecture: str
    quantisation: str
    template: ChatTemplate | None
    metadata: Mapping[str, str]

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
    with ExitStack() as undo:
        undo.callback(llama_cpp.llama_model_free, pointer)
        if llama_cpp.llama_model_has_encoder(pointer) or not llama_cpp.llama_model_has_decoder(pointer):
            raise ModelError(f"{path} cannot judge: it has an encoder", hint="use a text-generation model")
        text = (llama_cpp.llama_model_chat_template(pointer, None) or b"").decode(errors="replace") or None
        vocabulary = Vocabulary(loaded_tokens(llama_cpp.llama_model_get_vocab(pointer)), text)
        ends = vocabulary.text_of(vocabulary.bos), vocabulary.text_of(vocabulary.eos)
        undo.pop_all()
    return OpenModel(
        pointer=pointer,
        vocabulary=vocabulary,
        architecture=_metadata(pointer, "general.architecture"),
        quantisation=(llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(pointer)) or b"").decode(),
        template=ChatTemplate(text, *ends) if text else None,
        metadata={key: _metadata(pointer, key) for key in WHO_IT_IS},
    )


@contextmanager
def vocabulary_of_file(path: Path) -> Iterator[Vocabulary]:
    """The vocabulary of a file with its chat template, its weights not loaded. Raises as `open_model` does."""
    with closing(open_model(path, gpu_layers=0, vocabulary_alone=True)) as model:
        yield model.vocabulary


def _refused(path: Path) -> LocaljudgeError:
    complaint = complaints() or "it gave no reason"
    if memory.was_refused(complaint):
        return OutOfResource(
            f"llama.cpp was refused memory or threads to load {path}: {complaint}", hint=memory.what_to_do()
        )
    if _UNKNOWN_ARCHITECTURE in complaint:
        hint = f"llama-cpp-python {version('llama-cpp-python')} does not know it: update it, or use another model"
    else:
        hint = "the file is damaged, or made for another version of llama.cpp: use another conversion of the model"
    return ModelError(f"llama.cpp cannot load {path}: {complaint}", hint=hint)


def _metadata(pointer: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(pointer, key.encode(), buffer, 256)
    return buffer.value.decode(errors="replace") if length >= 0 else ""


def loaded_tokens(pointer: Any) -> TokenTable:
    """Those of a loaded model. `pointer` is llama.cpp's vocabulary; it must outlive the table."""
    size = llama_cpp.llama_vocab_n_tokens(pointer)
    exact = llama_cpp.llama_vocab_type(pointer) not in _NORMALISING
    pieces = [_piece(pointer, token) for token in range(size)]
    if not exact:
        pieces = [piece.removeprefix(b" ") for piece in pieces]  # marks the start of a word: not in the text
    attributes = [llama_cpp.llama_vocab_get_attr(pointer, token) for token in range(size)]
    # The unknown token is reserved, except in vocabularies that fold text: there it is what a rare character becomes.
    unwanted = _CONTROL | _DEFINED | (llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN if exact else 0)
    bos = llama_cpp.llama_vocab_bos(pointer)
    return TokenTable(
        pieces=pieces,
        exact=exact,
        reserved={
            token: pieces[token]
            for token, attribute in enumerate(attributes)
            if attribute & unwanted and is_reserved(pieces[token], control=bool(attribute & _CONTROL))
        },
        bytes_alone={
            pieces[token]: token
            for token, attribute in enumerate(attributes)
            if len(pieces[token]) == 1 and attribute & llama_cpp.LLAMA_TOKEN_ATTR_BYTE
        },
        bos=bos,
        eos=llama_cpp.llama_vocab_eos(pointer),
        begin=bos if llama_cpp.llama_vocab_get_add_bos(pointer) and bos >= 0 else None,
        tokenize=lambda data: _tokenized(pointer, data),
    )


def _tokenized(pointer: Any, data: bytes) -> list[int]:
    room = len(data) + 16
    while True:
        buffer = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(pointer, data, len(data), buffer, room, False, False)
        if count >= 0:
            return list(buffer[:count])
        room = -count


def _piece(pointer: Any, token: int) -> bytes:
    room = 64
    while True:
        buffer = ctypes.create_string_buffer(room)
        length = llama_cpp.llama_token_to_piece(pointer, token, buffer, room, 0, True)
        if length >= 0:
            return bytes(buffer.raw[:length])
        room = -length
