"""The text of a cell: nothing, or a list as JSON, as Python prints it or as NumPy does, or one text.

A text means the same whether it stood in a file or in a frame: `pandas.read_csv` leaves a list as the text it was.
"""

import ast
import io
import math
import tokenize
import warnings
from itertools import accumulate
from typing import Any

from localjudge.dataset.checks import Report
from localjudge.dataset.json_values import DECODER, RepeatedKeyError
from localjudge.dataset.problems import describe

NOTHING = frozenset(
    {*("NaN", "nan", "-NaN", "-nan", "NaT", "NULL", "null", "None", "<NA>", "NA", "N/A", "n/a", "#N/A", "#N/A N/A")}
    | {*("#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "-", "\\N")}
)
"""Words that stand for a value that is missing: those that pandas takes for it, `-`, `NaT`, and the `\\N` of databases.

Not "none" or "nil", which are answers.
"""
_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")


def says_nothing(value: Any) -> bool:
    """Whether the value stands for one that is missing."""
    if isinstance(value, str):
        return value.strip() in NOTHING
    return isinstance(value, float) and math.isnan(value)


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Contexts in the text of a cell: a list if it can be read as one, otherwise the cell is one text.

    A cell that begins like a list of texts or objects and cannot be read is reported, not taken for a text.
    """
    stripped = cell.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")) and not _begins_like_list(stripped):
        return cell
    value = printed_value(stripped)
    if isinstance(value, list):
        return value
    if not _begins_like_list(stripped):
        return cell
    report(field, f"a list that cannot be read ({describe(cell)})", 'a JSON list, such as ["one text", "another"]')
    return None


def printed_value(text: str) -> Any:
    """The list or the object that a text is as JSON, as Python prints it or as NumPy does; None for any other text."""
    for read in (DECODER.decode, _printed_list):
        try:
            value = read(text)
        except RepeatedKeyError:
            break
        except (ValueError, SyntaxError, Warning, RecursionError, MemoryError, tokenize.TokenError):
            continue
        if isinstance(value, list | dict):
            return value
    return None


def _begins_like_list(text: str) -> bool:
    return text.startswith("[") and text[1:].lstrip()[:1] in {'"', "'", "{"}


def _printed_list(text: str) -> Any:
    """A list as Python prints it (ragas and pandas write it into CSV), or as NumPy does, which leaves the commas out.

    Python would read two texts without a comma as one. Raises ValueError where some commas are missing, or values that
    NumPy left out of a long list.
    """
    gaps, commas = _commas(text)
    if gaps and commas:
        raise ValueError("commas between some values only")
    for gap in reversed(gaps):
        text = f"{text[:gap]},{text[gap:]}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an escape that Python does not know was not printed by Python
        return ast.literal_eval(text)


def _commas(text: str) -> tuple[list[int], int]:
    """Where a comma is missing between two values of the outermost list, and how many commas are there."""
    begins = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    gaps, commas, depth, ended = [], 0, 0, False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.NL, tokenize.NEWLINE}:
            continue
        opens, closes = token.string in _OPENING, token.string in _CLOSING
        if ended and (opens or token.type == tokenize.STRING):
            if depth != 1:
                raise ValueError("two values without a comma between them")
            gaps.append(begins[token.start[0] - 1] + token.start[1])
        if token.string == "...":
            raise ValueError("values were left out")
        commas += depth == 1 and token.string == ","
        depth += opens - closes
        ended = closes or token.type == tokenize.STRING
    return gaps, commas
