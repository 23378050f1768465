"""Turn samples into the verdicts of a jury.

    pass 1      judge 1 answers the questions of all samples                       ──> store
    pass 2      judge 2 answers its questions; complete verdicts ──metrics──> more questions?
    ...         passes are repeated until every judge has answered every question
    at the end  stored answers ──windows──> verdict of each judge ──combination──> of the jury

Each pass is the loop over one engine (`judging/loop.py`), so each judge has the same questions,
keys and windows as alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from localjudge.judging.jury import LoadedJury
from localjudge.judging.loop import Blocks, TaskRef, blocks, decide_verdict, evaluate_samples
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.progress import Progress, Silence
from localjudge.run_directory.jury import combine
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import AskedUnit, AskedWindow, Store
from localjudge.types import Answer, Label, NoAnswer, Sample, Verdict, VerdictRequest, VerdictRule

StoredAnswers = Mapping[AskedUnit, Sequence[AskedWindow]]
"""Windows of each unit with their answers so far, by judge."""
NOT_YET = NoAnswer(error="a judge has not answered yet")
"""Verdict of a unit with a missing answer."""
TaskPlace = tuple[str, str, int]
"""Sample, metric and position of a task."""


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
    p_yes = combine(probabilities, rule.combinations[metric])
    label: Label = 1 if p_yes >= rule.of(metric).threshold else 0
    masses = [each.valid_mass for each in verdicts.values() if each.valid_mass is not None]
    reasons = [f"{name}: {each.reason}" for name, each in verdicts.items() if each.reason]
    return Verdict(
        label=label,
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


def stored_verdict(
    task: TaskRef,
    names: Sequence[str],
    answers: StoredAnswers,
    unasked: Mapping[AskedUnit, Verdict | NoAnswer],
    rule: VerdictRule,
) -> Verdict | NoAnswer:
    """Return the jury's verdict from stored answers.

    `unasked` has the verdicts of judges without a question. Judges without a weight for the metric
    take no part in it.
    """
    parts: dict[str, Verdict | NoAnswer] = {}
    for place, name in enumerate(names):
        if name not in rule.combinations[task.metric].weights:
            continue
        unit = AskedUnit(task.sample_id, task.metric, task.position, place)
        if unit in unasked:
            parts[name] = unasked[unit]
        else:
            parts[name] = _decide_by_windows(answers.get(unit, ()), rule.of(task.metric))
    if any(part is NOT_YET for part in parts.values()):
        return NOT_YET
    return jury_verdict(parts, rule, task.metric)


def _decide_by_windows(windows: Sequence[AskedWindow], rule: VerdictRule) -> Verdict | NoAnswer:
    is_cut = len(windows) > 1 or any(window.number > 0 for window in windows)
    answers: list[tuple[Answer | NoAnswer, int | None]] = []
    for window in windows:
        if window.answer is None:
            return NOT_YET
        number = window.number if is_cut else None
        answers.append((window.answer, number))
    if not answers:
        return NOT_YET
    return decide_verdict(answers, rule)


def select_tasks(tasks: Sequence[TaskRef], name: str, rule: VerdictRule) -> list[TaskRef]:
    """Return the tasks of the metrics for which a judge has a weight."""
    return [task for task in tasks if name in rule.combinations[task.metric].weights]


class JuryTotal:
    """Forward the progress of each judge in turn, with the expected questions of all judges.

    The questions of a judge that has not begun are extrapolated from those of the current judge:
    as many for each of its tasks.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.note = progress.note
        self.rows = progress.rows
        self.elapsed = progress.elapsed
        self.recall = progress.recall
        self.phase = progress.phase
        self.standing = progress.standing
        self.pause = progress.pause
        self.advance = progress.advance
        self.close = progress.close
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
        self._progress.expect(total - self._reported, counted=counted and not later)
        self._reported = total


@dataclass
class JuryBlocks:
    """Judge samples by a jury.

    The judges take turns over all samples that `prepare` or `evaluations` receives. `watch` is
    called after each answer is stored.
    """

    jury: LoadedJury
    store: Store
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    rule: VerdictRule
    earlier: Sequence[EarlierAnswers] = ()
    watch: Callable[[VerdictRequest], object] = lambda _request: None
    asked: int = 0
    _unasked: dict[AskedUnit, Verdict | NoAnswer] = field(default_factory=dict)
    _is_waiting: bool = False

    def __post_init__(self) -> None:
        """Count the questions of all judges together."""
        self._total = JuryTotal(self.progress)

    def evaluations(self, samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        """Yield the evaluations of each block."""
        self.prepare(samples)
        for block in blocks(samples):
            yield self._evaluate(block)

    def evaluate(self, block: Sequence[Sample], share: float) -> list[Evaluation]:
        """Evaluate a block.

        `share` is not used: the progress of each judge is over the prepared samples.
        """
        evaluations = self._evaluate(block)
        if self._is_waiting:
            self.prepare(block)
            evaluations = self._evaluate(block)
        return evaluations

    def prepare(self, samples: Sequence[Sample]) -> bool:
        """Let each judge answer all questions about these samples, and return True."""
        is_waiting = bool(samples)
        while is_waiting:
            later = self.jury.order
            while later:
                place = later.pop(0)
                is_waiting = self._let_judge_answer(place, samples, later)
        return True

    def _let_judge_answer(
        self, place: int, samples: Sequence[Sample], later: Sequence[int]
    ) -> bool:
        """Let one judge answer, before the `later` ones.

        Returns whether a verdict then waits for another judge.
        """
        judge = self.jury.open(place)
        name = self.jury.names[place]
        self._total.begin_judge()
        self._total.phase(name)
        judging = Blocks(
            judge,
            self.store,
            self.metrics,
            self.settings,
            self._total,
            self.earlier,
            watch=self.watch,
            place=place,
        )
        self._is_waiting = False

        def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
            selected = select_tasks(tasks, name, self.rule)
            self._total.count_tasks(len(selected), self._count_tasks(tasks, later))
            own_verdicts = judging.verdicts(selected)
            answers = self._answers_about(tasks)
            for task, verdict in zip(selected, own_verdicts, strict=True):
                unit = AskedUnit(task.sample_id, task.metric, task.position, place)
                if unit not in answers:  # decided without a question
                    self._unasked[unit] = verdict
            return self._jury_verdicts(tasks, answers)

        done = 0
        for block in blocks(samples):
            done += len(block)
            judging.evaluate_with(verdicts, block, done / len(samples))
        self.asked += judging.asked
        return self._is_waiting

    def _count_tasks(self, tasks: Sequence[TaskRef], places: Sequence[int]) -> int:
        """Return the number of tasks of the judges with these numbers together."""
        names = [self.jury.names[place] for place in places]
        return sum(len(select_tasks(tasks, name, self.rule)) for name in names)

    def _evaluate(self, block: Sequence[Sample]) -> list[Evaluation]:
        """Evaluate a block by the answers so far."""
        self._is_waiting = False

        def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
            return self._jury_verdicts(tasks, self._answers_about(tasks))

        return evaluate_samples(block, self.metrics, self.settings.sentences, verdicts)

    def _answers_about(self, tasks: Sequence[TaskRef]) -> StoredAnswers:
        return self.store.answers_about(dict.fromkeys(task.sample_id for task in tasks))

    def _jury_verdicts(
        self, tasks: Sequence[TaskRef], answers: StoredAnswers
    ) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the answers so far, and note whether one waits for a judge."""
        names = self.jury.names
        verdicts: list[Verdict | NoAnswer] = []
        for task in tasks:
            verdict = stored_verdict(task, names, answers, self._unasked, self.rule)
            self._is_waiting = self._is_waiting or verdict is NOT_YET
            verdicts.append(verdict)
        return verdicts


def jury_evaluations_in_memory(
    jury: LoadedJury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    earlier: Sequence[EarlierAnswers],
) -> Callable[[Sequence[Sample]], Iterator[list[Evaluation]]]:
    """Return a function that evaluates samples without a store.

    All models of the jury must be open.
    """
    rule = jury.rule_for(metrics, settings, Silence())
    loops: dict[str, Blocks] = {}
    for place, name in enumerate(jury.names):
        loops[name] = Blocks(jury.open(place), None, metrics, settings, Silence(), earlier)

    def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        parts: dict[TaskPlace, dict[str, Verdict | NoAnswer]] = {}  # by task, then by judge
        for name, judging in loops.items():
            selected = select_tasks(tasks, name, rule)
            for task, verdict in zip(selected, judging.verdicts(selected), strict=True):
                parts.setdefault(task[:3], {})[name] = verdict
        return [jury_verdict(parts[task[:3]], rule, task.metric) for task in tasks]

    def evaluate(samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        for block in blocks(samples):
            yield evaluate_samples(block, metrics, settings.sentences, verdicts)

    return evaluate
