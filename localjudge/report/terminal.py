"""What reaches the terminal: text from data, a model or a stranger's file is made safe to print here, and only here."""

from rich.console import Console
from rich.text import Text

from localjudge.printable import printable


def safe(text: str) -> str:
    """The text on one line, with escapes for what would act on the terminal."""
    return printable(text)


def safe_text(text: str, *, style: str = "") -> Text:
    """The same as rich draws it: folded at the width of the terminal, and nothing in it taken for markup."""
    return Text(printable(text), style=style, overflow="fold")


def terminal(*, stderr: bool = False) -> Console:
    """Console that prints text as it is: no markup, no emoji codes, no guessing at numbers and paths."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def number(value: float) -> str:
    """A score with three digits, as tables show it."""
    return f"{value:.3f}"
