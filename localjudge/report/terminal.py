"""Tables for terminal, HTML and Markdown.

A view is a `Table` or several. Texts of users, models and other packages are escaped, and no writer
interprets them as markup. Lines have no trailing blanks, so that outputs can be compared and
copied.
"""

import html
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Mean, NoMean
from localjudge.words import printable, three_digits

_END_OF_LINE = re.compile(r"(?:\x1b\[[0-9;]*m| )+$", re.MULTILINE)
_NUMBERS = re.compile(r"[-+0-9.,][-+0-9., to]*")


def safe_text(text: str | Text, *, style: str = "") -> Text:
    """Escape control characters for the terminal. A `Text` is returned unchanged."""
    if isinstance(text, Text):
        return text
    return Text(printable(text), style=style, overflow="fold")


def terminal() -> Console:
    return Console(markup=False, emoji=False, highlight=False)


def number(value: float | None) -> str:
    """Format a score or probability with three digits, None as `-`."""
    if value is None:
        return "-"
    return three_digits(value)


def interval_cells(mean: Mean | NoMean | MetricSummary) -> tuple[str, str]:
    """Return a mean and its interval as two cells."""
    if mean.ci95 is None:
        return number(mean.mean), "-"
    low, high = map(number, mean.ci95)
    return number(mean.mean), f"{low} - {high}"


@dataclass(frozen=True)
class Table:
    """Titles, rows of cells and notes, all optional.

    With headings, the columns after the first `names` are right-aligned. `indent` is for rows in a
    terminal.
    """

    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str | Text]] = ()
    notes: Sequence[str | Text] = ()
    names: int = 1
    titles: Sequence[str | Text] = ()
    indent: int = 0

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        for title in self.titles:
            yield Padding(safe_text(title, style="bold"), (0, 1), expand=False)
        if self.headings or self.rows:
            grid = RichTable.grid(padding=(0, 2, 0, 0))
            if self.headings:
                padding = (0, 0, 0, 1)
                grid = RichTable(
                    box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding
                )
            columns = max(map(len, (self.headings, *self.rows)))
            for column in range(columns):
                grid.add_column(overflow="fold")
                if self.headings:
                    grid.columns[column].header = safe_text(self.headings[column])
                if self.headings and column >= self.names:
                    grid.columns[column].justify = "right"
            for row in self.rows:
                grid.add_row(*map(safe_text, row))
            yield Padding(grid, (0, 1, 0, 1 + self.indent), expand=False)
            if self.notes:
                yield Text()
        for note in self.notes:
            yield Padding(safe_text(note), (0, 1), expand=False)


def show(*tables: Table) -> None:
    """Print the tables, separated by empty lines."""
    console = terminal()
    put("\n".join(draw(table, console) for table in tables))


def draw(table: Table, console: Console) -> str:
    """Return the table as the console prints it, without trailing blanks."""
    with console.capture() as captured:
        console.print(table)
    return _END_OF_LINE.sub(lambda end: end.group().replace(" ", ""), captured.get())


def put(text: str) -> None:
    """Write the text to standard output. A closed pipe is not an error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader is gone; Python must not complain on exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_html(*tables: Table) -> str:
    """Return the tables as HTML without styles or scripts."""
    lines: list[str] = []
    for table in tables:
        for title in table.titles:
            lines.append(f"<p><strong>{_escaped(title)}</strong></p>")
        rows = [_html_row("td", row) for row in table.rows if row]
        if table.headings:
            rows.insert(0, _html_row("th", table.headings))
        if rows:
            lines.append("<table>")
            lines.extend(rows)
            lines.append("</table>")
        notes = "<br>\n".join(map(_escaped, table.notes))
        if notes:
            lines.append(f"<p>{notes}</p>")
    return "\n".join(lines)


def _html_row(tag: str, cells: Sequence[str | Text]) -> str:
    row = ""
    for cell in cells:
        row += f"<{tag}>{_escaped(cell)}</{tag}>"
    return f"<tr>{row}</tr>"


def _escaped(text: str | Text) -> str:
    return html.escape(printable(str(text)))


def as_markdown(table: Table) -> str:
    """Return the table for GitHub. Everything except headings and numbers is code."""
    parts: list[str] = []
    if table.headings:
        rows = [_markdown_row(map(str, table.headings))]
        alignment = "---"
        if table.names == 1:
            alignment = "--:"
        rows.append(_markdown_row(["---"] + [alignment] * (len(table.headings) - 1)))
        for row in table.rows:
            rows.append(_markdown_row(_markdown_cell(str(cell)) for cell in row))
        parts.append("\n".join(rows))
    if table.notes:
        parts.append(markdown_block(map(str, table.notes)))
    return "\n\n".join(parts)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_block(lines: Iterable[str]) -> str:
    """Return the lines as an indented code block that no text can end."""
    return "\n".join(f"    {printable(line)}" for line in lines)


def _markdown_cell(text: str) -> str:
    if _NUMBERS.fullmatch(text):
        return text
    code = printable(text).replace("|", "\\x7c").replace("`", "\\x60")
    return f"`{code or ' '}`"
