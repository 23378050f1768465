"""What a run tells while it runs: a bar on a terminal, a line now and then in a log, nothing when asked to be quiet.

    checking ━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━  312,000/500,000 rows
    judging  ━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━  1,204/2,318 verdicts  41.2/s  0:00:27 left
    1,204 of 2,318 verdicts, 41.2 a second, 0:00:27 left

First the rows of the data, then the questions that the judge is asked. A run that goes on starts where it was: answers
that were stored before are counted, and are in no rate. Work in several phases names them: the bar's label, and the
beginning of a line, is the phase.
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
        self._work = _Work(clock)
        self._pause: float | None = None
        self._next_line = 0.0

    def note(self, text: str) -> None:
        """Write the line."""
        self._stream.write(f"{safe(text)}\n")
        self._stream.flush()

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Say how many there were, if it is time; the time runs from the first."""
        if self._pause is None:
            self._begin()
        if self._is_time():
            self.note(f"{doing}: {done:,} rows" if total is None else f"{doing}: {done:,} of {total:,} rows")

    def expect(self, count: int) -> None:
        """Raise the number of questions; the time runs from the first."""
        if not self._work.expected:
            self._begin()
        self._work.expect(count)

    def recall(self, count: int) -> None:
        """Count answers of earlier."""
        self._work.recalled += count

    def phase(self, name: str) -> None:
        """Begin lines with it."""
        self._phase = f"{name}: "

    def pause(self) -> None:
        """Do nothing: no line is left unfinished."""

    def advance(self) -> None:
        """Count one, and say so if it is time."""
        self._work.answered += 1
        if self._is_time():
            done, expected = self._work.done, self._work.expected
            pace = _pace(self._work.rate, " a second")
            self.note(f"{self._phase}{done:,} of {expected:,} verdicts, {pace}, {self._work.left} left")

    def close(self) -> None:
        """Say nothing: the run reports what it did."""

    def _begin(self) -> None:
        self._pause = _FIRST_LINE_SECONDS
        self._next_line = self._clock() + self._pause

    def _is_time(self) -> bool:
        if self._clock() < self._next_line:
            return False
        self._pause = min(2 * (self._pause or _FIRST_LINE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._next_line = self._clock() + self._pause
        return True


class Bar:
    """A bar with rate and time left, drawn by rich; it takes its line away when it is closed."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            console=Console(file=stream),
            transient=True,
        )
        self._task: TaskID | None = None
        self._phase = "judging"
        self._work = _Work(time.monotonic)

    def note(self, text: str) -> None:
        """Write the line above the bar."""
        self._progress.console.print(safe(text), markup=False, highlight=False, soft_wrap=True)

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Show how many there were; the bar moves to and fro as long as their number is not known."""
        self._show(safe(doing), done, total, f"{done:,} rows" if total is None else f"{done:,}/{total:,} rows")

    def expect(self, count: int) -> None:
        """Raise the number of questions."""
        self._work.expect(count)
        self._show_work()

    def recall(self, count: int) -> None:
        """Count answers of earlier."""
        self._work.recalled += count
        self._show_work()

    def phase(self, name: str) -> None:
        """Label the bar with it, and show it again after a pause."""
        self._phase = name
        self._show_work()
        if self._task is not None:
            self._progress.start()

    def pause(self) -> None:
        """Take the bar away for now."""
        self._progress.stop()

    def advance(self) -> None:
        """Count one."""
        self._work.answered += 1
        self._show_work()

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()

    def _show_work(self) -> None:
        """The bar appears with the first question that is expected."""
        work = self._work
        if work.expected:
            pace = f"  {_pace(work.rate, '/s')}  {work.left} left" if work.answered else ""
            told = f"{work.done:,}/{work.expected:,} verdicts{pace}"
            self._show(self._phase, work.done, work.expected, told)

    def _show(self, description: str, completed: int, total: int | None, told: str) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(description, total=total, told=told)
        self._progress.update(self._task, description=description, completed=completed, total=total, told=told)


class _Work:
    """Questions: how many, how many of them are answered, and how fast; the time runs from the first expected."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = 0.0
        self.expected = self.recalled = self.answered = 0

    def expect(self, count: int) -> None:
        if not self.expected:
            self._started = self._clock()
        self.expected += count

    @property
    def done(self) -> int:
        return self.recalled + self.answered

    @property
    def rate(self) -> float:
        """Answers a second, without those of earlier."""
        return self.answered / max(self._clock() - self._started, 1e-9)

    @property
    def left(self) -> timedelta:
        return timedelta(seconds=round((self.expected - self.done) / self.rate))


def _pace(rate: float, per_second: str) -> str:
    """Verdicts a second; seconds for each of them where that is less than one."""
    return f"{rate:.1f}{per_second}" if rate >= 1 else f"{1 / rate:.1f} s each"


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """What suits the stream: a bar on a terminal, lines elsewhere, nothing if quiet."""
    if quiet:
        return Silence()
    return Bar(stream) if stream.isatty() else Lines(stream)
