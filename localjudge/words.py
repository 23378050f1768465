r"""Words for people: names of options, texts from data, names that may have been meant.

    option("protocol", "joint")   protocol='joint'   in Python
                                  protocol = "joint" in localjudge.toml   or   --map a=b   on the command line
    printable("a\x1b[2Jb\u202ec")   "a\\x1b[2Jb\\u202ec"
    escape_formula("=HYPERLINK(...)")   "'=HYPERLINK(...)"

Messages name an option as it is given where they are read, so that their advice can be typed; a run's files never do.
No text from data can act on the terminal, or on a spreadsheet.
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

Names = Literal["value", "read", "words", "written", "judge", "address"]
"""What a value names: a file or folder that is read (a list: several), a file of words (a list: the words themselves),
a place that is written, a judge (a model's file may lie anywhere), where texts are sent; or nothing outside itself."""
_UNNAMED = object()
_settings: dict[str, "Setting"] = {}
_on_the_command_line = ContextVar("on_the_command_line", default=False)


@dataclass(frozen=True)
class Setting:
    """What is to be known of a setting besides type, default and meaning; declared with its field, and nowhere else.

    n_ctx: Annotated[int | None, Setting("Judge", doctor=True)] = None

    Its option stands in a `group` of `localjudge run --help`, or in none where only suites and Python set it, and has a
    `flag` of its own where it is not called like the setting. It may name what is `bundled` in place of a path; `read`
    makes its value of the name of a file. A setting is about a `part` of the samples, the `data` of a run, or the
    `place` where the judge works, which moves no number. What `stops` a run early is not part of another. `rescorable`
    ones change no question; `calibration` and `doctor` say which other commands take it.
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
    rescorable: bool = False
    calibration: bool = False
    doctor: bool = False
    stops: bool = False


def declare(settings: Mapping[str, Setting]) -> None:
    """Tell `option` and its like how these are given on the command line."""
    _settings.update(settings)


@contextmanager
def as_typed() -> Iterator[None]:
    """Name options as the command line does, until the end of the block."""
    before = _on_the_command_line.set(True)
    try:
        yield
    finally:
        _on_the_command_line.reset(before)


def flag(name: str) -> str:
    """The option of the command line that sets the argument."""
    setting = _settings.get(name)
    return (setting and setting.flag) or f"--{name.replace('_', '-')}"


def _in_suite(name: str) -> bool:
    """Whether the command line has no option for it, and its suite file sets it."""
    return name in _settings and not _settings[name].group


def option_name(name: str) -> str:
    """What the option is called where it is read."""
    return flag(name) if _on_the_command_line.get() and not _in_suite(name) else name


def option(name: str, value: Any = _UNNAMED) -> str:
    """The option as it is given where it is read, with a value if there is one to give."""
    if not _on_the_command_line.get():
        return f"{name}=..." if value is _UNNAMED else f"{name}={value!r}"
    if _in_suite(name):
        return f"{name} = {'...' if value is _UNNAMED else json.dumps(value)} in localjudge.toml"
    if value is _UNNAMED or value is True:
        return flag(name)
    values = [f"{key}={item}" for key, item in value.items()] if isinstance(value, Mapping) else [str(value)]
    return " ".join(f"{flag(name)} {shlex.quote(item)}" for item in values)


def call(command: str, run: str, name: str | None = None, value: Any = "") -> str:
    """A command on a run, perhaps with an option, as it is given where it is read."""
    if not _on_the_command_line.get():
        arguments = [*(["'labels.html'"] if command == "label" else []), *([option(name, value)] if name else [])]
        return f"Run.open({run!r}).{command}({', '.join(arguments)})"
    return " ".join(["localjudge", command, shlex.quote(run), *([option(name, value)] if name else ())])


# What a terminal acts on: control characters (C0, C1, DEL), characters that change the writing direction, line and
# paragraph separators; and lone surrogates, which cannot be encoded.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"[\s\x00-\x1f\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def escape_formula(cell: Any) -> Any:
    """The cell, with an apostrophe in front of text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def printable(text: str) -> str:
    r"""The text on one line, with a visible escape (`\n`, `\x1b`, `\u202e`) for what would act on the terminal."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)


def printable_lines(text: str) -> str:
    """As `printable`, but the text keeps its own lines."""
    return "\n".join(map(printable, text.split("\n")))


def numbered(count: int, noun: str) -> str:
    """A number of things: `1 sample`, `2,318 samples`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def about(count: int) -> str:
    """A number that is extrapolated, with two digits: `about 570`."""
    return f"about {int(float(f'{count:.2g}')):,}"


_MINUTE, _HOUR = 60, 3_600


def roughly(seconds: float) -> str:
    """A time that is estimated, no more exact than it is known: `about 20 seconds`, `about 2 minutes`."""
    if seconds >= 2 * _HOUR:
        return f"about {numbered(round(seconds / _HOUR), 'hour')}"
    if seconds >= 0.9 * _MINUTE:
        return f"about {numbered(max(1, round(seconds / _MINUTE)), 'minute')}"
    return f"about {max(5, 5 * round(seconds / 5))} seconds"


_ALIKE = 0.75  # "answer_relevancy" is not a typing error for "context_relevancy" (0.73), "contxt_recall" is one (0.96)
_MOST_NAMES = 20
_MOST_NEAR = 3


def suggestion(name: str, names: Collection[str], what: str, *, show: Callable[[str], str] = str) -> str:
    """A hint: the names that are like this one, then those that hold it; else all as the `what`, or the first."""
    near = difflib.get_close_matches(name, names, cutoff=_ALIKE)
    longer = [other for other in names if name in other and other not in near]
    if alike := [*near, *longer][: _MOST_NEAR if near else _MOST_NAMES]:
        return f"did you mean {', '.join(map(show, alike))}?"
    more = len(names) - _MOST_NAMES
    first = ", ".join(map(show, list(names)[:_MOST_NAMES]))
    return f"{what} are {first}{f' and {more:,} more' if more > 0 else ''}"
