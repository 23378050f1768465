"""Judge the samples of a run again, to verify it.

    samples ──metrics, by stored answers──> tasks ──wording──> questions ──drawn?──> judge
                                                                    │                  │
                                                              stored answers      new answers
                                                                    └──> verdicts <────┘
                                                                         differ?

Metrics use the stored answers, so that they ask the same questions as in the run.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from localjudge.engine.protocol import Engine
from localjudge.errors import InputError
from localjudge.judging.judges import SingleJudge
from localjudge.judging.jury import Jury
from localjudge.judging.loop import ask, blocks, digest
from localjudge.judging.questions import TaskRef, WordedTask, Wording, distinct
from localjudge.judging.rounds import evaluate_samples
from localjudge.judging.settings import RunSettings
from localjudge.judging.stored_verdicts import StoredAnswers, select_tasks, stored_verdict
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.run_directory.archive import (
    altered_requests,
    answers_of_units,
    stored_answers,
)
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.request_keys import KeyedRequest
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow
from localjudge.types import Answer, Label, NoAnswer, Record, Verdict

_NOT_ASKED = NoAnswer(error="the run did not ask this")


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


class Replay:
    """Let the judges of a run answer the `drawn` questions again, then decide its verdicts again.

    First each judge answers, one after the other; then the metrics ask for `verdicts`. `changed`
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
        self._run = run
        self._store = run.directory / STORE
        self._engines = run.manifest.judge.engines
        self._jury = list(run.manifest.judge.jury)
        """Names of several judges."""
        self._metrics = metrics
        self._sentences = settings.sentences
        self._language = settings.language
        self._rule = run.rule(settings.min_valid_mass)
        self._progress = progress
        self._waiting = set(map(digest, drawn))
        self._asked: set[bytes] = set()
        self._unasked: dict[AskedUnit, Verdict | NoAnswer] = {}
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

    def let_judge_answer(self, judge: SingleJudge, place: int) -> None:
        """Compare the questions of one judge with the stored ones, and ask the drawn ones."""
        wording = Wording(judge, self._sentences, self._language, identity=self._engines[place])
        verdicts = partial(self._repeat_questions, place, judge.engine, wording)
        for block in blocks(self._run.iter_samples()):
            evaluate_samples(block, self._metrics, self._sentences, verdicts)
        self._shapes |= wording.keys.shapes

    def _repeat_questions(
        self, place: int, engine: Engine, wording: Wording, tasks: Sequence[TaskRef]
    ) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers."""
        selected = tasks
        if self._jury:
            selected = select_tasks(tasks, self._jury[place], self._rule)
        worded = wording.word(selected)
        self._ask_drawn(engine, distinct(worded))
        answers = self._answers_about(tasks)
        for task, asked in zip(selected, worded, strict=True):
            unit = task.asked(place)
            stored = [(window.key, window.number) for window in answers.get(unit, ())]
            is_altered = stored != _list_windows(asked)
            self._altered_units += is_altered
            if not isinstance(asked, tuple):
                self._unasked[unit] = asked
            elif is_altered:
                self._unasked[unit] = _NOT_ASKED
        return [self._decide(task, answers) for task in tasks]

    def _ask_drawn(self, engine: Engine, questions: Mapping[str, KeyedRequest]) -> None:
        """Ask the drawn questions that have a stored answer, each one once."""
        stored = stored_answers(self._store, questions)
        requests = {}
        for key in stored:
            if digest(key) in self._waiting:
                requests[key] = questions[key].request
        for key, answer in ask(engine, requests, self._progress).items():
            if answer != stored[key]:
                self.changed[key] = answer
        digests = set(map(digest, requests))
        self._waiting -= digests
        self._asked |= digests

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers, and note changes by the new ones.

        Call it after all judges have answered.
        """
        before = self._answers_about(tasks)
        after = {unit: self._replace_changed(windows) for unit, windows in before.items()}
        verdicts: list[Verdict | NoAnswer] = []
        for task in tasks:
            keys: list[str] = []
            for place in range(len(self._engines)):
                unit = task.asked(place)
                keys += [window.key for window in before.get(unit, ())]
            verdict = self._decide(task, before)
            if not self._asked.isdisjoint(map(digest, keys)):
                self.repeated += 1
            if not self.changed.keys().isdisjoint(keys):
                self.rows.append(_describe_change(task, verdict, self._decide(task, after)))
            verdicts.append(verdict)
        return verdicts

    def _replace_changed(self, windows: Sequence[AskedWindow]) -> list[AskedWindow]:
        replaced: list[AskedWindow] = []
        for window in windows:
            answer = self.changed.get(window.key, window.answer)
            replaced.append(window._replace(answer=answer))
        return replaced

    def _answers_about(self, tasks: Sequence[TaskRef]) -> StoredAnswers:
        return answers_of_units(self._store, dict.fromkeys(task.sample_id for task in tasks))

    def _decide(self, task: TaskRef, answers: StoredAnswers) -> Verdict | NoAnswer:
        return stored_verdict(task, self._jury, answers, self._unasked, self._rule)

    def count_altered_requests(self) -> int:
        """Count stored requests that the samples do not lead to. Call it after the replay."""
        altered = altered_requests(self._store, self._engines, self._shapes)
        return max(altered, self._altered_units)


def _list_windows(asked: WordedTask) -> list[tuple[str, int | None]]:
    """Return key and number of each window about which a task asks."""
    windows: list[tuple[str, int | None]] = []
    if isinstance(asked, tuple):
        for keyed, number in asked:
            windows.append((keyed.key, number))
    return windows


def _describe_change(
    task: TaskRef, before: Verdict | NoAnswer, after: Verdict | NoAnswer
) -> RowChange:
    return RowChange(
        sample_id=task.sample_id,
        metric=task.metric,
        position=task.position,
        text=task.task.unit.span.text,
        before=getattr(before, "label", None),
        after=getattr(after, "label", None),
        p_before=getattr(before, "p_yes", None),
        p_after=getattr(after, "p_yes", None),
    )


def replay_run(
    run: RunRecord,
    jury: Jury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    drawn: Iterable[str],
    progress: Progress,
) -> Replay:
    """Let each judge answer the drawn questions again, and return the replay.

    Raises InputError unless the judges are as many as the run's, and several have their names.
    """
    _require_judges_of(run, jury)
    replay = Replay(run, metrics, settings, drawn, progress)
    for place in jury.order:
        opened = jury.open(place)
        if not jury.is_single:
            progress.phase(opened.name)
        replay.let_judge_answer(opened, place)
    return replay


def _require_judges_of(run: RunRecord, jury: Jury) -> None:
    members = run.manifest.judge.jury
    jury.adopt_scales(members)
    if jury.is_single and not members:
        return
    if list(members) == jury.names:
        return
    names = list(members) or [run.summary.judge.name]
    there = f"{run.directory} was judged by {', '.join(names)}"
    here = f"the judges here are {', '.join(jury.names)}"
    raise InputError(f"{there}, and {here}", hint="name the judges of the run")
