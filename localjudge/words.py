r"""Cells that a spreadsheet takes for text: one that begins like a formula gets an apostrophe in front.

    =HYPERLINK(...)   ->   '=HYPERLINK(...)

Who reads such a file again compares `inert` texts: what is inert stays as it is.

How an option is called by whoever reads of it: `--out` on the command line, `out=...` in Python.

    option("out")                              --out                      out=...
    option("protocol", "joint")                --protocol joint           protocol='joint'
    option("mapping", {"reference": "gold"})   --map reference=gold       mapping={'reference': 'gold'}
    option_name("max_failed")                  --max-failed               max_failed
    call("verify", "runs/a", "judge", "b.gguf")
        localjudge verify runs/a --judge b.gguf         localjudge.verify('runs/a', judge='b.gguf')

Errors, warnings and remarks name options by these, so that what they advise can be typed where they are read. What is
written to a run's files never does: it is the same whoever began the run.

Text from data, made safe to print: no user text can write a control sequence to the terminal.

    "a\x1b[2Jb\u202ec"   ->   "a\\x1b[2Jb\\u202ec"

Replaced by escapes: control characters (C0, C1, DEL: they clear screens and set titles), characters that change the
writing direction (they make text read as something else), line and paragraph separators, and lone surrogates (they
cannot be encoded). Everything else, all scripts and emoji, is left as it is.

What to say to a name that does not exist: the ones that may have been meant, or what there is.
"""

import difflib
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_FORMULA = re.compile(r"[\s\x00-\x1f\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def inert(cell: Any) -> Any:
    """The cell, with an apostrophe in front of text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


FLAGS = {"criteria": "--criterion", "prompts": "--prompt", "mapping": "--map", "gates": "--gate"}
"""Options of the command line that are not called like their argument: those that may be given several times."""
_UNNAMED = object()
_on_the_command_line = ContextVar("on_the_command_line", default=False)


@contextmanager
def as_typed() -> Iterator[None]:
    """Call options as the command line does, until the end of the block."""
    before = _on_the_command_line.set(True)
    try:
        yield
    finally:
        _on_the_command_line.reset(before)


def flag(name: str) -> str:
    """The option of the command line that sets the argument."""
    return FLAGS.get(name, f"--{name.replace('_', '-')}")


def option_name(name: str) -> str:
    """What the option is called where it is read."""
    return flag(name) if _on_the_command_line.get() else name


def option(name: str, value: Any = _UNNAMED) -> str:
    """The option as it is given where it is read, with a value if there is one to give."""
    if not _on_the_command_line.get():
        return f"{name}=..." if value is _UNNAMED else f"{name}={value!r}"
    if value is _UNNAMED or value is True:
        return flag(name)
    values = [f"{key}={one}" for key, one in value.items()] if isinstance(value, Mapping) else [str(value)]
    return " ".join(f"{flag(name)} {shlex.quote(one)}" for one in values)


def call(command: str, run: str, name: str, value: str) -> str:
    """A command on a run with one option, as it is given where it is read."""
    if not _on_the_command_line.get():
        return f"localjudge.{command}({run!r}, {option(name, value)})"
    return f"localjudge {command} {shlex.quote(run)} {option(name, value)}"


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text on one line, with a visible escape (`\n`, `\x1b`, `\u202e`) for what would act on the terminal."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)


def printable_lines(text: str) -> str:
    """As `printable`, but the text keeps its own lines."""
    return "\n".join(map(printable, text.split("\n")))


def numbered(count: int, noun: str) -> str:
    """A number of things: `1 sample`, `2,318 samples`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# "answer_relevancy" is not a typing error for "context_relevancy" (0.73), "contxt_recall" is one (0.96).
_ALIKE = 0.75
_MOST_NAMES = 20
_MOST_NEAR = 3


def suggestion(wanted: str, names: Collection[str], what: str, *, show: Callable[[str], str] = str) -> str:
    """A hint: the names that are like the wanted one, then those that hold it; else all as the `what`, or the first.

    A part of one name may be spelt like another: "recall" is near `recall@k`, and `context_recall` may be meant.
    `show` is how a name is written.
    """
    near = difflib.get_close_matches(wanted, names, cutoff=_ALIKE)
    held = [name for name in names if wanted in name and name not in near]
    if alike := [*near, *held][: _MOST_NEAR if near else _MOST_NAMES]:
        return f"did you mean {', '.join(map(show, alike))}?"
    more = len(names) - _MOST_NAMES
    shown = ", ".join(map(show, list(names)[:_MOST_NAMES]))
    return f"{what} are {shown}{f' and {more:,} more' if more > 0 else ''}"
