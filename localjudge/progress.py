"""What work tells while it goes on, to whoever wants to show it."""

from typing import Protocol


class Progress(Protocol):
    """Told by the run how much there is to do and what is done."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""
        ...

    def expect(self, count: int) -> None:
        """So many more questions are going to be asked; a negative number takes back what was expected."""
        ...

    def phase(self, name: str) -> None:
        """What the next questions are for."""
        ...

    def pause(self) -> None:
        """Leave the terminal to others until the next phase."""
        ...

    def advance(self) -> None:
        """One more is answered."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class Silence:
    """Shows nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def expect(self, count: int) -> None:
        """Say nothing."""

    def phase(self, name: str) -> None:
        """Say nothing."""

    def pause(self) -> None:
        """Say nothing."""

    def advance(self) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Say nothing."""
