"""The answers of a run that is verified: as they are stored, or as its judge gives them again.

    samples ──metrics, by stored answers──> tasks ──wording──> questions ──drawn?──> judge
                                                                    │                  │
                                                              stored answers      new answers
                                                                    └──> verdicts <────┘
                                                                         differ?

Metrics use the stored answers, so that they ask the same questions as in the run.
"""

from collections import ChainMap
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from localjudge.engine.protocol import ask
from localjudge.errors import InputError
from localjudge.judging.evaluate import Replies, Reply, StoredAnswers, evaluate
from localjudge.judging.jury import Jury
from localjudge.judging.questions import NO_CONTEXT, TaskRef, Wording, digest, distinct
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import AskedUnit, altered_requests, stored_answers
from localjudge.types import Answer, Label, NoAnswer, Record, Sample, Verdict

_NOT_ASKED = NoAnswer(error="the run did not ask this")
_NOT_THERE = NoAnswer(error="its row is missing")


class RowChange(Record):
    """The `position`-th verdict of a sample and metric, before and after; None without an
    answer.
    """

    sample_id: str
    metric: str
    position: int
    text: str
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None

    @property
    def moved(self) -> bool:
        return self.before != self.after

    @property
    def distance(self) -> float:
        """Change of the probability, 1 if it is missing on one side."""
        if self.p_before is None or self.p_after is None:
            return float(self.p_before != self.p_after)
        return abs(self.p_after - self.p_before)


class StoredVerdicts(StoredAnswers):
    """The stored answers, and the stored verdicts without a question."""

    def __init__(self, run: RunRecord) -> None:
        super().__init__(run)
        self._evaluations = run.iter_evaluations()
        self._rows: dict[tuple[str, str], Sequence[VerdictRow]] = {}

    def begin(self, block: Sequence[Sample]) -> None:
        """Read the answers and the verdicts about these samples."""
        super().begin(block)
        self._rows = {}
        for evaluation in chain.from_iterable(islice(self._evaluations, len(block))):
            self._rows[evaluation.sample_id, evaluation.metric] = evaluation.verdicts

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers.

        Reasons for not asking are only in the rows.
        """
        verdicts = super().verdicts(tasks)
        for index, task in enumerate(tasks):
            judges = self.choose_judges(task.metric)
            if all(task.asked(judge) in self.stored for judge in judges):
                continue
            verdicts[index] = _NOT_THERE
            rows = self._rows.get((task.sample_id, task.metric), ())
            if task.position < len(rows):
                row = rows[task.position]
                if row.label is None:
                    verdicts[index] = NoAnswer(error=row.error or "", valid_mass=row.valid_mass)
                elif row.label == NO_CONTEXT.label and row.p_yes is None:
                    verdicts[index] = NO_CONTEXT
        return verdicts


class RepeatedAnswers(StoredAnswers):
    """The stored answers of a run, of which the judges give the `drawn` ones again.

    First the judges answer, one after the other; then the metrics ask for `verdicts`. `changed`
    has the new answers that differ, by key. `rows` are the verdicts with such an answer. `repeated`
    counts the verdicts with a question that was asked again.
    """

    def __init__(
        self,
        run: RunRecord,
        metrics: Sequence[Metric],
        settings: RunSettings,
        drawn: Iterable[str],
        progress: Progress,
    ) -> None:
        super().__init__(run)
        self.run = run
        self.metrics = metrics
        self.settings = settings
        self.progress = progress
        self._engines = [judge.engine.as_json for judge in run.manifest.judge.judges]
        self._waiting = set(map(digest, drawn))
        self._asked: set[bytes] = set()
        self._asking: tuple[int, Wording] | None = None
        """Number and wording of the judge that is asked now."""
        self._without_question: dict[AskedUnit, Reply] = {}
        self._known = ChainMap(self._without_question)
        """The replies about the current block."""
        self._shapes: set[str] = set()
        self._altered_units = 0
        self.changed: dict[str, Answer | NoAnswer] = {}
        self.rows: list[RowChange] = []
        self.repeated = 0
        progress.expect(len(self._waiting))

    @property
    def asked(self) -> int:
        """Number of questions that were asked again."""
        return len(self._asked)

    def let_answer(self, jury: Jury) -> None:
        """Compare the questions of each judge with the stored ones, and ask the drawn ones.

        Raises InputError unless the judges are as many as the run's, and several have their names.
        """
        members = self.run.manifest.judge.jury
        jury.adopt_scales(members)
        if list(members) != jury.names and not (jury.is_single and not members):
            there = f"{self.run.directory} was judged by {', '.join(self.judges.values())}"
            here = f"the judges here are {', '.join(jury.names)}"
            raise InputError(f"{there}, and {here}", hint="name the judges of the run")
        sentences = self.settings.sentences
        for number in jury.order:
            judge = jury.open(number)
            if not jury.is_single:
                self.progress.phase(judge.name)
            wording = Wording(judge, self.settings, self._engines[number])
            self._asking = number, wording
            for _ in evaluate(self.run.iter_samples(), self.metrics, self, sentences):
                pass
            self._asking = None
            self._shapes |= wording.keys.shapes

    def begin(self, block: Sequence[Sample]) -> None:
        """Read the answers about these samples."""
        super().begin(block)
        self._known = ChainMap(self._without_question, dict(self.stored))

    def replies(self, tasks: Sequence[TaskRef]) -> Replies:
        """Return the stored windows, and the results without a question."""
        return self._known

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers.

        Notes changes by the new ones, after all judges have answered.
        """
        if self._asking is None:
            for task in tasks:
                units = [task.asked(number) for number in self.judges]
                keys: list[str] = []
                for unit in units:
                    keys += [window.key for window in self.stored.get(unit, ())]
                if not self._asked.isdisjoint(map(digest, keys)):
                    self.repeated += 1
                if not self.changed.keys().isdisjoint(keys):
                    before = self.decide(task, self._known)
                    after = self.decide(task, self._change(units))
                    change = RowChange(
                        sample_id=task.sample_id,
                        metric=task.metric,
                        position=task.position,
                        text=task.task.unit.span.text,
                        before=getattr(before, "label", None),
                        after=getattr(after, "label", None),
                        p_before=getattr(before, "p_yes", None),
                        p_after=getattr(after, "p_yes", None),
                    )
                    self.rows.append(change)
        else:
            self._repeat_questions(tasks, *self._asking)
        return super().verdicts(tasks)

    def _repeat_questions(self, tasks: Sequence[TaskRef], number: int, wording: Wording) -> None:
        """Compare the questions of one judge with the stored ones, and ask the drawn ones."""
        selected = self.select_tasks(tasks, number)
        worded = wording.word(selected)
        questions = distinct(worded)
        stored = stored_answers(self.store, questions)
        requests = {}
        for key in stored:
            if digest(key) in self._waiting:
                requests[key] = questions[key].request
        for key, answer in ask(wording.engine, requests, self.progress).items():
            if answer != stored[key]:
                self.changed[key] = answer
        digests = set(map(digest, requests))
        self._waiting -= digests
        self._asked |= digests
        for task, asked in zip(selected, worded, strict=True):
            unit = task.asked(number)
            stored_windows = self.stored.get(unit, ())
            asked_before = [(each.key, each.number) for each in stored_windows]
            windows: list[tuple[str, int | None]] = []
            if isinstance(asked, tuple):
                for keyed, window in asked:
                    windows.append((keyed.key, window))
            is_altered = asked_before != windows
            self._altered_units += is_altered
            if not isinstance(asked, tuple):
                self._without_question[unit] = asked
            elif is_altered:
                self._without_question[unit] = _NOT_ASKED

    def _change(self, units: Sequence[AskedUnit]) -> Replies:
        """Return the replies about these units with the new answers."""
        replies: dict[AskedUnit, Reply] = {}
        for unit in units:
            reply = self._known.get(unit, ())
            if not isinstance(reply, Verdict | NoAnswer):
                reply = [
                    window._replace(answer=self.changed.get(window.key, window.answer))
                    for window in reply
                ]
            replies[unit] = reply
        return replies

    def count_altered_requests(self) -> int:
        """Count stored requests that the samples do not lead to, after all have been evaluated."""
        altered = altered_requests(self.store, self._engines, self._shapes)
        return max(altered, self._altered_units)
