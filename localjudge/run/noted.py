"""What is said while a run is made: shown as it comes, logged where nothing is shown, and kept for `Run.notes`."""

import logging

from localjudge.printable import printable
from localjudge.progress import Progress, Silence

_log = logging.getLogger(__name__)


class Noted:
    """Passes on what it is told, and keeps the notes."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress = progress or Silence()
        self.rows, self.expect, self.recall, self.phase = (
            progress.rows,
            progress.expect,
            progress.recall,
            progress.phase,
        )
        self.pause, self.advance, self.close = progress.pause, progress.advance, progress.close
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Something worth a line of its own."""
        self.notes.append(text)
        self._progress.note(text)
        if isinstance(self._progress, Silence):
            _log.info(printable(text))

    def warn(self, text: str) -> None:
        """Something that has to be said even where nothing is shown."""
        self.notes.append(text)
        _log.warning(printable(text))
