"""How an option is called by whoever reads of it: `--out` on the command line, `out=...` in Python.

    option("out")                              --out                      out=...
    option("protocol", "joint")                --protocol joint           protocol='joint'
    option("mapping", {"reference": "gold"})   --map reference=gold       mapping={'reference': 'gold'}
    option_name("max_failed")                  --max-failed               max_failed
    call("verify", "runs/a", "judge", "b.gguf")
        localjudge verify runs/a --judge b.gguf         localjudge.verify('runs/a', judge='b.gguf')

Errors, warnings and remarks name options by these, so that what they advise can be typed where they are read. What is
written to a run's files never does: it is the same whoever began the run.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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
