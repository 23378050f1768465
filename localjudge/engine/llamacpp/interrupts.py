"""Holds interrupts back while native code calls Python.

An interrupt that arrives inside a callback of llama.cpp is raised there, printed and lost: the run would go on. It is
noted instead, and raised when the native call is over.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
