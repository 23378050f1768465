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
from localjudge.judging.judge_or_jury import JudgeOrJury
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.jury import LoadedJury
from localjudge.judging.jury_verdicts import StoredAnswers, select_tasks, stored_verdict
from localjudge.judging.loop import ask, blocks, digest
from localjudge.judging.questions import TaskRef, WordedTask, Wording, distinct
from localjudge.judging.rounds import evaluate_samples
from localjudge.judging.settings import RunSettings
from localjudge.judging.verdicts import decide_verdicts
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


class RepeatedQuestions:
    """Ask the judge some stored questions again, and note what differs.

    `drawn` has the digests of the questions to ask. `changed` has the new answers that differ, by
    key. `rows` are the verdicts with such an answer. `verdicts` counts the verdicts with a question
    that was asked again.
    """

    def __init__(self, drawn: Iterable[bytes], progress: Progress) -> None:
        self._waiting = set(drawn)
        self._asked: set[bytes] = set()
        self._progress = progress
        self.changed: dict[str, Answer | NoAnswer] = {}
        self.rows: list[RowChange] = []
        self.verdicts = 0
        progress.expect(len(self._waiting))

    @property
    def asked(self) -> int:
        """Number of questions that were asked again."""
        return len(self._asked)

    def ask(
        self,
        engine: Engine,
        questions: Mapping[str, KeyedRequest],
        stored: Mapping[str, Answer | NoAnswer],
    ) -> None:
        """Ask the drawn questions that have a stored answer, each one once."""
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

    def note_verdict(
        self,
        task: TaskRef,
        keys: Sequence[str],
        before: Verdict | NoAnswer,
        after: Verdict | NoAnswer,
    ) -> None:
        """Note the verdict of a task with these questions, if one was asked again."""
        if not self._asked.isdisjoint(map(digest, keys)):
            self.verdicts += 1
        if not self.changed.keys().isdisjoint(keys):
            row = RowChange(
                sample_id=task.sample_id,
                metric=task.metric,
                position=task.position,
                text=task.task.unit.span.text,
                before=getattr(before, "label", None),
                after=getattr(after, "label", None),
                p_before=getattr(before, "p_yes", None),
                p_after=getattr(after, "p_yes", None),
            )
            self.rows.append(row)


class JudgeReplay:
    """Let one judge answer again, while the metrics ask."""

    def __init__(
        self, run: RunRecord, judge: LoadedJudge, settings: RunSettings, repeated: RepeatedQuestions
    ) -> None:
        [self._identity] = run.manifest.judge.engines
        self._store = run.directory / STORE
        self._engine = judge.engine
        self._wording = Wording(judge, settings.sentences, identity=self._identity)
        self._rule = run.rule(settings.min_valid_mass)
        self._repeated = repeated

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers, and note changes by the new ones."""
        worded = self._wording.word(tasks)
        questions = distinct(worded)
        stored = stored_answers(self._store, questions)
        self._repeated.ask(self._engine, questions, stored)
        before = dict.fromkeys(questions, _NOT_ASKED) | stored
        after = {key: self._repeated.changed.get(key, answer) for key, answer in before.items()}
        old_verdicts = decide_verdicts(tasks, worded, before, self._rule)
        new_verdicts = decide_verdicts(tasks, worded, after, self._rule)
        for task, asked, old, new in zip(tasks, worded, old_verdicts, new_verdicts, strict=True):
            keys = [key for key, _ in _list_windows(asked)]
            self._repeated.note_verdict(task, keys, old, new)
        return old_verdicts

    def count_altered_requests(self) -> int:
        """Count stored requests that the samples do not lead to. Call it after the replay."""
        return altered_requests(self._store, [self._identity], self._wording.keys.shapes)


def _list_windows(asked: WordedTask) -> list[tuple[str, int | None]]:
    """Return key and number of each window about which a task asks."""
    windows: list[tuple[str, int | None]] = []
    if isinstance(asked, tuple):
        for keyed, number in asked:
            windows.append((keyed.key, number))
    return windows


class JuryReplay:
    """Let each judge of a jury answer again, in its turn, then combine the stored answers.

    Raises InputError unless the judges are the run's.
    """

    def __init__(
        self,
        run: RunRecord,
        jury: LoadedJury,
        metrics: Sequence[Metric],
        settings: RunSettings,
        repeated: RepeatedQuestions,
    ) -> None:
        self._run = run
        self._store = run.directory / STORE
        self._judges = run.manifest.judge.jury
        self._names = list(self._judges)
        self._metrics = metrics
        self._settings = settings
        self._rule = run.rule(settings.min_valid_mass)
        self._repeated = repeated
        self._unasked: dict[AskedUnit, Verdict | NoAnswer] = {}
        self._shapes: set[str] = set()
        self._altered_units = 0
        jury.adopt_scales(self._judges)
        if self._names != jury.names:
            there = f"{run.directory} was judged by {', '.join(self._names)}"
            here = f"the judges here are {', '.join(jury.names)}"
            raise InputError(f"{there}, and {here}", hint="name the judges of the run")

    def let_judge_answer(self, judge: LoadedJudge, place: int) -> None:
        """Compare the questions of one judge with the stored ones, and ask the drawn ones."""
        identity = self._judges[self._names[place]].engine.as_json
        wording = Wording(judge, self._settings.sentences, identity=identity)
        verdicts = partial(self._repeat_questions, place, judge.engine, wording)
        for block in blocks(self._run.iter_samples()):
            evaluate_samples(block, self._metrics, self._settings.sentences, verdicts)
        self._shapes |= wording.keys.shapes

    def _repeat_questions(
        self, place: int, engine: Engine, wording: Wording, tasks: Sequence[TaskRef]
    ) -> list[Verdict | NoAnswer]:
        """Return the jury's verdicts by the stored answers."""
        selected = select_tasks(tasks, self._names[place], self._rule)
        worded = wording.word(selected)
        questions = distinct(worded)
        self._repeated.ask(engine, questions, stored_answers(self._store, questions))
        answers = self._answers_about(tasks)
        for task, asked in zip(selected, worded, strict=True):
            unit = task.asked(place)
            if not isinstance(asked, tuple):
                self._unasked[unit] = asked
            stored = [(window.key, window.number) for window in answers.get(unit, ())]
            if stored != _list_windows(asked):
                self._altered_units += 1
        return [self._decide(task, answers) for task in tasks]

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers, and note changes by the new ones.

        Call it after all judges have answered.
        """
        before = self._answers_about(tasks)
        after = {unit: self._replace_changed(windows) for unit, windows in before.items()}
        verdicts: list[Verdict | NoAnswer] = []
        for task in tasks:
            keys: list[str] = []
            for place in range(len(self._names)):
                unit = task.asked(place)
                keys += [window.key for window in before.get(unit, ())]
            verdict = self._decide(task, before)
            self._repeated.note_verdict(task, keys, verdict, self._decide(task, after))
            verdicts.append(verdict)
        return verdicts

    def _replace_changed(self, windows: Sequence[AskedWindow]) -> list[AskedWindow]:
        replaced: list[AskedWindow] = []
        for window in windows:
            answer = self._repeated.changed.get(window.key, window.answer)
            replaced.append(window._replace(answer=answer))
        return replaced

    def _answers_about(self, tasks: Sequence[TaskRef]) -> StoredAnswers:
        return answers_of_units(self._store, dict.fromkeys(task.sample_id for task in tasks))

    def _decide(self, task: TaskRef, answers: StoredAnswers) -> Verdict | NoAnswer:
        return stored_verdict(task, self._names, answers, self._unasked, self._rule)

    def count_altered_requests(self) -> int:
        """Count stored requests that the samples do not lead to. Call it after the replay."""
        engines = self._run.manifest.judge.engines
        return max(altered_requests(self._store, engines, self._shapes), self._altered_units)


def start_replay(
    run: RunRecord,
    judge: JudgeOrJury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    repeated: RepeatedQuestions,
    progress: Progress,
) -> JudgeReplay | JuryReplay:
    """Return the replay of a run. The judges of a jury have answered, one after the other."""
    if not isinstance(judge, LoadedJury):
        return JudgeReplay(run, judge, settings, repeated)
    replay = JuryReplay(run, judge, metrics, settings, repeated)
    for place in judge.order:
        opened = judge.open(place)
        progress.phase(judge.names[place])
        replay.let_judge_answer(opened, place)
    return replay
