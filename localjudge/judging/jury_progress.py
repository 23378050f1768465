"""Progress of several judges that answer one after the other."""

from localjudge.progress import Progress


class JuryTotal(Progress):
    """Forward the progress of each judge in turn, with the expected questions of all judges.

    The questions of a judge that has not begun are extrapolated from the current judge's:
    as many for each of its tasks.
    """

    def __init__(self, progress: Progress) -> None:
        self.forward_to = progress
        self._earlier = 0
        self._current = 0
        self._reported = 0
        self._tasks = 0
        self._later_tasks = 0

    def begin_judge(self) -> None:
        """Count the questions of the next judge."""
        self._earlier += self._current
        self._current = 0
        self._tasks = 0
        self._later_tasks = 0

    def count_tasks(self, tasks: int, later_tasks: int) -> None:
        """Add tasks of the current judge, and of the judges that have not begun."""
        self._tasks += tasks
        self._later_tasks += later_tasks

    def expect(self, count: int, *, counted: bool = True) -> None:
        """Change the number of expected questions of the current judge."""
        self._current += count
        later = 0
        if self._tasks:
            later = round(self._current * self._later_tasks / self._tasks)
        total = self._earlier + self._current + later
        super().expect(total - self._reported, counted=counted and not later)
        self._reported = total
