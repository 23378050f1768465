"""From samples to verdicts: every metric on every sample, block by block; the one loop over an engine.

    block of samples ──metrics──> tasks ──wording──> questions ──stored? else the engine──> answers ──rule──> verdicts
          └── in rounds: all metrics ask together, and once more, until none has a question left

Memory does not grow with the data, and answers are stored the moment they are there: a run that was stopped asks only
what is missing. A question is a function of its own task, the judge and the engine's identity, so neither the size of
the blocks nor where they are cut moves a byte. (In the joint protocol statements of one sample are asked together.)
This is the only place where a sample may fail: an error that speaks of one sample becomes its `Failed`, anything else
stops the run. The rule that makes answers a verdict:

    p_yes        0.93   0.12          windows of one unit: it is supported if any of them supports it
    threshold    0.5                  -> 1, by window 0
    legal mass   0.99   0.0001        -> no verdict: of the second window, the model has not answered

The legal mass is the probability that the model gave to legal answers before all others were ruled out. What little a
model leaves there is noise, and the grammar would scale it up to a verdict like any other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol, get_args

from localjudge.engine.protocol import Engine, ParallelEngine
from localjudge.errors import SampleError
from localjudge.judge.windows import Windows
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Metric, Sentences, Steps, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.progress import Progress
from localjudge.record.cache import EarlierAnswers
from localjudge.record.result_rows import Evaluation, JudgedUnit
from localjudge.record.store import KeyedRequest, RequestKeys, TaskLink
from localjudge.run.judges import OpenJudge
from localjudge.text import Segmenter
from localjudge.types import (
    CONTEXT_FIELDS,
    Answer,
    Attribution,
    Failed,
    FieldName,
    NoAnswer,
    Node,
    Outcome,
    Sample,
    Span,
    Sufficiency,
    Task,
    Undefined,
    Verdict,
    VerdictRequest,
    VerdictRule,
)

NO_CONTEXT = Verdict(label=0)
_ROOM_FOR_SPECIAL_TOKENS = 64
_NODES_KEPT = 4096


class TaskRef(NamedTuple):
    """A task, and which unit of a sample it is about: `position` counts through that sample's verdicts."""

    sample_id: str
    metric: str
    position: int
    task: Task


class Question(NamedTuple):
    """What is asked about a task, or about one window of it; `window` is None for the whole task."""

    keyed: KeyedRequest
    window: int | None

    @property
    def key(self) -> str:
        """The key under which its answer is stored."""
        return self.keyed.key


Worded = tuple[Question, ...] | Verdict | NoAnswer
"""The questions of a task, at least one; or what follows without asking."""


class Wording:
    """Words the tasks of a judge for an engine; `identity` is what the keys say of the engine: its own if None."""

    def __init__(
        self, judge: PromptWriter, engine: Engine, sentences: Sentences, *, identity: Mapping[str, Any] | None = None
    ) -> None:
        self._judge = judge
        self._engine = engine
        self._sentences = sentences
        self._keys = RequestKeys(engine.identity if identity is None else identity)

    @property
    def shapes(self) -> Set[str]:
        """Shapes of the answers to all questions so far, as JSON."""
        return self._keys.shapes

    def worded(self, tasks: Sequence[TaskRef]) -> list[Worded]:
        """What each task comes to; a judge may word the tasks of one metric on one sample together."""
        return [
            worded
            for _, group in groupby(tasks, key=lambda asked: (asked.sample_id, asked.metric))
            for worded in self._worded_together([asked.task for asked in group])
        ]

    def _worded_together(self, tasks: Sequence[Task]) -> list[Worded]:
        try:
            questions = iter(self._questions([task for task in tasks if not _has_no_context(task)]))
        except SampleError as error:
            return [NoAnswer(error=error.in_one_line)] * len(tasks)
        return [NO_CONTEXT if _has_no_context(task) else next(questions) for task in tasks]

    def _questions(self, tasks: Sequence[Task]) -> list[tuple[Question, ...]]:
        """The questions of each task, one for each window: most tasks fit, and are not tokenised to find that out."""
        whole = self._judge.requests(tasks)
        if all(map(self._surely_fits, whole)):
            return [(Question(self._keys.keyed(request), None),) for request in whole]
        cut = Windows(
            cost=lambda task: self._engine.length(self._judge.request(task)),
            capacity=self._engine.capacity,
            sentences=self._sentences,
        )
        windows = [cut.of(task) for task in tasks]
        requests = iter(self._judge.requests([window.task for of_task in windows for window in of_task]))
        return [
            tuple(Question(self._keys.keyed(next(requests)), window.number) for window in of_task)
            for of_task in windows
        ]

    def _surely_fits(self, request: VerdictRequest) -> bool:
        """Whether the number of bytes alone proves it: a token is a byte or more."""
        size = sum(map(_bytes, request.path))
        size += len(request.path) + len(request.grammar.pattern) + request.grammar.reason_tokens
        return size + _ROOM_FOR_SPECIAL_TOKENS <= self._engine.capacity


def distinct(worded: Sequence[Worded]) -> dict[str, KeyedRequest]:
    """The different requests among the questions, by their keys, in the order in which they first appear."""
    return {
        question.key: question.keyed for questions in worded if isinstance(questions, tuple) for question in questions
    }


@lru_cache(maxsize=_NODES_KEPT)
def _bytes(node: Node) -> int:
    """Length of its text in UTF-8. Remembered: requests share most of their nodes."""
    return sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in node)


def _has_no_context(task: Task) -> bool:
    return isinstance(task, Attribution | Sufficiency) and not any(context.strip() for context in task.contexts)


def ask(
    engine: Engine,
    requests: Mapping[str, VerdictRequest],
    progress: Progress,
    on_answer: Callable[[str, Answer | NoAnswer], object] = lambda _key, _answer: None,
) -> dict[str, Answer | NoAnswer]:
    """Ask an engine for the answer to each request, known by its key; `on_answer` gets each the moment it is there.

    The caller, who knows the whole work, tells the progress how many are going to be asked.
    """
    keys = list(requests)
    answers: dict[str, Answer | NoAnswer] = {}
    for index, answer in engine.answers(list(requests.values())):
        answers[keys[index]] = answer
        on_answer(keys[index], answer)
        progress.advance()
    return answers


def answers_in_order(engine: Engine, requests: Sequence[VerdictRequest], progress: Progress) -> list[Answer | NoAnswer]:
    """One answer for each request, in their order."""
    answers = ask(engine, {str(place): request for place, request in enumerate(requests)}, progress)
    return [answers[str(place)] for place in range(len(requests))]


def verdict_of(answers: Sequence[tuple[Answer | NoAnswer, int | None]], rule: VerdictRule) -> Verdict | NoAnswer:
    """The verdict on a unit from the answers about its windows, at least one; the first reason why there is none.

    Each answer stands with the number of its window, which is None where the unit was asked about whole.
    """
    legal: list[tuple[Answer, int | None]] = []
    for answer, window in answers:
        if isinstance(answer, NoAnswer):
            return answer
        if answer.legal_mass < rule.min_legal_mass:
            return NoAnswer(
                error=f"the model did not answer: it gave legal answers {answer.legal_mass:.2g} of its probability, "
                f"less than {rule.min_legal_mass:g} (min_legal_mass)",
                legal_mass=answer.legal_mass,
            )
        legal.append((answer, window))
    best, window = max(legal, key=lambda pair: pair[0].p_yes)
    return Verdict(
        label=1 if best.p_yes >= rule.threshold else 0,
        p_yes=best.p_yes,
        legal_mass=best.legal_mass,
        reason=best.reason,
        window=window,
    )


def verdicts_of(
    tasks: Sequence[TaskRef], worded: Sequence[Worded], answers: Mapping[str, Answer | NoAnswer], rule: VerdictRule
) -> list[Verdict | NoAnswer]:
    """One verdict for each task, in their order, as it was worded; every question has its answer."""
    return [
        verdict_of([(answers[question.key], question.window) for question in questions], rule.of(task.metric))
        if isinstance(questions, tuple)
        else questions
        for task, questions in zip(tasks, worded, strict=True)
    ]


_CUTS_KEPT = 4096


def evaluate_samples(
    samples: Sequence[Sample],
    metrics: Sequence[Metric],
    sentences: Sentences,
    ask: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
) -> list[Evaluation]:
    """All metrics on all samples, in the order of the samples, then of the metrics.

    Of the sentences count those that say something: a line of dashes has no letter and no digit. They are remembered,
    because several metrics cut the same text and many samples retrieve the same passage.
    """

    @lru_cache(maxsize=_CUTS_KEPT)
    def cut(text: str) -> tuple[Span, ...]:
        return tuple(span for span in sentences(text) if any(map(str.isalnum, span.text)))

    cases = [_Case(sample, metric, cut) for sample in samples for metric in metrics]
    while waiting := [case for case in cases if case.tasks]:
        verdicts = iter(ask([asked for case in waiting for asked in case.asked_tasks()]))
        for case in waiting:
            case.advance([next(verdicts) for _ in case.tasks])
    return [case.result() for case in cases]


class _Case:
    """One metric on one sample, in progress: `tasks` is what it wants to know next, nothing once it has an outcome."""

    def __init__(self, sample: Sample, metric: Metric, sentences: Sentences) -> None:
        self._sample = sample
        self._metric = metric
        self._steps = _steps(sample, metric, sentences)
        self._units: list[JudgedUnit] = []
        self._outcome: Outcome | None = None
        self.tasks: Sequence[Task] = ()
        self._step(None)

    def asked_tasks(self) -> list[TaskRef]:
        """The tasks with their positions among the sample's verdicts."""
        first = len(self._units)
        return [
            TaskRef(self._sample.id, self._metric.name, position, task)
            for position, task in enumerate(self.tasks, first)
        ]

    def advance(self, verdicts: Sequence[Verdict | NoAnswer]) -> None:
        """Hand the metric its verdicts, or fail where one is missing."""
        self._units += [JudgedUnit(task.unit, verdict) for task, verdict in zip(self.tasks, verdicts, strict=True)]
        errors = [verdict.error for verdict in verdicts if isinstance(verdict, NoAnswer)]
        if errors:
            self.tasks = ()
            self._outcome = Failed(reason=f"no verdict for {len(errors)} of {len(verdicts)} units: {errors[0]}")
        else:
            self._step([verdict for verdict in verdicts if isinstance(verdict, Verdict)])

    def result(self) -> Evaluation:
        """What came of it."""
        assert self._outcome is not None, "a case that asks nothing more has an outcome"
        return Evaluation(self._sample.id, self._metric.name, self._outcome, tuple(self._units))

    def _step(self, verdicts: Sequence[Verdict] | None) -> None:
        self.tasks = ()
        try:
            tasks = next(self._steps) if verdicts is None else self._steps.send(verdicts)
            while not tasks:
                tasks = self._steps.send([])
            self.tasks = tasks
        except StopIteration as finished:
            self._outcome = finished.value
        except SampleError as error:
            self._outcome = Failed(reason=error.in_one_line)


def _steps(sample: Sample, metric: Metric, sentences: Sentences) -> Steps:
    """The metric's own steps, guarded if it is not ours; a field that it needs and lacks ends them at once."""
    nulls = [
        field for field in get_args(FieldName) if field in metric.required_fields and getattr(sample, field) is None
    ]
    if nulls:
        return Undefined(reason=" and ".join(f"{field} is null" for field in nulls))
    bare = [
        field
        for field in CONTEXT_FIELDS
        if field in catalog.reads_texts_of(metric) and any(context.text is None for context in getattr(sample, field))
    ]
    if bare:
        return Undefined(reason=" and ".join(f"{field} has ids and no texts" for field in bare))
    if catalog.is_ours(metric.name) or isinstance(metric, Criterion):
        return (yield from metric.steps(sample, sentences))
    return (yield from catalog.guarded_steps(metric, sample, sentences))


_FIRST_BLOCK, _LARGEST_BLOCK = 16, 256
_MOST_AT_ONCE = 64
"""Blocks grow with the workers of an engine, up to so many times: then they hold 16,384 samples."""


class AnswerStore(Protocol):
    """Where answers go the moment they are there, and are looked for first: `Store`, or the memory of an open judge."""

    def answers_to(self, keys: Iterable[str]) -> Mapping[str, Answer | NoAnswer]:
        """The answers to the questions with these keys, as far as there are any."""

    def add_requests(self, requests: Mapping[str, KeyedRequest], askings: Iterable[TaskLink]) -> None:
        """Note what is asked, and by which units."""

    def add_reused(self, answers: Mapping[str, Answer], source: str) -> None:
        """Take over answers that were given elsewhere."""

    def add_answer(self, request_key: str, answer: Answer | NoAnswer) -> None:
        """Take an answer that was just given."""


class Blocks:
    """Judges the samples of a run block by block."""

    def __init__(
        self,
        judge: OpenJudge,
        store: AnswerStore,
        metrics: Sequence[Metric],
        segmenter: Segmenter,
        rule: VerdictRule,
        progress: Progress,
        earlier: Sequence[EarlierAnswers] = (),
    ) -> None:
        self._engine = judge.engine
        self._wording = Wording(judge.judge, judge.engine, segmenter)
        self._earlier = earlier
        self._store = store
        self._metrics = metrics
        self._segmenter = segmenter
        self._rule = rule
        self._progress = progress
        self._share = 1.0
        self._certain = self._expected = 0
        self.asked = 0
        """Questions that an engine was asked; answers that were known are not counted."""

    def evaluations(self, samples: Iterable[Sample], count: int) -> Iterator[list[Evaluation]]:
        """Every metric on every sample, of which `count` are in the data, in their order, then that of the metrics."""
        engine, done = self._engine, 0
        for block in blocks(samples, lambda: engine.works_at_once if isinstance(engine, ParallelEngine) else 1):
            done += len(block)
            self._share = done / count
            yield evaluate_samples(block, self._metrics, self._segmenter, self.verdicts)

    def _expect(self, more: int, answered: int) -> None:
        """So many questions more are certain; how many there will be, by the share of the data that these come from."""
        self._certain += more
        expected = round(self._certain / self._share)
        self._progress.expect(expected - self._expected)
        self._expected = expected
        if answered:
            self._progress.recall(answered)

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """One verdict for each task, in their order; what is not known is asked."""
        worded = self._wording.worded(tasks)
        questions = distinct(worded)
        askings = (
            TaskLink(task.sample_id, task.metric, task.position, question.window or 0, question.key)
            for task, of_task in zip(tasks, worded, strict=True)
            if isinstance(of_task, tuple)
            for question in of_task
        )
        stored = dict(self._store.answers_to(questions))
        self._store.add_requests(questions, askings)
        for earlier in self._earlier:
            answers = earlier.answers_to([key for key in questions if key not in stored])
            self._store.add_reused(answers, earlier.name)
            stored |= answers
        self._expect(len(questions), len(stored))

        def keep(key: str, answer: Answer | NoAnswer) -> None:
            self._store.add_answer(key, answer)
            for earlier in self._earlier:
                earlier.keep(key, answer)

        requests = {key: keyed.request for key, keyed in questions.items() if key not in stored}
        asked = ask(self._engine, requests, self._progress, on_answer=keep)
        self.asked += len(asked)
        return verdicts_of(tasks, worded, stored | asked, self._rule)


def blocks(samples: Iterable[Sample], at_once: Callable[[], int] = lambda: 1) -> Iterator[list[Sample]]:
    """The samples in blocks that grow: a small one first, so that there is soon something to see.

    An engine that works on several requests at once gets so many times as many samples: at the end of each block some
    of its workers have nothing to do.
    """
    rest = iter(samples)
    size = _FIRST_BLOCK
    while block := list(islice(rest, size * min(at_once(), _MOST_AT_ONCE))):
        yield block
        size = min(2 * size, _LARGEST_BLOCK)
