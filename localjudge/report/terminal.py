"""Tables for terminal, HTML and Markdown, and progress on a stream.

A view is a `Table` or several. Texts of users, models and other packages are escaped, and no writer
interprets them as markup. Lines have no trailing blanks, so that outputs can be compared and
copied.

Progress is a bar on a terminal, and occasional lines elsewhere.
"""

import html
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Table as RichTable
from rich.text import Text

from localjudge.progress import Progress
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Mean, NoMean
from localjudge.words import about, printable, roughly, three_digits

_END_OF_LINE = re.compile(r"(?:\x1b\[[0-9;]*m| )+$", re.MULTILINE)
_NUMBERS = re.compile(r"[-+0-9.,][-+0-9., to]*")
_FIRST_LINE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 300.0


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


class Lines(Progress):
    """Progress as lines.

    The first comes after ten seconds, others at doubling intervals of at most five minutes.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, phase: str = ""
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._phase = phase
        self._started = 0.0
        self._pause = 0.0
        self._next_line = 0.0
        self._expected = 0
        self._recalled = 0
        self._answered = 0
        self._counted = True

    def note(self, text: str) -> None:
        self._stream.write(f"{printable(text)}\n")
        self._stream.flush()

    def rows(self, doing: str, done: int, total: int | None) -> None:
        text = f"{done:,} rows"
        if total is not None:
            text = f"{done:,} of {total:,} rows"
        self._show(printable(doing), done, total, text)

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        text = f"{seconds:.0f} s of {roughly(expected)}"
        done = min(int(seconds), int(expected))
        total = max(int(expected), 1)
        self._show(printable(doing), done, total, text)

    def expect(self, count: int, *, counted: bool = True) -> None:
        """Add to the number of questions. The first call starts the clock."""
        if not self._expected:
            self._started = self._clock()
            self._pause = 0.0
        self._expected += count
        self._counted = counted
        self._show_answers()

    def recall(self, count: int) -> None:
        self._recalled += count
        self._show_answers()

    def phase(self, name: str) -> None:
        self._phase = name
        self._show_answers()

    def standing(self, text: str) -> None:
        self.phase(text)

    def advance(self) -> None:
        self._answered += 1
        self._show_answers()

    def _show_answers(self) -> None:
        if not self._expected:
            return
        done = self._recalled + self._answered
        expected = about(self._expected)
        if self._counted:
            expected = f"{self._expected:,}"
        text = f"{done:,} of {expected} answers"
        if self._answered:  # 40 of 55 answers, 2.1 a second, 0:00:07 left
            rate = self._answered / max(self._clock() - self._started, 1e-9)
            speed = f"{rate:.1f} a second"
            if rate < 1:
                speed = f"{1 / rate:.1f} s each"
            left = timedelta(seconds=round((self._expected - done) / rate))
            text += f", {speed}, {left} left"
        self._show(self._phase, done, self._expected, text)

    def _show(self, label: str, done: int, total: int | None, text: str) -> None:
        if not self._pause:
            self._pause = _FIRST_LINE_SECONDS
        elif self._clock() >= self._next_line:
            self.note(f"{label}: {text}" if label else text)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        else:
            return
        self._next_line = self._clock() + self._pause


class Bar(Lines):
    """Progress as a bar drawn by rich, removed when closed. The state of gates is below it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream, phase="judging")
        label = TextColumn("{task.description}", markup=False)
        text = TextColumn("{task.fields[text]}", markup=False)
        console = Console(file=stream)
        self._bar = RichProgress(label, BarColumn(), text, console=console)
        self._task = self._bar.add_task("", total=None, text="")
        self._state = Text()
        self._live = Live(console=console, transient=True, get_renderable=self._draw)

    def _draw(self) -> RenderableType:
        if self._state:
            return Group(self._bar, self._state)
        return self._bar

    def note(self, text: str) -> None:
        self._live.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def standing(self, text: str) -> None:
        self._state = Text(printable(text), no_wrap=True, overflow="ellipsis")

    def pause(self) -> None:
        self._live.stop()

    close = pause

    def _show(self, label: str, done: int, total: int | None, text: str) -> None:
        self._bar.update(self._task, description=label, completed=done, total=total, text=text)
        self._live.start(refresh=True)


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return progress for the stream: a bar on a terminal, lines elsewhere, silent if `quiet`."""
    if quiet:
        return Progress()
    if stream.isatty():
        return Bar(stream)
    return Lines(stream)


def progress_for(progress: Progress | bool | None) -> Progress:
    """Return the progress to show: this one, on standard error if True, or None to decide here.

    None shows it on a terminal and in a notebook.
    """
    if isinstance(progress, Progress):
        return progress
    in_notebook = False
    ipython = sys.modules.get("IPython")
    if ipython is not None:
        in_notebook = type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"
    if progress is None:
        progress = in_notebook or sys.stderr.isatty()
    if not progress:
        return Progress()
    if not in_notebook:
        return progress_on(sys.stderr)
    # A notebook paints stderr red, and without widgets a bar cannot be drawn there.
    if find_spec("ipywidgets"):
        return Bar(sys.stdout)
    return progress_on(sys.stdout)
