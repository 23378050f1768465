"""Answers by models, and what is already known of them.

    tasks ──wording──> questions ──store? other runs? memory?──> else the engine ──> replies

Judges that are not in memory at the same time take turns: each answers all questions about the
samples, and then the next one opens. A complete verdict may lead to more questions, so they take
turns until none waits. Each judge has the same questions, keys and windows as alone.
"""

from collections.abc import Callable, Mapping, Sequence

from localjudge.engine.protocol import count_workers
from localjudge.judging.answers import NOT_YET, Answers, Replies, Reply, select_tasks
from localjudge.judging.evaluate import evaluate
from localjudge.judging.jury import Jury
from localjudge.judging.plan import Plan
from localjudge.judging.questions import TaskRef, Wording, ask, distinct
from localjudge.progress import Progress
from localjudge.run_directory.request_keys import KeyedRequest
from localjudge.run_directory.reuse import AnswerMemory, EarlierAnswers
from localjudge.run_directory.store import Store
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRequest


class ModelAnswers(Answers):
    """Answers by the judges of a jury. Known ones come from the store and the `earlier` sources.

    `watch` is called after each answer is stored. `only` is the number of the only judge to ask,
    as if it were alone. `total` is the expected number of samples, for the progress. Without a
    store, all models must be in memory.
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
        self._sentences = settings.sentences
        self._language = settings.language
        self._earlier = earlier
        self._asking: dict[int, Wording] = {}
        """The judges that are asked now, by number."""
        self._later: Sequence[int] = ()
        """The judges whose turns come later."""
        self._prepared: set[str] = set()
        self._without_question: dict[AskedUnit, Verdict | NoAnswer] = {}
        self._expected = ExpectedQuestions()
        self._done = 0
        self._take_turns = only is None and not jury.is_in_memory
        if not self._take_turns:
            self._asking = {number: self._open(number) for number in judges}

    def _open(self, number: int) -> Wording:
        return Wording(self._jury.open(number), self._sentences, self._language)

    @property
    def workers(self) -> int:
        """How many questions the judges that are asked now answer at the same time."""
        workers = 1
        for number in self._asking:
            workers = max(workers, count_workers(self._jury.open(number).engine))
        return workers

    def prepare(self, samples: Sequence[Sample]) -> bool:
        """Let judges that take turns answer all questions about these samples.

        Returns whether they are answered now. Judges in memory answer when a sample is evaluated.
        """
        if not self._take_turns:
            return False
        is_waiting = not all(sample.id in self._prepared for sample in samples)
        while is_waiting:
            order = self._jury.order
            for turn, number in enumerate(order):
                is_waiting = self._take_turn(number, samples, order[turn + 1 :])
        self._prepared.update(sample.id for sample in samples)
        return True

    def _take_turn(self, number: int, samples: Sequence[Sample], later: Sequence[int]) -> bool:
        """Let one judge answer, before the `later` ones.

        Returns whether a verdict then waits for another judge.
        """
        self._asking = {number: self._open(number)}
        self._later = later
        self._expected.begin_judge()
        self.progress.phase(self.judges[number])
        self.total = len(samples)
        self._done = 0
        is_waiting = False
        for evaluations in evaluate(samples, self._metrics, self, self._sentences):
            for evaluation in evaluations:
                if any(verdict.error == NOT_YET.error for verdict in evaluation.verdicts):
                    is_waiting = True
        self._asking = {}
        return is_waiting

    def begin(self, block: Sequence[Sample]) -> None:
        """Let judges that take turns answer first, unless they did, and count the samples."""
        if not self._asking:
            self.prepare(block)
        self._done += len(block)
        self._expected.share = 1.0
        if self._done < self.total:
            self._expected.share = self._done / self.total

    def replies(self, tasks: Sequence[TaskRef]) -> Replies:
        """Ask the judges that are asked now. Those of the others are stored."""
        replies: dict[AskedUnit, Reply] = {}
        if self._take_turns and self._store is not None:
            replies |= self._store.answers_about(dict.fromkeys(task.sample_id for task in tasks))
            for task in tasks:
                for number in self.judges:
                    unit = task.asked(number)
                    if unit in self._without_question:
                        replies[unit] = self._without_question[unit]
        for number in self._asking:
            replies |= self._ask(number, tasks)
        return replies

    def _ask(self, number: int, tasks: Sequence[TaskRef]) -> dict[AskedUnit, Reply]:
        """Return the replies of one judge: by known answers, and by the engine for the others."""
        selected = select_tasks(tasks, number, self.judges, self.rule)
        worded = self._asking[number].word(selected)
        questions = distinct(worded)
        windows_by_unit: dict[AskedUnit, list[AskedWindow]] = {}
        without_question: dict[AskedUnit, Verdict | NoAnswer] = {}
        for task, words in zip(selected, worded, strict=True):
            unit = task.asked(number)
            if isinstance(words, tuple):
                windows_by_unit[unit] = [AskedWindow(window, keyed.key) for keyed, window in words]
            else:
                without_question[unit] = words
        if self._take_turns:
            later_tasks = 0
            for later in self._later:
                later_tasks += len(select_tasks(tasks, later, self.judges, self.rule))
            self._expected.count_tasks(len(selected), later_tasks)
            self._without_question |= without_question
        answers = self._answer(number, questions, windows_by_unit)
        replies: dict[AskedUnit, Reply] = {**without_question}
        for unit, windows in windows_by_unit.items():
            replies[unit] = [window._replace(answer=answers[window.key]) for window in windows]
        return replies

    def _answer(
        self,
        number: int,
        questions: Mapping[str, KeyedRequest],
        windows_by_unit: Mapping[AskedUnit, Sequence[AskedWindow]],
    ) -> dict[str, Answer | NoAnswer]:
        """Return the known answers to the questions of one judge, and ask it the others."""
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

        engine = self._jury.open(number).engine
        return answers | ask(engine, requests, self.progress, on_answer=keep)

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if self._store:
            self._store.add_answers({key: answer})
        for source in self._earlier:
            if isinstance(source, AnswerMemory):
                source.add(key, answer)


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
