"""One key at a time, from a terminal as soon as it is pressed, from anything else as it is read."""

import os
import sys
from collections.abc import Generator

_ESCAPE = "\x1b"
_END = "\x04"


def keys() -> Generator[str, None, None]:
    """The keys that are pressed, until standard input ends. Close it, and the terminal is as it was.

    Keys that send several characters (arrows, Home) are none: what they send may hold a digit.
    """
    if sys.stdin.isatty():
        yield from _of_terminal(sys.stdin.fileno())
    else:
        while key := sys.stdin.read(1):
            if not key.isspace():
                yield key


def _of_terminal(descriptor: int) -> Generator[str, None, None]:
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        while pressed := os.read(descriptor, 64).decode(errors="replace"):
            if pressed.startswith(_ESCAPE):
                continue
            for key in pressed:
                if key == _END:
                    return
                yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
