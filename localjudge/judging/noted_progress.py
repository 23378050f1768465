"""Progress of a run, with the notes that its result keeps."""

import logging

from localjudge.progress import Progress
from localjudge.words import printable

_log = logging.getLogger(__name__)


class NotedProgress(Progress):
    """Forward progress, keep notes for `Run.notes`, and log them if no progress is shown."""

    def __init__(self, progress: Progress | None) -> None:
        self.forward_to = progress
        self.notes: list[str] = []

    def note(self, text: str, level: int = logging.INFO) -> None:
        self.notes.append(text)
        super().note(text)
        is_shown = self.forward_to is not None and type(self.forward_to) is not Progress
        if not is_shown:
            _log.log(level, printable(text))

    def warn(self, text: str) -> None:
        self.notes.append(text)
        _log.warning(printable(text))
