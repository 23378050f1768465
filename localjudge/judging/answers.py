"""Where the answers about tasks come from, and the only place where they become verdicts.

    ModelAnswers      the store of the run, other runs, memory, then the models
    StoredAnswers     the store of a finished run
    RepeatedAnswers   the same, and the judge again
    NoAnswers         nowhere: the tasks that would be asked

`evaluate` takes each of them, and `Answers.decide` makes the verdicts:

    answers of a judge about the windows of a unit ──> its verdict ──┐
    ...                                                              ├──combination──> the jury's
    answers of another judge                       ──> its verdict ──┘

The verdict of a single judge is the verdict. Answers of other runs, and of an open judge, are
copied into the store of the run, with their origin. Errors are never reused.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from localjudge import types
from localjudge.errors import InputError, MissingRun
from localjudge.judging.questions import TaskRef
from localjudge.progress import Progress
from localjudge.run_directory.differences import (
    differences,
    format_differences,
    format_updates,
    updates,
)
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.files import read_manifest
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.run_directory.jury import combine
from localjudge.run_directory.manifest import all_versions
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import (
    AskedUnit,
    AskedWindow,
    answers_of_units,
    stored_answers,
)
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRule

Reply = Sequence[AskedWindow] | Verdict | NoAnswer
"""Windows with their answers so far, or a result without a question."""
Replies = Mapping[AskedUnit, Reply]
"""What each judge replied about each unit."""
MAX_ANSWERS = 65_536
"""Answers that an open judge remembers, of about a kilobyte each."""
NOT_YET = NoAnswer(error="a judge has not answered yet")
"""Verdict of a unit with a missing answer."""
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
        return [self.decide(task, replies) for task in tasks]

    def decide(self, task: TaskRef, replies: Replies) -> Verdict | NoAnswer:
        """Return the verdict about a task by the judges that take part in its metric."""
        parts: dict[str, Verdict | NoAnswer] = {}
        for number in self.choose_judges(task.metric):
            reply = replies.get(task.asked(number), ())
            if isinstance(reply, Verdict | NoAnswer):
                parts[self.judges[number]] = reply
                continue
            windows: list[tuple[Answer | NoAnswer, int | None]] = []
            for window in reply:
                if window.answer is not None:
                    windows.append((window.answer, window.number))
            if not windows or len(windows) < len(reply):
                return NOT_YET
            rule = self.rule.for_metric(task.metric)
            parts[self.judges[number]] = decide_verdict(windows, rule)
        if task.metric in self.rule.combinations:
            return jury_verdict(parts, self.rule, task.metric)
        (verdict,) = parts.values()
        return verdict

    def choose_judges(self, metric: str) -> list[int]:
        """Return the numbers of the judges of a metric. In a jury, each of them has a weight."""
        combination = self.rule.combinations.get(metric)
        if combination is None:
            return list(self.judges)
        return [number for number, name in self.judges.items() if name in combination.weights]

    def select_tasks(self, tasks: Sequence[TaskRef], judge: int) -> list[TaskRef]:
        """Return the tasks of the metrics in which a judge takes part."""
        return [task for task in tasks if judge in self.choose_judges(task.metric)]


class StoredAnswers(Answers):
    """The stored answers of a run."""

    def __init__(self, run: RunRecord) -> None:
        names = list(run.manifest.judge.jury) or [run.summary.judge.name]
        super().__init__(dict(enumerate(names)), run.manifest.judge.rule)
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


def decide_verdict(
    answers: Sequence[tuple[Answer | NoAnswer, int | None]], rule: VerdictRule
) -> Verdict | NoAnswer:
    """Return the verdict from the answers about a unit's windows.

    The unit is supported if any window supports it.
    """
    valid: list[tuple[Answer, int | None]] = []
    for answer, window in answers:
        if isinstance(answer, NoAnswer):
            return answer
        if answer.valid_mass < rule.min_valid_mass:
            mass = f"{answer.valid_mass:.2g} of its probability"
            limit = f"less than {rule.min_valid_mass:g} (min_valid_mass)"
            error = f"the model did not answer: it gave valid answers {mass}, {limit}"
            return NoAnswer(error=error, valid_mass=answer.valid_mass)
        valid.append((answer, window))
    best, window = max(valid, key=lambda pair: pair[0].p_yes)
    return Verdict(
        label=decide_label(best.p_yes, rule),
        p_yes=best.p_yes,
        valid_mass=best.valid_mass,
        reason=best.reason,
        window=window,
    )


def decide_label(p_yes: float, rule: VerdictRule) -> types.Label:
    if p_yes >= rule.threshold:
        return 1
    return 0


def jury_verdict(
    parts: Mapping[str, Verdict | NoAnswer], rule: VerdictRule, metric: str
) -> Verdict | NoAnswer:
    """Return the jury's verdict from its judges' verdicts by name.

    There is no answer if one of them has none.
    """
    verdicts: dict[str, Verdict] = {}
    probabilities: dict[str, float] = {}
    for name in sorted(parts):
        part = parts[name]
        if part is NOT_YET:
            return NOT_YET
        if isinstance(part, NoAnswer):
            return NoAnswer(error=f"{name}: {part.error}", valid_mass=part.valid_mass)
        if part.p_yes is None:
            return part
        verdicts[name] = part
        probabilities[name] = part.p_yes
    masses: list[float] = []
    reasons: list[str] = []
    for name, verdict in verdicts.items():
        if verdict.valid_mass is not None:
            masses.append(verdict.valid_mass)
        if verdict.reason:
            reasons.append(f"{name}: {verdict.reason}")
    p_yes = combine(probabilities, rule.combinations[metric])
    return Verdict(
        label=decide_label(p_yes, rule.for_metric(metric)),
        p_yes=p_yes,
        valid_mass=min(masses),
        reason="; ".join(reasons) or None,
        window=_common_window(verdicts.values()),
        judges=probabilities,
    )


def _common_window(verdicts: Iterable[Verdict]) -> int | None:
    """Return the window that decided for all judges with windows, or None if they differ."""
    windows = {verdict.window for verdict in verdicts if verdict.window is not None}
    if len(windows) != 1:
        return None
    return windows.pop()


class OtherRun:
    """Answers of another run, finished or not. `updates` are packages with another version there.

    Raises RunDirectoryError if the run is missing or unreadable, InputError if its judge differs.
    """

    def __init__(self, directory: Path, judge: JudgeIdentity) -> None:
        self.name = str(directory)
        self._store = directory / STORE
        manifest = read_manifest(directory)
        if manifest is None:
            raise MissingRun(f"{directory} contains no run", hint="name the directory of a run")
        self.versions = manifest.versions
        self.updates = updates({"versions": manifest.versions}, {"versions": all_versions()})
        judges = judge.answering_judges
        if judge.has_no_model or manifest.judge.has_no_model:
            judges = manifest.judge.answering_judges  # there are no answers to mix up
        if not any(other in judges for other in manifest.judge.answering_judges):
            changes = differences(manifest.judge.answering, judge.answering)
            raise InputError(
                f"the answers in {directory} are from another judge:{format_differences(changes)}",
                hint="omit this run, so that all questions are asked",
            )
        self.answers_to([])

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the stored answers by key, without errors."""
        answers = stored_answers(self._store, keys)
        return {key: answer for key, answer in answers.items() if isinstance(answer, Answer)}


class AnswerMemory:
    """The last answers of an open judge, without errors."""

    name = "an open judge"

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the remembered answers by key."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def add(self, key: str, answer: Answer | NoAnswer) -> None:
        if isinstance(answer, Answer):
            self._answers[key] = answer
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)


EarlierAnswers = OtherRun | AnswerMemory
"""A source of answers. The manifest records its `name`."""


def earlier_answers(
    memory: AnswerMemory | None, judge: JudgeIdentity, runs: Sequence[str], progress: Progress
) -> list[EarlierAnswers]:
    """Return the sources of earlier answers: runs to reuse, and the memory of an open judge.

    Reports runs that were made with other versions.
    """
    sources: list[EarlierAnswers] = []
    for name in runs:
        run = OtherRun(Path(name), judge)
        if run.updates:
            versions = format_updates(run.updates)
            progress.note(f"{run.name} was made with other versions ({versions})")
        sources.append(run)
    if memory is not None:
        sources.append(memory)
    return sources
