"""A run as notebooks show it: the table of the terminal, with what has to be said beside it, as HTML.

It is a table and paragraphs without styles or scripts of their own, so that it looks like the notebook. Nothing in a
run's texts or names is taken for markup.
"""

import html
import os
from collections.abc import Iterator
from pathlib import Path

from localjudge.printable import printable
from localjudge.record.results import Run
from localjudge.report.table import HEADINGS, remarks, summary_rows

_PAGE = "report.html"


def run_html(run: Run) -> str:
    """Means, intervals and counts of each metric, the remarks, and a link to the run's page if there is one."""
    parts = ["<table>", _row("th", ("metric", *HEADINGS))]
    parts += [_row("td", (name, *cells)) for name, cells in summary_rows(run, max_failed=run.max_failed)]
    parts += ["</table>", "<p>", "<br>\n".join(_lines(run)), "</p>"]
    return "\n".join(parts)


def _lines(run: Run) -> Iterator[str]:
    yield from map(_escaped, remarks(run, max_failed=run.max_failed))
    page = run.directory / _PAGE
    where = f"run {_escaped(str(run.directory))}"
    yield f'{where}: <a href="{_address(page)}">report</a>' if page.is_file() else where


def _row(element: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{element}>{_escaped(cell)}</{element}>' for cell in cells)}</tr>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _address(file: Path) -> str:
    """The file as a relative address: the first part is a dot, so that no name is taken for a scheme."""
    path = Path(os.path.relpath(file)).as_posix()
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02X}")
    return _escaped(f"./{path}")
