"""Import llama.cpp and open model files.

An interrupt is raised after the native call, because Python would lose it inside a callback.
Weights are copied into memory: overwriting a mapped file would change them silently, and truncating
it would end the process (SIGBUS).
"""

import ctypes
import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from localjudge.engine import memory
from localjudge.engine.tokens import Vocabulary
from localjudge.errors import InputError, LocaljudgeError, ModelError, OutOfResource

# Otherwise OpenMP's threads spin while they wait: on a busy machine, two threads were ten times
# slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    import llama_cpp
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    # RuntimeError: an OSError of the loader. AttributeError: a function that this build lacks.
    raise ModelError(
        f"llama.cpp cannot be loaded: {error}",
        hint="install the system's package of a missing library (libgomp1 for libgomp.so.1), or "
        "build it on this machine, which takes about ten minutes: "
        "pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python "
        "llama-cpp-python",
    ) from error

__all__ = [
    "OpenModel",
    "build",
    "complaints",
    "listen",
    "llama_cpp",
    "open_model",
    "usable_threads",
]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOG_LEVEL_ERROR = 4
_SPAWN = "use multiprocessing.get_context('spawn')"
_log = logging.getLogger(__name__)
_GPU_BACKENDS = ("cuda", "hip", "metal", "musa", "sycl", "vulkan")
_NORMALISING = (llama_cpp.LLAMA_VOCAB_TYPE_WPM, llama_cpp.LLAMA_VOCAB_TYPE_UGM)
_CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
_DEFINED = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED | llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
_complaints: deque[str] = deque(maxlen=8)
_threaded: list[int] = []
"""Id of the process that used threads or a GPU, which a fork does not inherit."""


@contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Delay interrupts until the end of the block. No effect outside the main thread.

    Then a signal with a handler goes to this handler, by default for SIGINT, which raises
    KeyboardInterrupt. Without a handler, KeyboardInterrupt is raised here. Ignored signals stay
    ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {}
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        # None: not set by Python, so that it could not be restored.
        if handler not in (signal.SIG_IGN, None):
            handlers[number] = handler
            signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for received_number in dict.fromkeys(received):
        if not callable(signal.getsignal(received_number)):
            raise KeyboardInterrupt
        signal.raise_signal(received_number)


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_errors(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    if level == _LOG_LEVEL_ERROR:
        _complaints.append(text.decode(errors="replace").strip())


def listen() -> None:
    llama_cpp.llama_log_set(_keep_errors, ctypes.c_void_p(0))
    _complaints.clear()


def complaints() -> str:
    return "; ".join(dict.fromkeys(_complaints))


def usable_threads(threads: int, gpu_layers: int) -> int:
    """Return `threads`, or 1 in a fork of a process that used several.

    OpenMP would wait for the threads of the parent. Raises InputError for a GPU in such a fork.
    """
    if _threaded and _threaded[0] != os.getpid():
        if gpu_layers:
            raise InputError(
                "a forked process cannot use the GPU that its parent has used", hint=_SPAWN
            )
        if threads > 1:
            _warn_of_fork()
        return 1
    if threads > 1 or gpu_layers:
        _threaded[:] = [os.getpid()]
    return threads


@cache
def _warn_of_fork() -> None:
    _log.warning(
        f"this process was forked from one that has judged: it uses 1 thread; for more, {_SPAWN}",
    )


def build() -> tuple[str, tuple[str, ...], bool]:
    """Return the version of llama.cpp, its GPU backends, and whether it uses a GPU here."""
    files = (Path(llama_cpp.__file__).parent / "lib").glob("*ggml-*")
    libraries = {path.name.partition(".")[0].removeprefix("lib") for path in files}
    backends = tuple(name for name in _GPU_BACKENDS if f"ggml-{name}" in libraries)
    uses_gpu = bool(llama_cpp.llama_supports_gpu_offload())
    return f"llama.cpp {llama_cpp.llama_version().decode()}", backends, uses_gpu


@dataclass(frozen=True)
class OpenModel:
    """Model in memory."""

    pointer: Any
    vocabulary: Vocabulary
    quantisation: str

    def close(self) -> None:
        llama_cpp.llama_model_free(self.pointer)


def open_model(
    path: Path,
    *,
    gpu_layers: int,
    repack: bool = True,
    check_tensors: bool = False,
    classifies: bool = False,
) -> OpenModel:
    """Open a file with llama.cpp. Raises ModelError or OutOfResource with llama.cpp's message."""
    listen()
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = gpu_layers
    parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # not mapped
    parameters.check_tensors = check_tensors
    parameters.use_extra_bufts = repack
    with delayed_interrupts():
        pointer = llama_cpp.llama_model_load_from_file(os.fsencode(path), parameters)
    if not pointer:
        raise _refused(path)
    with ExitStack() as undo:
        undo.callback(llama_cpp.llama_model_free, pointer)
        has_encoder = llama_cpp.llama_model_has_encoder(pointer)
        decodes = llama_cpp.llama_model_has_decoder(pointer) and not has_encoder
        if not (decodes or classifies):
            raise ModelError(
                f"{path} cannot judge: it has an encoder", hint="use a text-generation model"
            )
        template = llama_cpp.llama_model_chat_template(pointer, None) or b""
        vocabulary = load_vocabulary(
            llama_cpp.llama_model_get_vocab(pointer), template.decode(errors="replace") or None
        )
        undo.pop_all()
    quantisation = llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(pointer)) or b""
    return OpenModel(pointer, vocabulary, quantisation.decode())


def _refused(path: Path) -> LocaljudgeError:
    complaint = complaints() or "it gave no reason"
    if memory.is_out_of_memory(complaint):
        return OutOfResource(
            f"llama.cpp lacks memory or threads to load {path}: {complaint}",
            hint=memory.memory_hint(),
        )
    return ModelError(
        f"llama.cpp cannot load {path}: {complaint}",
        hint=f"the file is damaged, or llama-cpp-python {version('llama-cpp-python')} does not "
        "support it: update it, or use another conversion of the model",
    )


def load_vocabulary(pointer: Any, chat_template: str | None = None) -> Vocabulary:
    """Return llama.cpp's vocabulary. It must not be used after the model is closed."""
    exact = llama_cpp.llama_vocab_type(pointer) not in _NORMALISING
    size = llama_cpp.llama_vocab_n_tokens(pointer)
    pieces = [_piece(pointer, token) for token in range(size)]
    if not exact:
        pieces = [piece.removeprefix(b" ") for piece in pieces]  # it marks the start of a word
    unwanted = _CONTROL | _DEFINED
    if exact:  # vocabularies that fold text turn rare characters into the unknown token
        unwanted |= llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
    reserved = {}
    byte_tokens = {}
    for token, piece in enumerate(pieces):
        attributes = llama_cpp.llama_vocab_get_attr(pointer, token)
        is_control = bool(attributes & _CONTROL)
        if attributes & unwanted and _is_reserved(piece, control=is_control):
            reserved[token] = piece
        if len(piece) == 1 and attributes & llama_cpp.LLAMA_TOKEN_ATTR_BYTE:
            byte_tokens[piece] = token
    bos = llama_cpp.llama_vocab_bos(pointer)
    begin = None
    if llama_cpp.llama_vocab_get_add_bos(pointer) and bos >= 0:
        begin = bos
    return Vocabulary(
        pieces=pieces,
        exact=exact,
        reserved=reserved,
        byte_tokens=byte_tokens,
        bos=bos,
        eos=llama_cpp.llama_vocab_eos(pointer),
        begin=begin,
        tokenize_bytes=lambda data: _tokenized(pointer, data),
        score=lambda token: float(llama_cpp.llama_vocab_get_score(pointer, token)),
        chat_template=chat_template,
    )


def _is_reserved(literal: bytes, *, control: bool) -> bool:
    """Return whether user text must not produce a token with this literal."""
    return bool(literal.strip()) and (control or len(literal.decode(errors="replace")) > 1)


def _tokenized(pointer: Any, data: bytes, room: int | None = None) -> list[int]:
    room = room or len(data) + 16
    buffer = (llama_cpp.llama_token * room)()
    count = llama_cpp.llama_tokenize(pointer, data, len(data), buffer, room, False, False)
    if count < 0:  # the buffer is too short
        return _tokenized(pointer, data, -count)
    return list(buffer[:count])


def _piece(pointer: Any, token: int, room: int = 64) -> bytes:
    buffer = ctypes.create_string_buffer(room)
    length = llama_cpp.llama_token_to_piece(pointer, token, buffer, room, 0, True)
    if length < 0:  # the buffer is too short
        return _piece(pointer, token, -length)
    return bytes(buffer.raw[:length])
