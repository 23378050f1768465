"""Answers by models, and what is already known of them.

    tasks ──wording──> questions ──store? other runs? memory?──> else the engine ──> replies

Answers of other runs, and of an open judge, are copied into the store of the run, with their
origin. Errors are never reused. Judges that are not in memory at the same time take turns. Each
judge of a jury has the same questions, keys and windows as alone.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from localjudge.engine.protocol import Engine, ask, count_workers
from localjudge.errors import InputError, MissingRun
from localjudge.judging.evaluate import Answers, Replies, Reply, evaluate
from localjudge.judging.jury import AnswerMemory, Jury
from localjudge.judging.plan import Plan
from localjudge.judging.questions import TaskRef, Wording, distinct
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
from localjudge.run_directory.manifest import all_versions
from localjudge.run_directory.store import Store
from localjudge.run_directory.store_reader import (
    AskedUnit,
    AskedWindow,
    KeyedRequest,
    stored_answers,
)
from localjudge.run_directory.verdict_rule import NOT_YET
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRequest


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


class ModelAnswers(Answers):
    """Answers by judges in memory. Known ones come from the store and the `earlier` sources.

    `watch` is called after each answer is stored. `only` is the number of the only judge to ask,
    as if it were alone. `total` is the expected number of samples, for the progress.
    """

    def __init__(
        self,
        jury: Jury,
        store: Store | None,
        planned: Plan,
        progress: Progress,
        earlier: Sequence[EarlierAnswers] = (),
        only: int | None = None,
    ) -> None:
        settings = planned.settings
        if only is None:
            rule = jury.rule_for(planned.metrics, settings, progress)
            judges = dict(enumerate(jury.names))
        else:
            rule = settings.rule_for(planned.metrics)
            judges = {only: jury.names[only]}
        super().__init__(judges, rule)
        self.progress = progress
        self.watch: Callable[[VerdictRequest], object] = lambda _request: None
        self.total = 0
        self.asked = 0
        self._jury = jury
        self._store = store
        self._metrics = planned.metrics
        self._settings = settings
        self._earlier = earlier
        self._now = list(judges)
        """Numbers of the judges that are asked now."""
        self._wordings: dict[int, Wording] = {}
        self._expected = ExpectedQuestions()
        self._done = 0

    @property
    def workers(self) -> int:
        """How many questions the judges that are asked now answer at the same time."""
        workers = 1
        for number in self._now:
            workers = max(workers, count_workers(self._jury.open(number).engine))
        return workers

    def prepare(self, _samples: Sequence[Sample]) -> bool:
        """Answer all questions about these samples now, unless judges in memory answer later.

        Returns whether they are answered.
        """
        return False

    def begin(self, block: Sequence[Sample]) -> None:
        """Count the samples."""
        self._done += len(block)
        self._expected.share = 1.0
        if self._done < self.total:
            self._expected.share = self._done / self.total

    def replies(self, tasks: Sequence[TaskRef]) -> Replies:
        """Ask the judges that are asked now."""
        replies: dict[AskedUnit, Reply] = {}
        for number in self._now:
            replies |= self._ask(number, tasks)
        return replies

    def _ask(self, number: int, tasks: Sequence[TaskRef]) -> dict[AskedUnit, Reply]:
        """Return the replies of one judge: by known answers, and by the engine for the others."""
        if number not in self._wordings:
            judge = self._jury.open(number)
            self._wordings[number] = Wording(judge, self._settings)
        wording = self._wordings[number]
        selected = self.select_tasks(tasks, number)
        worded = wording.word(selected)
        replies: dict[AskedUnit, Reply] = {}
        windows_by_unit: dict[AskedUnit, list[AskedWindow]] = {}
        for task, words in zip(selected, worded, strict=True):
            unit = task.asked(number)
            if isinstance(words, tuple):
                windows_by_unit[unit] = [AskedWindow(window, keyed.key) for keyed, window in words]
            else:
                replies[unit] = words
        answers = self._answer(wording.engine, distinct(worded), windows_by_unit)
        for unit, windows in windows_by_unit.items():
            replies[unit] = [window._replace(answer=answers[window.key]) for window in windows]
        return replies

    def _answer(
        self,
        engine: Engine,
        questions: Mapping[str, KeyedRequest],
        windows_by_unit: Mapping[AskedUnit, Sequence[AskedWindow]],
    ) -> dict[str, Answer | NoAnswer]:
        """Return the known answers to these questions, and let the engine answer the others."""
        answers: dict[str, Answer | NoAnswer] = {}
        if self._store:
            answers |= self._store.answers_to(questions)
            self._store.add_requests(questions, windows_by_unit)
        for source in self._earlier:
            reused = source.answers_to([key for key in questions if key not in answers])
            if self._store:
                self._store.add_answers(reused, source.name)
            answers |= reused
        self._expected.report(len(questions), self.progress)
        if answers:
            self.progress.recall(len(answers))
        requests: dict[str, VerdictRequest] = {}
        for key, keyed in questions.items():
            if key not in answers:
                requests[key] = keyed.request
        self.asked += len(requests)

        def keep(key: str, answer: Answer | NoAnswer) -> None:
            self._keep(key, answer)
            self.watch(requests[key])

        return answers | ask(engine, requests, self.progress, on_answer=keep)

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if self._store:
            self._store.add_answers({key: answer})
        for source in self._earlier:
            if isinstance(source, AnswerMemory):
                source.add(key, answer)


class AnswersInTurns(ModelAnswers):
    """Answers by judges that are not in memory at the same time, and so take turns.

    Each judge answers all questions about some samples, and then the next one opens. A complete
    verdict may lead to more questions, so they take turns until none waits.
    """

    def __init__(
        self,
        jury: Jury,
        store: Store,
        planned: Plan,
        progress: Progress,
        earlier: Sequence[EarlierAnswers],
    ) -> None:
        super().__init__(jury, store, planned, progress, earlier)
        self._stored = store
        self._now = []
        self._later: Sequence[int] = ()
        """The judges whose turns come later."""
        self._prepared: set[str] = set()
        self._without_question: dict[AskedUnit, Reply] = {}

    def prepare(self, samples: Sequence[Sample]) -> bool:
        """Let each judge answer all questions about these samples, unless they did."""
        is_waiting = not all(sample.id in self._prepared for sample in samples)
        while is_waiting:
            order = self._jury.order
            for turn, number in enumerate(order):
                self._later = order[turn + 1 :]
                is_waiting = self._take_turn(number, samples)
        self._prepared.update(sample.id for sample in samples)
        return True

    def _take_turn(self, number: int, samples: Sequence[Sample]) -> bool:
        """Let one judge answer. Returns whether a verdict then waits for another judge."""
        self._jury.open(number)
        self._now = [number]
        self._expected.begin_judge()
        self.progress.phase(self.judges[number])
        self.total = len(samples)
        self._done = 0
        is_waiting = False
        for evaluations in evaluate(samples, self._metrics, self, self._settings.sentences):
            for evaluation in evaluations:
                if any(verdict.error == NOT_YET.error for verdict in evaluation.verdicts):
                    is_waiting = True
        self._now = []
        self._wordings = {}
        return is_waiting

    def begin(self, block: Sequence[Sample]) -> None:
        """Let all judges answer first, unless one has its turn, and count the samples."""
        if not self._now:
            self.prepare(block)
        super().begin(block)

    def replies(self, tasks: Sequence[TaskRef]) -> Replies:
        """Ask the judge that has its turn. The answers of the others are stored."""
        stored = self._stored.answers_about(dict.fromkeys(task.sample_id for task in tasks))
        now = super().replies(tasks)
        return ChainMap(dict(now), self._without_question, dict(stored))

    def _ask(self, number: int, tasks: Sequence[TaskRef]) -> dict[AskedUnit, Reply]:
        """Expect questions of the later judges, too, and keep results without a question."""
        counts: list[int] = []
        for judge in (number, *self._later):
            counts.append(len(self.select_tasks(tasks, judge)))
        self._expected.count_tasks(counts[0], sum(counts[1:]))
        replies = super()._ask(number, tasks)
        for unit, reply in replies.items():
            if isinstance(reply, Verdict | NoAnswer):
                self._without_question[unit] = reply
        return replies


def answers_of_jury(
    jury: Jury,
    store: Store,
    planned: Plan,
    progress: Progress,
    earlier: Sequence[EarlierAnswers],
) -> ModelAnswers:
    """Return the answers of a jury, whose judges take turns unless all are in memory."""
    if jury.is_in_memory:
        return ModelAnswers(jury, store, planned, progress, earlier)
    return AnswersInTurns(jury, store, planned, progress, earlier)


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
