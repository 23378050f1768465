"""Progress reports of long work, and the notes that a run keeps."""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from localjudge.words import printable

_EVERY = 1_000
_log = logging.getLogger(__name__)

T = TypeVar("T")


class Progress:
    """Receives the amount of work and its completion. Shows nothing; a subclass shows them."""

    def note(self, text: str) -> None:
        """Show a line."""

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Report rows read, checked or stored before judging."""

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        """Report the time of work that cannot be counted."""

    def expect(self, count: int, *, counted: bool = True) -> None:
        """Change the number of expected questions.

        Unless all are `counted`, the total is extrapolated.
        """

    def recall(self, count: int) -> None:
        """Report expected questions with stored answers."""

    def phase(self, name: str) -> None:
        """Name the purpose of the next questions."""

    def standing(self, text: str) -> None:
        """Report the gates and the remaining work."""

    def pause(self) -> None:
        """Release the terminal until the next phase."""

    def advance(self) -> None:
        """Report an answer."""

    def close(self) -> None:
        """End the reports."""


class NotedProgress(Progress):
    """Pass everything on to a progress, keep notes for `Run.notes`, and log them if none is shown.

    Notes that were `told` before are kept, and not shown again.
    """

    def __init__(self, progress: Progress | None, told: Collection[str] = ()) -> None:
        self.receiver = progress or Progress()
        self.told = told
        self.notes: list[str] = []

    def note(self, text: str, level: int = logging.INFO) -> None:
        self.notes.append(text)
        if text in self.told:
            return
        self.receiver.note(text)
        if type(self.receiver) is Progress:
            _log.log(level, printable(text))

    def warn(self, text: str) -> None:
        self.notes.append(text)
        if text not in self.told:
            _log.warning(printable(text))

    def rows(self, doing: str, done: int, total: int | None) -> None:
        self.receiver.rows(doing, done, total)

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        self.receiver.elapsed(doing, seconds, expected)

    def expect(self, count: int, *, counted: bool = True) -> None:
        self.receiver.expect(count, counted=counted)

    def recall(self, count: int) -> None:
        self.receiver.recall(count)

    def phase(self, name: str) -> None:
        self.receiver.phase(name)

    def standing(self, text: str) -> None:
        self.receiver.standing(text)

    def pause(self) -> None:
        self.receiver.pause()

    def advance(self) -> None:
        self.receiver.advance()

    def close(self) -> None:
        self.receiver.close()


def count_with_progress(
    rows: Iterable[T],
    progress: Progress,
    doing: str,
    total: int | None = None,
) -> Iterator[T]:
    """Yield the rows and report their number, every 1,000."""
    done = 0
    for done, row in enumerate(rows, 1):
        if done % _EVERY == 0:
            progress.rows(doing, done, total)
        yield row
    if done > _EVERY:
        progress.rows(doing, done, total)
