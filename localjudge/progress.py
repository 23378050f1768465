"""Progress reports of long work."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

_EVERY = 1_000

T = TypeVar("T")


class Progress:
    """Receives the amount of work and its completion, and passes it on to another progress, if any.

    Without one, it shows nothing. A subclass overrides what it shows itself.
    """

    forward_to: "Progress | None" = None

    def note(self, text: str) -> None:
        """Show a line."""
        if self.forward_to:
            self.forward_to.note(text)

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Report rows read, checked or stored before judging."""
        if self.forward_to:
            self.forward_to.rows(doing, done, total)

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        """Report the time of work that cannot be counted."""
        if self.forward_to:
            self.forward_to.elapsed(doing, seconds, expected)

    def expect(self, count: int, *, counted: bool = True) -> None:
        """Change the number of expected questions.

        Unless all are `counted`, the total is extrapolated.
        """
        if self.forward_to:
            self.forward_to.expect(count, counted=counted)

    def recall(self, count: int) -> None:
        """Report expected questions with stored answers."""
        if self.forward_to:
            self.forward_to.recall(count)

    def phase(self, name: str) -> None:
        """Name the purpose of the next questions."""
        if self.forward_to:
            self.forward_to.phase(name)

    def standing(self, text: str) -> None:
        """Report the gates and the remaining work."""
        if self.forward_to:
            self.forward_to.standing(text)

    def pause(self) -> None:
        """Release the terminal until the next phase."""
        if self.forward_to:
            self.forward_to.pause()

    def advance(self) -> None:
        """Report an answer."""
        if self.forward_to:
            self.forward_to.advance()

    def close(self) -> None:
        """End the reports."""
        if self.forward_to:
            self.forward_to.close()


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
