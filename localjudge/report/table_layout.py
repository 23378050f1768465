"""A table with its notes, and what writes it: the terminal, Markdown and HTML.

     metric           mean  95 % interval  scored       first the headings; the first column is names,
     ───────────────────────────────────────────        the others are numbers
     context_recall  0.583  0.090 - 0.960       2

     judge reference (lexical, not for decisions)       then the notes, a line each

A table without headings is texts with short labels before them. What does not fit is folded, and nothing is left out.
Text of users, models and other packages may stand in any cell and note: no writer takes it for markup.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from localjudge.printable import printable
from localjudge.report.terminal import safe_text

_MOST_ROWS = 40
_MOST_CHARACTERS = 300
_BACKTICKS = re.compile("`+")
_NUMBERS = re.compile(r"[-+0-9., to]*")


@dataclass(frozen=True)
class Table:
    """Rows of cells; of a table with headings the columns after the first `names` are numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Text]]
    notes: Sequence[str] = ()
    names: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = RichTable.grid(padding=(0, 2, 0, 0))
        if self.headings:
            table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
        for place in range(max(map(len, (self.headings, *self.rows)))):
            table.add_column(overflow="fold")
            if self.headings:
                table.columns[place].header = safe_text(self.headings[place])
                table.columns[place].justify = "right" if place >= self.names else "left"
        for row in self.rows:
            table.add_row(*(safe_text(cell) if isinstance(cell, str) else cell for cell in row))
        yield Padding(table, (0, 1), expand=False)
        if self.notes:
            yield Text()
            yield from map(line, self.notes)


def line(text: str, style: str = "") -> RenderableType:
    """A line of its own, folded where it is too long."""
    return Padding(safe_text(text, style=style), (0, 1), expand=False)


def as_html(table: Table) -> str:
    """The table and its notes without styles or scripts, to look like what they stand in."""
    rows = [("th", table.headings), *(("td", row) for row in table.rows)]
    lines = [f"<tr>{''.join(f'<{tag}>{escaped(str(cell))}</{tag}>' for cell in cells)}</tr>" for tag, cells in rows]
    return "\n".join(["<table>", *lines, "</table>", "<p>", "<br>\n".join(map(escaped, table.notes)), "</p>"])


def escaped(text: str) -> str:
    """The text as HTML shows it: nothing in it is markup."""
    return html.escape(printable(text))


def as_markdown(table: Table) -> str:
    """The table for GitHub, its notes as a block; all but headings and numbers is code."""
    rule = ["---", *["--:" if table.names == 1 else "---"] * (len(table.headings) - 1)]
    cells = [[_markdown_cell(str(cell)) for cell in row] for row in table.rows[:_MOST_ROWS]]
    lines = [f"| {' | '.join(row)} |" for row in (table.headings, rule, *cells)]
    left_out = len(table.rows) - _MOST_ROWS
    lines += [f"\nand {left_out:,} more"] if left_out > 0 else []
    return "\n".join(lines) + (f"\n\n{markdown_block(table.notes)}" if table.notes else "")


def markdown_block(lines: Iterable[str]) -> str:
    """The lines as a block of code, between longer fences than there are in it."""
    shown = [_cut(text) for text in lines]
    fence = "`" * max(3, max(map(_longest_run, shown), default=0) + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def _markdown_cell(text: str) -> str:
    """A number as it is, a text as code, between more backticks than it has, and pipes written as escapes."""
    if _NUMBERS.fullmatch(text) and text.strip():
        return text
    shown = _cut(text).replace("|", "\\x7c") or " "
    fence = "`" * (_longest_run(shown) + 1)
    # Next to a fence a backtick would be part of it; of a blank on both sides one is taken away.
    blank = " " if "`" in (shown[0], shown[-1]) or (shown[0] == shown[-1] == " " and shown.strip(" ")) else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def _longest_run(text: str) -> int:
    """How many backticks stand in a row at most."""
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[: _MOST_CHARACTERS - 1]}…"
