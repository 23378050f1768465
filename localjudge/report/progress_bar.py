"""What a run tells while it runs: a bar on a terminal, a line now and then in a log, nothing when asked to be quiet.

    judging  ━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━  1,204/2,318 verdicts  41.2/s  0:00:27 left
    1,204 of 2,318 verdicts, 41.2 a second, 0:00:27 left

It counts the questions that the judge is asked. Answers that were stored before are not among them. Work in several
phases names them: the bar's label, and the beginning of a line, is the phase.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

from localjudge.progress import Progress, Silence
from localjudge.report.terminal import safe

if TYPE_CHECKING:
    from rich.progress import TaskID

_FIRST_LINE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 300.0


class Lines:
    """A line after ten seconds, then after twice as long each time, at most five minutes apart."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._phase = ""
        self._expected = self._answered = 0
        self._pause = _FIRST_LINE_SECONDS
        self._started = self._next_line = 0.0

    def note(self, text: str) -> None:
        """Write the line."""
        self._stream.write(f"{safe(text)}\n")
        self._stream.flush()

    def expect(self, count: int) -> None:
        """Raise the number of questions; the time runs from the first."""
        if not self._expected:
            self._started = self._clock()
            self._next_line = self._started + self._pause
        self._expected += count

    def phase(self, name: str) -> None:
        """Begin lines with it."""
        self._phase = f"{name}: "

    def pause(self) -> None:
        """Do nothing: no line is left unfinished."""

    def advance(self) -> None:
        """Count one, and say so if it is time."""
        self._answered += 1
        if self._clock() >= self._next_line:
            self._write()
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            self._next_line = self._clock() + self._pause

    def close(self) -> None:
        """Say nothing: the run reports what it did."""

    def _write(self) -> None:
        rate = self._answered / max(self._clock() - self._started, 1e-9)
        left = timedelta(seconds=round((self._expected - self._answered) / rate))
        pace = _pace(rate, " a second")
        self.note(f"{self._phase}{self._answered:,} of {self._expected:,} verdicts, {pace}, {left} left")


class Bar:
    """A bar with rate and time left, drawn by rich; it takes its line away when it is closed."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} verdicts"),
            TextColumn("{task.fields[pace]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(file=stream),
            transient=True,
        )
        self._task: TaskID | None = None
        self._phase = "judging"
        self._expected = self._answered = 0
        self._started = time.monotonic()

    def note(self, text: str) -> None:
        """Write the line above the bar."""
        self._progress.console.print(safe(text), markup=False, highlight=False, soft_wrap=True)

    def expect(self, count: int) -> None:
        """Raise the number of questions; the bar appears with the first."""
        self._expected += count
        if self._task is None and self._expected:
            self._progress.start()
            self._started = time.monotonic()
            self._task = self._progress.add_task(self._phase, total=self._expected, pace="")
        elif self._task is not None:
            self._progress.update(self._task, total=self._expected)

    def phase(self, name: str) -> None:
        """Label the bar with it, and show it again after a pause."""
        self._phase = name
        if self._task is not None:
            self._progress.update(self._task, description=name)
            self._progress.start()

    def pause(self) -> None:
        """Take the bar away for now."""
        self._progress.stop()

    def advance(self) -> None:
        """Count one."""
        self._answered += 1
        if self._task is not None:
            rate = self._answered / max(time.monotonic() - self._started, 1e-9)
            self._progress.update(self._task, completed=self._answered, pace=_pace(rate, "/s"))

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def _pace(rate: float, per_second: str) -> str:
    """Verdicts a second; seconds for each of them where that is less than one."""
    return f"{rate:.1f}{per_second}" if rate >= 1 else f"{1 / rate:.1f} s each"


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """What suits the stream: a bar on a terminal, lines elsewhere, nothing if quiet."""
    if quiet:
        return Silence()
    return Bar(stream) if stream.isatty() else Lines(stream)
