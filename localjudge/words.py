r"""Format option names, counts and data for messages.

    option("reasons", "after")   reasons='after'     in Python
                                 reasons = "after" in localjudge.toml
                                 --map a=b         on the command line
    printable("a\x1b[2Jb\u202ec")   "a\\x1b[2Jb\\u202ec"

Messages name an option as the reader can type it; files of a run never do.
"""

import difflib
import json
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_TINY = 1e-9
"""More than the error of a product of floats."""
_DIGITS = range(3, 9)
"""Digits that a number may have."""
_EQUAL = 1e-8
"""Numbers that are nearer count as equal."""
PathRole = Literal["read", "word_list", "written", "judge"]
"""What is done with the path in a setting.

    read        a file or folder is read
    word_list   a file of words is read; a list has the words themselves
    written     a file is written
    judge       a judge is opened, whose file may be anywhere
"""
_NO_VALUE = object()
_on_the_command_line = ContextVar("on_the_command_line", default=False)


@dataclass(frozen=True)
class Setting:
    """Properties of a setting besides type, default and help, declared with its field.

        n_ctx: Annotated[int | None, Setting()] = None

    group               its section in `localjudge run --help`; without one, only configuration
                        files and Python set it
    metavar             its value in the help
    flag                its option, if it is not named after it
    path_role           what is done with the path that it is; None for other values
    bundled             names that may replace the path
    read                converts a file's name to the value
    stops               it ends a run early
    everyday            it comes first in the help
    typed               only the user gives it: no configuration file, and no run that is read
    """

    group: str = ""
    metavar: str | None = None
    flag: str = ""
    path_role: PathRole | None = None
    bundled: Callable[[], Collection[str]] = tuple
    read: Callable[[Any], Any] | None = None
    stops: bool = False
    everyday: bool = False
    typed: bool = False


_declared: dict[str, Setting] = {}


def declare(settings: Mapping[str, Setting]) -> Mapping[str, Setting]:
    """Remember the settings of a run, so that messages can name their options."""
    _declared.update(settings)
    return settings


@contextmanager
def as_typed() -> Iterator[None]:
    """Name options as on the command line within the block."""
    token = _on_the_command_line.set(True)
    try:
        yield
    finally:
        _on_the_command_line.reset(token)


def flag(name: str) -> str:
    """Return the option of a setting or argument on the command line."""
    if name in _declared and _declared[name].flag:
        return _declared[name].flag
    return f"--{name.replace('_', '-')}"


def _has_option(name: str) -> bool:
    """Return whether the command line has an option for a setting or argument."""
    return name not in _declared or bool(_declared[name].group)


def option_name(name: str) -> str:
    """Return the name that the reader uses: of the argument in Python, or of the option."""
    if _on_the_command_line.get() and _has_option(name):
        return flag(name)
    return name


def option(name: str, value: Any = _NO_VALUE) -> str:
    """Return an option as the reader can type it, with a value unless it is omitted."""
    has_value = value is not _NO_VALUE
    if not _on_the_command_line.get():
        written = repr(value) if has_value else "..."
        return f"{name}={written}"
    if not _has_option(name):
        written = json.dumps(value) if has_value else "..."
        return f"{name} = {written} in localjudge.toml"
    if value is True or not has_value:
        return flag(name)
    typed = [str(value)]
    if isinstance(value, Mapping):  # the option is repeated for each pair
        typed = [f"{key}={item}" for key, item in value.items()]
    elif isinstance(value, list):
        typed = [",".join(value)]
    return " ".join(f"{flag(name)} {shlex.quote(item)}" for item in typed)


def typed_path(path: str | Path) -> str:
    """Return a path as a shell takes it. Commands take one that begins with `-` for an option."""
    text = str(path)
    if text.startswith("-"):
        text = f"./{text}"
    return shlex.quote(text)


def call(command: str, run: str, *, opened: str = "Run", **options: Any) -> str:
    """Return a command on a run for the reader, with these options.

    `opened` is the class in Python.
    """
    written = [option(name, value) for name, value in options.items()]
    if _on_the_command_line.get():
        return " ".join(["localjudge", command, typed_path(run), *written])
    if command == "label":
        written.insert(0, "'labels.html'")
    return f"{opened}.open({run!r}).{command}({', '.join(written)})"


_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters (C0, DEL, C1)
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # characters that change the writing direction
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff]"  # lone surrogates, which cannot be encoded
)
"""Characters that a terminal acts on or cannot print."""
_FORMULA = re.compile(r"'*[\s\x00-\x1f\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet may take for a formula."""
    if isinstance(cell, str) and _FORMULA.match(cell):
        return f"'{cell}"
    return cell


def unescape_formula(text: str) -> str:
    """Undo `escape_formula`."""
    if text.startswith("'") and _FORMULA.match(text):
        return text[1:]
    return text


def printable(text: str) -> str:
    r"""Return the text on one line, with control characters escaped (`\n`, `\x1b`, `\u202e`)."""
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape", "surrogatepass").decode()


def printable_lines(text: str) -> str:
    """Like `printable`, with line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def percent(share: float) -> str:
    """Return a share in whole percent, half rounded up: `63` for .625."""
    return str(math.floor(100 * share + 0.5 + _TINY))


def three_digits(value: float, *limits: float) -> str:
    """Return a number with three digits, half rounded away from 0: `0.313` for .3125.

    It has more if three would hide on which side of a limit it is: `0.79996` beside .8.
    """
    shifted = value + math.copysign(_TINY, value)
    sides = [_side(value, limit) for limit in limits]
    for digits in _DIGITS:
        text = f"{shifted:.{digits}f}"
        if sides == [_side(float(text), limit) for limit in limits]:
            return text
    return f"{shifted:.3f}"


def _side(value: float, limit: float) -> int:
    """Return -1 below the limit, 1 above it, 0 on it."""
    if abs(value - limit) < _EQUAL:
        return 0
    return 1 if value > limit else -1


def signed(value: float, *limits: float) -> str:
    """Return a difference with its sign and three digits: `+0.313`, or `0.000` without one.

    It has more if three would hide on which side of a limit it is: `-0.00003` beside 0.
    """
    text = three_digits(value, *limits)
    if float(text) == 0:
        return text.lstrip("-")
    if value > 0:
        return f"+{text}"
    return text


def signed_difference(
    value: float, interval: tuple[float, float], *limits: float
) -> tuple[str, str, str]:
    """Return a difference and both ends of its interval, such as `+0.145`, `-0.00003`, `+0.290`.

    It shows on which side of 0 each end is, and on which side of the limits all three are.
    """
    low, high = interval
    sides = limits
    if low > 0 or high < 0:
        sides = (0.0, *limits)
    return signed(value, *sides), signed(low, 0.0, *limits), signed(high, 0.0, *limits)


def numbered(count: int, noun: str) -> str:
    """Format a count: `1 sample`, `2,318 samples`."""
    ending = "" if count == 1 else "s"
    return f"{count:,} {noun}{ending}"


def about(count: int) -> str:
    """Format an estimated count: `about 570`."""
    return f"about {int(float(f'{count:.2g}')):,}"


_MINUTE = 60
_HOUR = 3_600
_MIN_MINUTES = 0.9
_MIN_HOURS = 2


def roughly(seconds: float, ends: tuple[float, float] | None = None) -> str:
    """Format an estimated duration, with the ends of its interval: `about 14 minutes (11 to 18)`.

    Seconds are rounded to 5, minutes and hours to 1.
    """
    if seconds >= _MIN_HOURS * _HOUR:
        return _rounded(seconds, ends, _HOUR, "hour")
    if seconds >= _MIN_MINUTES * _MINUTE:
        return _rounded(seconds, ends, _MINUTE, "minute")
    return _rounded(seconds, ends, 1, "second", step=5)


def _rounded(
    seconds: float,
    ends: tuple[float, float] | None,
    unit: int,
    noun: str,
    *,
    step: int = 1,
) -> str:
    def count(value: float) -> int:
        return max(step, step * round(value / unit / step))

    words = f"about {numbered(count(seconds), noun)}"
    if ends is None:
        return words
    low = count(ends[0])
    high = count(ends[1])
    if low == high:
        return words
    return f"{words} ({low:,} to {high:,})"


_MIN_SIMILARITY = 0.75
"""Between "answer_relevancy" and "context_relevancy" (0.73), which are two names, and
"contxt_recall" and "context_recall" (0.96), a typing error.
"""
_MAX_NAMES = 20
_MAX_NEAR = 3


def suggestion(
    name: str,
    names: Collection[str],
    what: str,
    *,
    show: Callable[[str], str] = str,
) -> str:
    """Return a hint with similar names, else with the first names."""
    similar = difflib.get_close_matches(name, names, cutoff=_MIN_SIMILARITY)
    longer = [other for other in names if name in other and other not in similar]
    if similar:
        return _did_you_mean([*similar, *longer][:_MAX_NEAR], show)
    if longer:
        return _did_you_mean(longer[:_MAX_NAMES], show)
    listed = ", ".join(map(show, list(names)[:_MAX_NAMES]))
    hidden = len(names) - _MAX_NAMES
    more = f" and {hidden:,} more" if hidden > 0 else ""
    return f"{what} are {listed}{more}"


def _did_you_mean(names: Sequence[str], show: Callable[[str], str]) -> str:
    return f"did you mean {', '.join(map(show, names))}?"
