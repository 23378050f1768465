"""What work reports while it goes on."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

_EVERY = 1_000

T = TypeVar("T")


@runtime_checkable
class Progress(Protocol):
    """Told by the run how much there is to do and what is done."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Before anything is asked: `done` rows of `total`, if that is known, are read, checked or stored."""

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        """While something goes on that cannot be counted: it has taken so long of what it is expected to take."""

    def expect(self, count: int, *, counted: bool = True) -> None:
        """More questions are going to be asked; a negative number takes back what was expected.

        Unless they are all `counted`, the sum so far is an extrapolation.
        """

    def recall(self, count: int) -> None:
        """Some of the expected questions were answered earlier; they take no time."""

    def phase(self, name: str) -> None:
        """What the next questions are for."""

    def standing(self, text: str) -> None:
        """How what is to be decided stands so far, and what is still to do."""

    def pause(self) -> None:
        """Leave the terminal to others until the next phase."""

    def advance(self) -> None:
        """One more is answered."""

    def close(self) -> None:
        """Nothing more comes."""


class Silence:
    """Shows nothing."""

    def _say_nothing(self, *_: Any, **__: Any) -> None: ...

    note = rows = elapsed = expect = recall = phase = standing = pause = advance = close = _say_nothing


def count_with_progress(rows: Iterable[T], progress: Progress, doing: str, total: int | None = None) -> Iterator[T]:
    """The rows; every 1,000 and at their end the progress is told how many there were."""
    done = 0
    for done, row in enumerate(rows, 1):
        if done % _EVERY == 0:
            progress.rows(doing, done, total)
        yield row
    if done > _EVERY:
        progress.rows(doing, done, total)
