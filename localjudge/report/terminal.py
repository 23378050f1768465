"""What reaches the terminal: text from data, a model or a stranger's file is made safe to print here, and only here.

Lines end where their text ends: what fills a column to its width is left out, so that outputs can be compared and
copied. A reader that has seen enough (`| head`) has closed the pipe, and that is no error.
"""

import os
import re
import sys

from rich.console import Console, RenderableType
from rich.text import Text

from localjudge.printable import printable

_END_OF_LINE = re.compile(r"(?:\x1b\[[0-9;]*m| )+$", re.MULTILINE)
"""Blanks, and what switches colours."""


def safe(text: str) -> str:
    """The text on one line, with escapes for what would act on the terminal."""
    return printable(text)


def safe_text(text: str, *, style: str = "") -> Text:
    """The same as rich draws it: folded at the width of the terminal, and nothing in it taken for markup."""
    return Text(printable(text), style=style, overflow="fold")


def terminal(*, stderr: bool = False) -> Console:
    """Console that prints text as it is: no markup, no emoji codes, no guessing at numbers and paths."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def show(*views: RenderableType) -> None:
    """Print the views on standard output, with an empty line between them."""
    console = terminal()
    put("\n".join(drawn(view, console) for view in views))


def drawn(view: RenderableType, console: Console) -> str:
    """The view as the console draws it, without blanks at the ends of lines."""
    with console.capture() as captured:
        console.print(view)
    return _END_OF_LINE.sub(lambda end: end.group().replace(" ", ""), captured.get())


def put(text: str) -> None:
    """Write to standard output what stands for itself; whoever read it may be gone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        ignore_output()


def ignore_output() -> None:
    """Let nobody read what is still to be written, and Python not complain of that when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def number(value: float) -> str:
    """A score with three digits, as tables show it."""
    return f"{value:.3f}"
