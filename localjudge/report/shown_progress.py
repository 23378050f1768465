"""The progress of a run on a stream: a bar on a terminal, occasional lines elsewhere."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from localjudge.progress import Progress
from localjudge.words import about, printable, roughly

_FIRST_LINE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 300.0


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
