"""Where the answers about tasks come from.

    ModelAnswers      the store of the run, other runs, memory, then the model
    StoredAnswers     the store of a finished run
    RepeatedAnswers   the same, and the judge again
    NoAnswers         nowhere: the tasks that would be asked

`evaluate` takes each of them.
"""

from collections.abc import Mapping, Sequence

from localjudge.judging.questions import TaskRef
from localjudge.judging.verdicts import Replies, decide
from localjudge.run_directory.archive import answers_of_units
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow
from localjudge.types import NoAnswer, Sample, Verdict, VerdictRule

_NOT_ASKED = NoAnswer(error="not asked")


class Answers:
    """A source of answers. `judges` are names by number, `rule` turns answers into verdicts."""

    def __init__(self, judges: Mapping[int, str], rule: VerdictRule) -> None:
        self.judges = judges
        self.rule = rule

    @property
    def workers(self) -> int:
        """How many questions are answered at the same time."""
        return 1

    def begin(self, block: Sequence[Sample]) -> None:
        """Get ready for the tasks of these samples."""

    def replies(self, tasks: Sequence[TaskRef]) -> Replies:
        """Return what the judges replied about each unit."""
        raise NotImplementedError

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdict of each task."""
        replies = self.replies(tasks)
        return [decide(task, replies, self.judges, self.rule) for task in tasks]


class StoredAnswers(Answers):
    """The stored answers of a run."""

    def __init__(self, run: RunRecord, min_valid_mass: float) -> None:
        names = list(run.manifest.judge.jury) or [run.summary.judge.name]
        super().__init__(dict(enumerate(names)), run.rule(min_valid_mass))
        self.store = run.directory / STORE
        self.stored: Mapping[AskedUnit, Sequence[AskedWindow]] = {}

    def begin(self, block: Sequence[Sample]) -> None:
        """Read the answers about these samples."""
        self.stored = answers_of_units(self.store, [sample.id for sample in block])

    def replies(self, tasks: Sequence[TaskRef]) -> Replies:
        """Return the stored windows of each unit."""
        return self.stored


class NoAnswers(Answers):
    """No answers. `tasks` would be asked first about the last block."""

    def __init__(self) -> None:
        super().__init__({}, VerdictRule(0.0, 0.0))
        self.tasks: list[TaskRef] = []

    def begin(self, block: Sequence[Sample]) -> None:
        """Forget the tasks of the last block."""
        self.tasks = []

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Note the tasks."""
        self.tasks.extend(tasks)
        return [_NOT_ASKED] * len(tasks)
