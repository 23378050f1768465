"""Evaluate samples by answers. Every run, dry run, verification and certificate does it here.

    block of samples ──metrics──> tasks ──answers──> verdicts ──metrics──> outcomes, or more tasks

Metrics ask in rounds: all metrics ask together about a block, and again, until none has a question
left. The size and position of blocks change no byte. A SampleError makes its sample `Failed`; any
other error stops the run.

Where the answers come from:

    ModelAnswers      the store of the run, other runs, memory, then the models
    StoredAnswers     the store of a finished run
    RepeatedAnswers   the same, and the judge again
    NoAnswers         nowhere: the tasks that would be asked
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar, get_args

from localjudge import types
from localjudge.errors import SampleError
from localjudge.judging.questions import TaskRef
from localjudge.metrics import Metric, Sentences, Steps, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import guarded_steps
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.result_rows import Evaluation, VerdictRow, with_expected
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow, answers_of_units
from localjudge.run_directory.verdict_rule import NOT_YET, decide_verdict, jury_verdict
from localjudge.text.segmenter import judged_sentences
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRule

_FIRST_BLOCK = 16
_MAX_BLOCK = 256
_MAX_TIMES = 16
_Item = TypeVar("_Item")
_Rounds = Generator[list[TaskRef], list[Verdict | NoAnswer] | None, Evaluation]
"""Yields the tasks of each round, receives their verdicts, and returns the evaluation."""
Reply = Sequence[AskedWindow] | Verdict | NoAnswer
"""Windows with their answers so far, or a result without a question."""
Replies = Mapping[AskedUnit, Reply]
"""What each judge replied about each unit."""
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


def evaluate(
    samples: Iterable[Sample],
    metrics: Sequence[Metric],
    answers: Answers,
    sentences: Sentences,
) -> Iterator[list[Evaluation]]:
    """Yield the evaluations of each block, ordered by sample, then by metric."""
    cut = judged_sentences(sentences)
    for block in blocks(samples, answers.workers):
        answers.begin(block)
        cases: list[_Rounds] = []
        for sample in block:
            for metric in metrics:
                cases.append(_evaluate_in_rounds(sample, metric, cut, answers.rule))
        yield _advance_together(cases, answers)


def blocks(samples: Iterable[_Item], workers: int = 1) -> Iterator[list[_Item]]:
    """Yield the samples in growing blocks, so that the first results appear soon.

    Several workers get larger blocks, so that few of them are idle at the end of one.
    """
    rest = iter(samples)
    times = min(workers, _MAX_TIMES)
    size = _FIRST_BLOCK * times
    while block := list(islice(rest, size)):
        yield block
        size = min(2 * size, _MAX_BLOCK * times)


def _advance_together(cases: Sequence[_Rounds], answers: Answers) -> list[Evaluation]:
    """Answer the tasks of all cases together, round by round. Returns their evaluations."""
    evaluations: dict[int, Evaluation] = {}
    rounds: dict[int, list[TaskRef]] = {}

    def advance(case: int, verdicts: list[Verdict | NoAnswer] | None) -> None:
        try:
            rounds[case] = cases[case].send(verdicts)
        except StopIteration as finished:
            evaluations[case] = finished.value

    for case in range(len(cases)):
        advance(case, None)
    while rounds:
        asked = rounds
        rounds = {}
        verdicts = iter(answers.verdicts(list(chain.from_iterable(asked.values()))))
        for case, tasks in asked.items():
            advance(case, list(islice(verdicts, len(tasks))))
    return [evaluations[case] for case in range(len(cases))]


def _evaluate_in_rounds(
    sample: Sample, metric: Metric, sentences: Sentences, rule: VerdictRule
) -> _Rounds:
    rows: list[VerdictRow] = []
    steps = _start(metric, sample, sentences)
    try:
        tasks = next(steps)
        while True:
            refs: list[TaskRef] = []
            for position, task in enumerate(tasks, len(rows)):
                refs.append(TaskRef(sample.id, metric.name, position, task))
            verdicts: list[Verdict | NoAnswer] = []
            if refs:
                verdicts = (yield refs) or []
            for ref, verdict in zip(refs, verdicts, strict=True):
                unit = ref.task.unit
                rows.append(VerdictRow.of(sample.id, metric.name, len(rows), unit, verdict))
            errors = [verdict.error for verdict in verdicts if isinstance(verdict, NoAnswer)]
            if errors:
                missing = f"no verdict for {len(errors)} of {len(verdicts)} units"
                outcome: types.Outcome = types.Failed(reason=f"{missing}: {errors[0]}")
                break
            tasks = steps.send([each for each in verdicts if isinstance(each, Verdict)])
    except StopIteration as finished:
        outcome = finished.value
    except SampleError as error:
        outcome = types.Failed(reason=error.in_one_line)
    evaluation = Evaluation(sample.id, metric.name, outcome, tuple(rows))
    return with_expected(evaluation, metric, rule)


def _start(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """Run the steps of a metric, unless the sample lacks what it reads."""
    nulls: list[str] = []
    for field in get_args(types.FieldName):
        if field in metric.required_fields and getattr(sample, field) is None:
            nulls.append(f"{field} is null")
    if nulls:
        return types.Undefined(reason=" and ".join(nulls))
    without_texts: list[str] = []
    for field in types.CONTEXT_FIELDS:
        has_bare_ids = any(context.text is None for context in getattr(sample, field) or ())
        if field in catalog.fields_read_as_text(metric) and has_bare_ids:
            without_texts.append(f"{field} has ids and no texts")
    if without_texts:
        return types.Undefined(reason=" and ".join(without_texts))
    if catalog.is_ours(metric.name) or isinstance(metric, Criterion):
        return (yield from metric.steps(sample, sentences))
    return (yield from guarded_steps(metric, sample, sentences))
