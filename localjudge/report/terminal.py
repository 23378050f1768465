"""What reaches the terminal: text from data, a model or a stranger's file is made safe to print here, and only here.

Lines end where their text ends: what fills a column to its width is left out, so that outputs can be compared and
copied. A reader that has seen enough (`| head`) has closed the pipe, and that is no error.

What a run tells while it runs: a bar on a terminal, a line now and then in a log, nothing when asked to be quiet.

    checking ━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━ 312,000 of 500,000 rows
    judging ━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━ 1,204 of 2,318 verdicts, 41.2 a second, 0:00:27 left
    1,204 of 2,318 verdicts, 41.2 a second, 0:00:27 left

First the rows of the data, then the questions that the judge is asked. A run that goes on starts where it was: answers
that were stored before are counted, and are in no rate. Work in several phases names them: the bar's label, and the
beginning of a line, is the phase.

A table with its notes, and what writes it: the terminal, Markdown and HTML.

     metric           mean  95 % interval  scored       first the headings; the first column is names,
     ───────────────────────────────────────────        the others are numbers
     context_recall  0.583  0.090 - 0.960       2

     judge reference (lexical, not for decisions)       then the notes, a line each

A table without headings is texts with short labels before them. What does not fit is folded, and nothing is left out.
Text of users, models and other packages may stand in any cell and note: no writer takes it for markup.
"""

import html
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from localjudge.progress import Progress, Silence
from localjudge.words import printable

if TYPE_CHECKING:
    from rich.progress import TaskID

_END_OF_LINE = re.compile(r"(?:\x1b\[[0-9;]*m| )+$", re.MULTILINE)
"""Blanks, and what switches colours."""


def safe(text: str) -> str:
    """The text on one line, with escapes for what would act on the terminal."""
    return printable(text)


def safe_text(text: str, *, style: str = "") -> Text:
    """The same as rich draws it: folded at the width of the terminal, and nothing in it taken for markup."""
    return Text(printable(text), style=style, overflow="fold")


def terminal(*, stderr: bool = False) -> Console:
    """Console that prints text as it is: no markup, no emoji codes, no guessing at numbers and paths."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def show(*views: RenderableType) -> None:
    """Print the views on standard output, with an empty line between them."""
    console = terminal()
    put("\n".join(drawn(view, console) for view in views))


def drawn(view: RenderableType, console: Console) -> str:
    """The view as the console draws it, without blanks at the ends of lines."""
    with console.capture() as captured:
        console.print(view)
    return _END_OF_LINE.sub(lambda end: end.group().replace(" ", ""), captured.get())


def put(text: str) -> None:
    """Write to standard output what stands for itself; whoever read it may be gone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        ignore_output()


def ignore_output() -> None:
    """Let nobody read what is still to be written, and Python not complain of that when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def number(value: float) -> str:
    """A score with three digits, as tables show it."""
    return f"{value:.3f}"


_FIRST_LINE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 300.0


class _Counts:
    """Counts what there is to do and what is done, and says it in the words of bar and log."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._phase = ""
        self._started = 0.0
        self._expected = self._recalled = self._answered = 0

    def _show(self, label: str, done: int, total: int | None, text: str) -> None:
        raise NotImplementedError

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Show how many there were."""
        self._show(safe(doing), done, total, f"{done:,} rows" if total is None else f"{done:,} of {total:,} rows")

    def expect(self, count: int) -> None:
        """Raise the number of questions; the time runs from the first."""
        if not self._expected:
            self._started = self._clock()
        self._expected += count
        self._show_verdicts()

    def recall(self, count: int) -> None:
        """Count answers of earlier."""
        self._recalled += count
        self._show_verdicts()

    def phase(self, name: str) -> None:
        """Label what follows with it."""
        self._phase = name
        self._show_verdicts()

    def advance(self) -> None:
        """Count one."""
        self._answered += 1
        self._show_verdicts()

    def _show_verdicts(self) -> None:
        done = self._recalled + self._answered
        text = f"{done:,} of {self._expected:,} verdicts"
        if self._answered:
            rate = self._answered / max(self._clock() - self._started, 1e-9)
            pace = f"{rate:.1f} a second" if rate >= 1 else f"{1 / rate:.1f} s each"
            text += f", {pace}, {timedelta(seconds=round((self._expected - done) / rate))} left"
        if self._expected:
            self._show(self._phase, done, self._expected, text)


class Lines(_Counts):
    """A line after ten seconds, then after twice as long each time, at most five minutes apart."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._stream = stream
        self._pause = 0.0
        self._next_line = 0.0

    def note(self, text: str) -> None:
        """Write the line."""
        self._stream.write(f"{safe(text)}\n")
        self._stream.flush()

    def pause(self) -> None:
        """Do nothing: no line is left unfinished."""

    close = pause

    def expect(self, count: int) -> None:
        """Raise the number of questions; the first begins the pauses anew."""
        if not self._expected:
            self._pause = 0.0
        super().expect(count)

    def _show(self, label: str, done: int, total: int | None, text: str) -> None:
        if not self._pause:
            self._pause = _FIRST_LINE_SECONDS
        elif self._clock() >= self._next_line:
            self.note(f"{label}: {text}" if label else text)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        else:
            return
        self._next_line = self._clock() + self._pause


class Bar(_Counts):
    """A bar drawn by rich; it takes its line away when it is closed."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        super().__init__(time.monotonic)
        self._phase = "judging"
        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        text = TextColumn("{task.fields[text]}", markup=False)
        self._progress = RichProgress(*columns, text, console=Console(file=stream), transient=True)
        self._task: TaskID | None = None

    def note(self, text: str) -> None:
        """Write the line above the bar."""
        self._progress.console.print(safe(text), markup=False, highlight=False, soft_wrap=True)

    def phase(self, name: str) -> None:
        """Label the bar with it, and show it again after a pause."""
        super().phase(name)
        if self._task is not None:
            self._progress.start()

    def pause(self) -> None:
        """Take the bar away, for now or for good."""
        self._progress.stop()

    close = pause

    def _show(self, label: str, done: int, total: int | None, text: str) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(label, text=text)
        self._progress.update(self._task, description=label, completed=done, total=total, text=text)


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """What suits the stream: a bar on a terminal, lines elsewhere, nothing if quiet."""
    if quiet:
        return Silence()
    return Bar(stream) if stream.isatty() else Lines(stream)


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


def view_html(view: RenderableType) -> str:
    """Tables and lines as a notebook shows them, one below the other."""
    match view:
        case Group():
            return "\n".join(filter(None, map(view_html, view.renderables)))
        case Table():
            return as_html(view)
        case Padding():
            return view_html(view.renderable)
        case Text() if view.plain:
            return f"<p>{escaped(view.plain)}</p>"
    return ""


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
