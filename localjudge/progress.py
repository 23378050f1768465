"""Progress reports of long work."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

_EVERY = 1_000

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
