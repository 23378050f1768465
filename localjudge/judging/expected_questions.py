"""How many questions a run will ask, extrapolated from the part of it so far."""

from localjudge.progress import Progress


class ExpectedQuestions:
    """Count the questions about the first `share` of the samples, and report the expected total.

    The judges of a jury answer one after the other. A judge that has not begun is expected to get
    as many questions for each of its tasks as the current judge.
    """

    def __init__(self) -> None:
        self.share = 1.0
        self._questions = 0
        self._tasks = 0
        self._later_tasks = 0
        self._earlier = 0
        """Questions of the judges that have answered."""
        self._reported = 0

    def begin_judge(self) -> None:
        """Count the questions of the next judge. The current one has answered all of its own."""
        self._earlier += self._questions
        self._questions = 0
        self._tasks = 0
        self._later_tasks = 0

    def count_tasks(self, tasks: int, later_tasks: int) -> None:
        """Add tasks of the current judge, and of the judges that have not begun."""
        self._tasks += tasks
        self._later_tasks += later_tasks

    def report(self, questions: int, progress: Progress) -> None:
        """Add questions of the current judge, and report how the total changes."""
        self._questions += questions
        current = round(self._questions / self.share)
        later = 0
        if self._tasks:
            later = round(current * self._later_tasks / self._tasks)
        total = self._earlier + current + later
        is_counted = self.share == 1 and not later
        progress.expect(total - self._reported, counted=is_counted)
        self._reported = total
