r"""Is a value text that can be written, is it an id: the checks that columns of every kind need.

A text that Python can hold need not be Unicode: half of a surrogate pair (`"\ud83d"` in JSON) can be neither encoded
nor stored nor judged.
"""

from collections.abc import Callable, Mapping
from typing import Any

from localjudge.dataset.problems import describe

Report = Callable[[str, str, str], None]
"""Takes a problem: field, what was found, what was expected."""

DEEPEST = 64
"""Values inside a context may be nested so deep."""
_LONGEST_ID = 128


def check_text(value: Any, field: str, report: Report, expected: str = "text or null") -> str | None:
    """The value if it is Unicode text, None for null; anything else is reported."""
    if value is None:
        return None
    if not isinstance(value, str):
        report(field, describe(value), expected)
        return None
    return value if check_writable(value, field, report) else None


def check_writable(value: Any, field: str, report: Report, depth: int = 0) -> bool:
    """Whether the value can be written as JSON in Unicode; a text that cannot, however deep it stands, is reported."""
    if depth > DEEPEST:
        report(field, f"values nested more than {DEEPEST} deep", "fewer levels")
        return False
    match value:
        case str():
            return _check_characters(value, field, report)
        case list() | tuple():
            return all([check_writable(item, field, report, depth + 1) for item in value])
        case Mapping():
            return all([check_writable(item, field, report, depth + 1) for pair in value.items() for item in pair])
        case None | int() | float():
            return True
        case _:
            report(field, describe(value), "a value that JSON knows")
            return False


def lone_surrogate(text: str) -> int | None:
    """Position of the first half of a character that lacks its other half: such text cannot be written anywhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _check_characters(text: str, field: str, report: Report) -> bool:
    position = lone_surrogate(text)
    if position is None:
        return True
    report(field, f"half a character (U+{ord(text[position]):04X}, at position {position})", "Unicode text")
    return False


def check_id(value: Any, field: str, report: Report) -> str | None:
    """The id as text; whole numbers are ids too, 7.0 as 7: pandas makes it so. None for a missing or blank one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _LONGEST_ID:
        return str(value)
    text = check_text(value, field, report, "text or a whole number")
    return text if text and text.strip() else None
