"""A CSV cell of contexts: a list as JSON or as Python prints it, or one text."""

import ast
import io
import tokenize
import warnings
from typing import Any

from localjudge.dataset.checks import Report
from localjudge.dataset.json_values import DECODER, RepeatedKeyError
from localjudge.dataset.problems import describe


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Contexts in a CSV cell: a list if it can be read as one, otherwise the cell is one text.

    A cell that begins like a list of texts or objects and cannot be read is reported, not taken for a text.
    """
    stripped = cell.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")) and not _begins_like_list(stripped):
        return cell
    for read in (DECODER.decode, _python_list):
        try:
            value = read(stripped)
        except RepeatedKeyError:
            break
        except (ValueError, SyntaxError, Warning, RecursionError, MemoryError, tokenize.TokenError):
            continue
        if isinstance(value, list):
            return value
    if not _begins_like_list(stripped):
        return cell
    report(field, f"a list that cannot be read ({describe(cell)})", 'a JSON list, such as ["one text", "another"]')
    return None


def _begins_like_list(text: str) -> bool:
    return text.startswith("[") and text[1:].lstrip()[:1] in {'"', "'", "{"}


def _python_list(text: str) -> Any:
    """A list as Python prints it (ragas and pandas write it into CSV). Raises ValueError where a comma is missing.

    NumPy prints a list of texts without commas, and Python would read that as one long text.
    """
    previous = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == previous == tokenize.STRING:
            raise ValueError("two texts without a comma between them")
        if token.type not in {tokenize.NL, tokenize.NEWLINE}:
            previous = token.type
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an escape that Python does not know was not printed by Python
        return ast.literal_eval(text)
