"""What a run tells while it runs: a bar on a terminal, a line now and then in a log, nothing when asked to be quiet.

    checking ━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━ 312,000 of 500,000 rows
    judging ━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━ 1,204 of 2,318 verdicts, 41.2 a second, 0:00:27 left
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
