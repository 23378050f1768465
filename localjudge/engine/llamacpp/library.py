"""llama.cpp, as every module of the engine uses it: `from localjudge.engine.llamacpp.library import llama_cpp`.

Its bindings load a compiled library when they are imported. A library that was built for a newer system, that needs
another one which is not there, or that is of another version than the bindings is told here in one error of ours.
llama.cpp tells of errors in its log: they are kept for our own messages. An interrupt that arrives inside a callback of
llama.cpp would be raised there, printed and lost: it is noted instead, and raised when the native call is over.
"""

import ctypes
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from localjudge.engine.protocol import EngineBuild
from localjudge.errors import ModelError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Raise KeyboardInterrupt behind the block if one arrived in it. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if received:
        raise KeyboardInterrupt


_MISSING = re.compile(r"(\S+\.so\S*): cannot open shared object file")
_BUILD_HERE = (
    "build it on this machine, which takes about ten minutes: "
    "pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
)


def _hint(message: str) -> str:
    missing = _MISSING.search(message)
    if not missing:
        return _BUILD_HERE
    name = missing[1]
    example = " (libgomp1 on Debian and Ubuntu, libgomp on Fedora and openSUSE)" if "libgomp" in name else ""
    return f"install the package of your system that holds {name}{example}"


# OpenMP reads this when llama.cpp is loaded. Its threads otherwise spin while they wait for each other: on a machine
# that has anything else to do, two threads were then ten times slower than one. Waiting cannot move a number.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    import llama_cpp
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    # RuntimeError: what the bindings make of the loader's OSError. AttributeError: a function that this build lacks.
    raise ModelError(f"llama.cpp cannot be loaded: {error}", hint=_hint(str(error))) from error

__all__ = ["build", "complaints", "listen", "llama_cpp"]

_LOG_LEVEL_ERROR = 4
_GPU_BACKENDS = ("cuda", "hip", "metal", "musa", "sycl", "vulkan")
_complaints: deque[str] = deque(maxlen=8)


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_errors(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    if level == _LOG_LEVEL_ERROR:
        _complaints.append(text.decode(errors="replace").strip())


def build() -> EngineBuild:
    """Which llama.cpp this is."""
    offloads = bool(llama_cpp.llama_supports_gpu_offload())
    return EngineBuild("llama.cpp", llama_cpp.llama_version().decode(), offloads, tuple(_gpu_backends()))


def _gpu_backends() -> Iterator[str]:
    """Backends for GPUs that were built: each is a library of its own beside llama.cpp's."""
    files = (Path(llama_cpp.__file__).parent / "lib").glob("*ggml-*")
    libraries = {path.name.partition(".")[0].removeprefix("lib") for path in files}
    yield from sorted(name for name in _GPU_BACKENDS if f"ggml-{name}" in libraries)


def listen() -> None:
    """Forget what was said so far; keep what llama.cpp says of errors from now on, and drop the rest of its log."""
    llama_cpp.llama_log_set(_keep_errors, ctypes.c_void_p(0))
    _complaints.clear()


def complaints() -> str:
    """The errors in llama.cpp's own words, each once; "" if it named none."""
    return "; ".join(dict.fromkeys(_complaints))
