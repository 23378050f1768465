r"""Format option names, counts and data for messages.

    option("reasons", "after")   reasons='after'   in Python
                                 reasons = "after" in localjudge.toml   or   --map a=b   on the command line
    printable("a\x1b[2Jb\u202ec")   "a\\x1b[2Jb\\u202ec"

Messages name an option as the reader can type it; files of a run never do.
"""

import difflib
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

Names = Literal["value", "read", "words", "written", "judge"]
"""Refers to a file or folder to read (a list: several), a file of words (a list: the words), a path to write, a judge
(its file may be anywhere), or nothing.
"""
_UNNAMED = object()
_settings: dict[str, "Setting"] = {}
_on_the_command_line = ContextVar("on_the_command_line", default=False)


@dataclass(frozen=True)
class Setting:
    """Properties of a setting besides type, default and help, declared with its field.

        n_ctx: Annotated[int | None, Setting("Judge", doctor=True)] = None

    `group` is its section in `localjudge run --help`; without one, only suites and Python set it.
    `everyday` options come first there. `flag` is its option if the names differ. `bundled` names
    replace a path. `read` converts a file's name to the value. `part` selects samples, `data`
    describes the data, `place` changes no number, `stops` ends a run early. `calibration` and
    `doctor` take the setting, too.
    """

    group: str = ""
    flag: str = ""
    metavar: str | None = None
    names: Names = "value"
    bundled: Callable[[], Collection[str]] = tuple
    read: Callable[[Any], Any] | None = None
    part: bool = False
    data: bool = False
    place: bool = False
    calibration: bool = False
    doctor: bool = False
    stops: bool = False
    everyday: bool = False


def declare(settings: Mapping[str, Setting]) -> None:
    _settings.update(settings)


@contextmanager
def as_typed() -> Iterator[None]:
    """Name options as on the command line within the block."""
    token = _on_the_command_line.set(True)
    try:
        yield
    finally:
        _on_the_command_line.reset(token)


def flag(name: str) -> str:
    setting = _settings.get(name)
    return (setting and setting.flag) or f"--{name.replace('_', '-')}"


def _in_suite(name: str) -> bool:
    return name in _settings and not _settings[name].group


def option_name(name: str) -> str:
    return flag(name) if _on_the_command_line.get() and not _in_suite(name) else name


def option(name: str, value: Any = _UNNAMED) -> str:
    if not _on_the_command_line.get():
        return f"{name}=..." if value is _UNNAMED else f"{name}={value!r}"
    if _in_suite(name):
        return f"{name} = {'...' if value is _UNNAMED else json.dumps(value)} in localjudge.toml"
    if value is _UNNAMED or value is True:
        return flag(name)
    values = [f"{key}={item}" for key, item in value.items()] if isinstance(value, Mapping) else [str(value)]
    values = [",".join(value)] if isinstance(value, list) else values
    return " ".join(f"{flag(name)} {shlex.quote(item)}" for item in values)


def call(command: str, run: str, name: str | None = None, value: Any = "") -> str:
    """Return a command on a run for the reader, optionally with an option."""
    if not _on_the_command_line.get():
        arguments = [*(["'labels.html'"] if command == "label" else []), *([option(name, value)] if name else [])]
        return f"Run.open({run!r}).{command}({', '.join(arguments)})"
    return " ".join(["localjudge", command, shlex.quote(run), *([option(name, value)] if name else ())])


# What a terminal acts on: control characters (C0, C1, DEL), characters that change the writing direction, line and
# paragraph separators; and lone surrogates, which cannot be encoded.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"'*[\s\x00-\x1f\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet may take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def unescape_formula(text: str) -> str:
    """Undo `escape_formula`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def printable(text: str) -> str:
    r"""Return the text on one line, with control characters escaped (`\n`, `\x1b`, `\u202e`)."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)


def printable_lines(text: str) -> str:
    """Like `printable`, with line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def numbered(count: int, noun: str) -> str:
    """Format a count: `1 sample`, `2,318 samples`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def about(count: int) -> str:
    """Format an estimated count: `about 570`."""
    return f"about {int(float(f'{count:.2g}')):,}"


_MINUTE, _HOUR = 60, 3_600


def roughly(seconds: float, ends: tuple[float, float] | None = None) -> str:
    """Format an estimated duration, with the ends of its interval: `about 14 minutes (11 to 18)`."""
    unit, noun, step = 1, "second", 5
    if seconds >= 0.9 * _MINUTE:
        unit, noun, step = (_HOUR, "hour", 1) if seconds >= 2 * _HOUR else (_MINUTE, "minute", 1)
    count, *limits = (max(step, step * round(value / unit / step)) for value in (seconds, *(ends or ())))
    return f"about {numbered(count, noun)}{f' ({limits[0]:,} to {limits[1]:,})' if len(set(limits)) > 1 else ''}"


_ALIKE = 0.75  # "answer_relevancy" is not a typing error for "context_relevancy" (0.73), "contxt_recall" is one (0.96)
_MOST_NAMES = 20
_MOST_NEAR = 3


def suggestion(name: str, names: Collection[str], what: str, *, show: Callable[[str], str] = str) -> str:
    """Return a hint with similar names, else with the first names."""
    near = difflib.get_close_matches(name, names, cutoff=_ALIKE)
    longer = [other for other in names if name in other and other not in near]
    if alike := [*near, *longer][: _MOST_NEAR if near else _MOST_NAMES]:
        return f"did you mean {', '.join(map(show, alike))}?"
    more = len(names) - _MOST_NAMES
    listed = ", ".join(map(show, list(names)[:_MOST_NAMES]))
    return f"{what} are {listed}{f' and {more:,} more' if more > 0 else ''}"
