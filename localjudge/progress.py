"""What work tells while it goes on, to whoever wants to show it."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

_TOLD_EVERY = 1_000

T = TypeVar("T")


@runtime_checkable
class Progress(Protocol):
    """Told by the run how much there is to do and what is done."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Before anything is asked: so many rows are read (or checked, stored), of so many if that is known."""

    def expect(self, count: int) -> None:
        """So many more questions are going to be asked; a negative number takes back what was expected."""

    def recall(self, count: int) -> None:
        """So many of the expected questions were answered earlier; they take no time."""

    def phase(self, name: str) -> None:
        """What the next questions are for."""

    def pause(self) -> None:
        """Leave the terminal to others until the next phase."""

    def advance(self) -> None:
        """One more is answered."""

    def close(self) -> None:
        """Nothing more comes."""


class Silence:
    """Shows nothing."""

    def _say_nothing(self, *_: Any, **__: Any) -> None: ...

    note = rows = expect = recall = phase = pause = advance = close = _say_nothing


def counted(rows: Iterable[T], progress: Progress, doing: str, total: int | None = None) -> Iterator[T]:
    """The rows; the progress is told now and then how many there were, and at the end if it was told before."""
    done = 0
    for done, row in enumerate(rows, 1):
        if done % _TOLD_EVERY == 0:
            progress.rows(doing, done, total)
        yield row
    if done > _TOLD_EVERY:
        progress.rows(doing, done, total)
