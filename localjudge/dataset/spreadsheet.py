"""Cells that a spreadsheet takes for text: one that begins like a formula gets an apostrophe in front.

    =HYPERLINK(...)   ->   '=HYPERLINK(...)

Who reads such a file again compares `inert` texts: what is inert stays as it is.
"""

import re
from typing import Any

_FORMULA = re.compile(r"[\s\x00-\x1f\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def inert(cell: Any) -> Any:
    """The cell, with an apostrophe in front of text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
