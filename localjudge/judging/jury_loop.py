"""Turn samples into the verdicts of a jury.

    pass 1      judge 1 answers the questions of all samples                       ──> store
    pass 2      judge 2 answers its questions; complete verdicts ──metrics──> more questions?
    ...         passes are repeated until every judge has answered every question
    at the end  stored answers ──windows──> verdict of each judge ──combination──> of the jury

Each pass is the loop over one engine (`judging/loop.py`), so each judge has the same questions,
keys and windows as alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from localjudge.engine.protocol import count_workers
from localjudge.judging.expected_questions import ExpectedQuestions
from localjudge.judging.jury import Jury
from localjudge.judging.loop import Blocks, blocks
from localjudge.judging.questions import TaskRef
from localjudge.judging.rounds import evaluate_samples
from localjudge.judging.settings import RunSettings
from localjudge.judging.stored_verdicts import (
    NOT_YET,
    StoredAnswers,
    jury_verdict,
    select_tasks,
    stored_verdict,
)
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.run_directory.evaluations import Evaluation
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import Store
from localjudge.run_directory.store_reader import AskedUnit
from localjudge.types import NoAnswer, Sample, Verdict, VerdictRule


@dataclass
class JuryBlocks:
    """Judge samples by a jury.

    The judges take turns over all samples that `prepare` or `evaluations` receives.
    """

    jury: Jury
    store: Store
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    rule: VerdictRule
    earlier: Sequence[EarlierAnswers] = ()
    asked: int = 0
    _expected: ExpectedQuestions = field(default_factory=ExpectedQuestions)
    _unasked: dict[AskedUnit, Verdict | NoAnswer] = field(default_factory=dict)

    def evaluations(self, samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        """Yield the evaluations of each block."""
        self.prepare(samples)
        for block in blocks(samples):
            yield self._evaluate(block, self._verdicts_so_far)

    def evaluate(self, block: Sequence[Sample], share: float) -> list[Evaluation]:
        """Evaluate a block.

        `share` is not used: the progress of each judge is over the prepared samples.
        """
        evaluations = self._evaluate(block, self._verdicts_so_far)
        if _has_waiting_verdict(evaluations):
            self.prepare(block)
            evaluations = self._evaluate(block, self._verdicts_so_far)
        return evaluations

    def prepare(self, samples: Sequence[Sample]) -> bool:
        """Let each judge answer all questions about these samples, and return True.

        A complete verdict may lead to more questions, so the judges take turns until none waits.
        """
        is_waiting = bool(samples)
        while is_waiting:
            order = self.jury.order
            for turn, place in enumerate(order):
                is_waiting = self._let_judge_answer(place, samples, order[turn + 1 :])
        return True

    def _let_judge_answer(
        self, place: int, samples: Sequence[Sample], later: Sequence[int]
    ) -> bool:
        """Let one judge answer, before the `later` ones.

        Returns whether a verdict then waits for another judge.
        """
        judge = self.jury.open(place)
        self._expected.begin_judge()
        self.progress.phase(self.jury.names[place])
        judging = Blocks(
            judge,
            self.store,
            self.metrics,
            self.settings,
            self.progress,
            self.earlier,
            place=place,
            expected=self._expected,
        )
        verdicts = partial(self._ask_judge, judging, later)
        is_waiting = False
        done = 0
        for block in blocks(samples, count_workers(judge.engine)):
            done += len(block)
            self._expected.share = done / len(samples)
            evaluations = self._evaluate(block, verdicts)
            is_waiting = is_waiting or _has_waiting_verdict(evaluations)
        self.asked += judging.asked
        return is_waiting

    def _ask_judge(
        self, judging: Blocks, later: Sequence[int], tasks: Sequence[TaskRef]
    ) -> list[Verdict | NoAnswer]:
        """Ask one judge, and return the jury's verdicts by the answers so far."""
        selected = self._select_tasks(tasks, judging.place)
        later_tasks = 0
        for place in later:
            later_tasks += len(self._select_tasks(tasks, place))
        self._expected.count_tasks(len(selected), later_tasks)
        judge_verdicts = judging.verdicts(selected)
        answers = self._answers_about(tasks)
        for task, verdict in zip(selected, judge_verdicts, strict=True):
            unit = task.asked(judging.place)
            if unit not in answers:  # decided without a question
                self._unasked[unit] = verdict
        return self._jury_verdicts(tasks, answers)

    def _select_tasks(self, tasks: Sequence[TaskRef], place: int) -> list[TaskRef]:
        return select_tasks(tasks, self.jury.names[place], self.rule)

    def _evaluate(
        self,
        block: Sequence[Sample],
        verdicts: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
    ) -> list[Evaluation]:
        return evaluate_samples(block, self.metrics, self.settings.sentences, verdicts)

    def _verdicts_so_far(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        return self._jury_verdicts(tasks, self._answers_about(tasks))

    def _answers_about(self, tasks: Sequence[TaskRef]) -> StoredAnswers:
        return self.store.answers_about(dict.fromkeys(task.sample_id for task in tasks))

    def _jury_verdicts(
        self, tasks: Sequence[TaskRef], answers: StoredAnswers
    ) -> list[Verdict | NoAnswer]:
        names = self.jury.names
        verdicts: list[Verdict | NoAnswer] = []
        for task in tasks:
            verdicts.append(stored_verdict(task, names, answers, self._unasked, self.rule))
        return verdicts


def _has_waiting_verdict(evaluations: Iterable[Evaluation]) -> bool:
    """Return whether a verdict waits for the answer of a judge."""
    for evaluation in evaluations:
        if any(unit.verdict is NOT_YET for unit in evaluation.units):
            return True
    return False


Judging = Blocks | JuryBlocks
"""The loop over the engines of one judge or several."""


def make_loop(
    jury: Jury,
    store: Store,
    metrics: Sequence[Metric],
    settings: RunSettings,
    progress: Progress,
    earlier: Sequence[EarlierAnswers] = (),
) -> Judging:
    """Return the loop over the engines of the judges."""
    if jury.is_single:
        return Blocks(jury.open(0), store, metrics, settings, progress, earlier)
    rule = jury.rule_for(metrics, settings, progress)
    return JuryBlocks(jury, store, metrics, settings, progress, rule, earlier)


def evaluations_in_memory(
    jury: Jury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    earlier: Sequence[EarlierAnswers],
) -> Callable[[Sequence[Sample]], Iterator[list[Evaluation]]]:
    """Return a function that evaluates samples without a store.

    All models of the jury must be open.
    """
    if jury.is_single:
        return Blocks(jury.open(0), None, metrics, settings, Progress(), earlier).evaluations
    rule = jury.rule_for(metrics, settings, Progress())
    loops: dict[str, Blocks] = {}
    for place, name in enumerate(jury.names):
        loops[name] = Blocks(jury.open(place), None, metrics, settings, Progress(), earlier)

    def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        # By sample, metric and position of a task, then by judge.
        parts: dict[tuple[str, str, int], dict[str, Verdict | NoAnswer]] = {}
        for name, judging in loops.items():
            selected = select_tasks(tasks, name, rule)
            for task, verdict in zip(selected, judging.verdicts(selected), strict=True):
                parts.setdefault(task[:3], {})[name] = verdict
        return [jury_verdict(parts[task[:3]], rule, task.metric) for task in tasks]

    def evaluate(samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        for block in blocks(samples):
            yield evaluate_samples(block, metrics, settings.sentences, verdicts)

    return evaluate
