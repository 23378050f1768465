"""One key at a time, from a terminal as soon as it is pressed, from anything else as it is read."""

import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager

# What arrows, Home and the like send (ECMA-48, 5.4), and a key together with Alt.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")
_END = "\x04"


@contextmanager
def keys() -> Generator[Iterator[str], None, None]:
    """The keys that are pressed in this block, until standard input ends; then the terminal is as it was.

    Keys that send several characters (arrows, Home) are none: what they send may hold a digit.
    """
    if not sys.stdin.isatty():
        yield _read()
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield _typed(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read() -> Iterator[str]:
    while key := sys.stdin.read(1):
        if not key.isspace():
            yield key


def _typed(descriptor: int) -> Iterator[str]:
    while pressed := os.read(descriptor, 64).decode(errors="replace"):
        for key in _ESCAPE_SEQUENCE.sub("", pressed):
            if key == _END:
                return
            yield key
