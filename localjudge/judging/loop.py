"""Turn samples into verdicts, block by block. This is the only loop over an engine.

    block of samples ──metrics──> tasks ──wording──> questions ──stored? else the engine──> answers
    ──rule──> verdicts
          └── in rounds: all metrics ask together, and again, until no metric has a question left

The size and position of blocks change no byte. A SampleError makes its sample `Failed`; any other
error stops the run.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, NamedTuple, TypeVar, get_args

from localjudge import types
from localjudge.engine.protocol import Engine
from localjudge.errors import SampleError
from localjudge.judge.windows import Windows
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric, Sentences, Steps, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.progress import Progress
from localjudge.run_directory.result_rows import Evaluation, JudgedUnit
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import KeyedRequest, RequestKeys, Store, TaskLink
from localjudge.text.judged_sentences import JudgedSentences
from localjudge.types import Answer, NoAnswer, Sample, Task, Verdict, VerdictRequest, VerdictRule

NO_CONTEXT = Verdict(label=0)
_ROOM_FOR_SPECIAL_TOKENS = 64
_DIGEST_BYTES = 16
_NODES_KEPT = 4096
_FIRST_BLOCK, _LARGEST_BLOCK = 16, 256

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


def digest(key: str) -> bytes:
    """Shorten a key: 1,000,000 take about 100 MB."""
    return bytes.fromhex(key)[:_DIGEST_BYTES]


class TaskRef(NamedTuple):
    """A task of a metric on a sample. `position` counts its verdicts."""

    sample_id: str
    metric: str
    position: int
    task: Task


Question = tuple[KeyedRequest, int | None]
"""A request with the number of its window, or None for the whole task."""
Worded = tuple[Question, ...] | Verdict | NoAnswer
"""The questions of a task, or its result without asking."""


class Wording:
    """Turn tasks into requests. The keys contain the `identity`, by default the engine's."""

    def __init__(
        self,
        judge: LoadedJudge,
        sentences: Sentences,
        *,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        self._prompts, self._engine, self._sentences = judge.prompts, judge.engine, sentences
        self.keys = RequestKeys(self._engine.identity if identity is None else identity)

    def worded(self, tasks: Sequence[TaskRef]) -> list[Worded]:
        worded: list[Worded] = []
        for _, group in groupby(tasks, key=lambda task: (task.sample_id, task.metric)):
            together = [ref.task for ref in group]
            try:
                questions = iter(
                    self._questions([task for task in together if not _has_no_context(task)])
                )
                worded += [
                    NO_CONTEXT if _has_no_context(task) else next(questions) for task in together
                ]
            except SampleError as error:
                worded += [NoAnswer(error=error.in_one_line)] * len(together)
        return worded

    def _questions(self, tasks: Sequence[Task]) -> list[tuple[Question, ...]]:
        whole = self._prompts.requests(tasks)
        if all(map(self._surely_fits, whole)):
            return [((self.keys.keyed(request), None),) for request in whole]
        cut = Windows(
            cost=lambda task: self._engine.length(self._prompts.request(task)),
            capacity=self._prompts.window_capacity(self._engine.capacity),
            sentences=self._sentences,
            overlap=self._prompts.overlap,
        )
        windows = [cut.split(task) for task in tasks]
        requests = iter(
            self._prompts.requests([window.task for of_task in windows for window in of_task])
        )
        return [
            tuple((self.keys.keyed(next(requests)), window.number) for window in of_task)
            for of_task in windows
        ]

    def _surely_fits(self, request: VerdictRequest) -> bool:
        """Compare bytes instead of tokens: a token has at least one byte."""
        size = sum(map(_bytes, request.path))
        size += len(request.path) + len(request.grammar.pattern) + request.grammar.reason_tokens
        return size + _ROOM_FOR_SPECIAL_TOKENS <= self._prompts.window_capacity(
            self._engine.capacity
        )


def distinct(worded: Iterable[Worded]) -> dict[str, KeyedRequest]:
    return {
        keyed.key: keyed
        for questions in worded
        if isinstance(questions, tuple)
        for keyed, _ in questions
    }


@lru_cache(maxsize=_NODES_KEPT)
def _bytes(node: types.Node) -> int:
    return sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in node)


def _has_no_context(task: Task) -> bool:
    return isinstance(task, types.Attribution | types.Sufficiency) and not any(
        map(str.strip, task.contexts)
    )


def ask(
    engine: Engine,
    requests: Mapping[_Key, VerdictRequest],
    progress: Progress,
    on_answer: Callable[[_Key, Answer | NoAnswer], object] = lambda _key, _answer: None,
) -> dict[_Key, Answer | NoAnswer]:
    """Return the engine's answers by key. `on_answer` receives each as soon as it arrives."""
    keys = list(requests)
    answers: dict[_Key, Answer | NoAnswer] = {}
    for index, answer in engine.answers(list(requests.values())):
        answers[keys[index]] = answer
        on_answer(keys[index], answer)
        progress.advance()
    return answers


def answers_in_order(
    engine: Engine, requests: Sequence[VerdictRequest], progress: Progress
) -> list[Answer | NoAnswer]:
    answers = ask(engine, dict(enumerate(requests)), progress)
    return [answers[place] for place in range(len(requests))]


def verdict_of(
    answers: Sequence[tuple[Answer | NoAnswer, int | None]], rule: VerdictRule
) -> Verdict | NoAnswer:
    """Return the verdict from the answers about a unit's windows: supported if any window supports it."""
    valid: list[tuple[Answer, int | None]] = []
    for answer, window in answers:
        if isinstance(answer, NoAnswer):
            return answer
        if answer.valid_mass < rule.min_valid_mass:
            mass = f"{answer.valid_mass:.2g} of its probability, less than {rule.min_valid_mass:g} (min_valid_mass)"
            error = f"the model did not answer: it gave valid answers {mass}"
            return NoAnswer(error=error, valid_mass=answer.valid_mass)
        valid.append((answer, window))
    best, window = max(valid, key=lambda pair: pair[0].p_yes)
    label: types.Label = 1 if best.p_yes >= rule.threshold else 0
    return Verdict(
        label=label,
        p_yes=best.p_yes,
        valid_mass=best.valid_mass,
        reason=best.reason,
        window=window,
    )


def verdicts_of(
    tasks: Sequence[TaskRef],
    worded: Sequence[Worded],
    answers: Mapping[str, Answer | NoAnswer],
    rule: VerdictRule,
) -> list[Verdict | NoAnswer]:
    return [
        verdict_of(
            [(answers[keyed.key], window) for keyed, window in questions], rule.of(task.metric)
        )
        if isinstance(questions, tuple)
        else questions
        for task, questions in zip(tasks, worded, strict=True)
    ]


def evaluate_samples(
    samples: Sequence[Sample],
    metrics: Sequence[Metric],
    sentences: Sentences,
    ask: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
) -> list[Evaluation]:
    """Evaluate all metrics on all samples, ordered by sample, then by metric."""
    cut = JudgedSentences(sentences)
    cases = [_rounds(sample, metric, cut) for sample in samples for metric in metrics]
    evaluations: dict[int, Evaluation] = {}

    def advance(place: int, verdicts: list[Verdict | NoAnswer]) -> list[TaskRef]:
        try:
            return cases[place].send(verdicts or None)
        except StopIteration as finished:
            evaluations[place] = finished.value
            return []

    rounds = {place: advance(place, []) for place in range(len(cases))}
    while rounds := {place: tasks for place, tasks in rounds.items() if tasks}:
        verdicts = iter(ask([task for tasks in rounds.values() for task in tasks]))
        rounds = {
            place: advance(place, list(islice(verdicts, len(tasks))))
            for place, tasks in rounds.items()
        }
    return [evaluations[place] for place in range(len(cases))]


def _rounds(
    sample: Sample, metric: Metric, sentences: Sentences
) -> Generator[list[TaskRef], list[Verdict | NoAnswer] | None, Evaluation]:
    units: list[JudgedUnit] = []
    steps = _steps(sample, metric, sentences)
    try:
        tasks = next(steps)
        while True:
            refs = [
                TaskRef(sample.id, metric.name, place, task)
                for place, task in enumerate(tasks, len(units))
            ]
            verdicts = ((yield refs) or []) if refs else []
            units += [
                JudgedUnit(task.unit, verdict)
                for task, verdict in zip(tasks, verdicts, strict=True)
            ]
            if errors := [verdict.error for verdict in verdicts if isinstance(verdict, NoAnswer)]:
                outcome = types.Failed(
                    reason=f"no verdict for {len(errors)} of {len(verdicts)} units: {errors[0]}",
                )
                return Evaluation(sample.id, metric.name, outcome, tuple(units))
            tasks = steps.send([verdict for verdict in verdicts if isinstance(verdict, Verdict)])
    except StopIteration as finished:
        return Evaluation(sample.id, metric.name, finished.value, tuple(units))
    except SampleError as error:
        return Evaluation(
            sample.id, metric.name, types.Failed(reason=error.in_one_line), tuple(units)
        )


def _steps(sample: Sample, metric: Metric, sentences: Sentences) -> Steps:
    required = [field for field in get_args(types.FieldName) if field in metric.required_fields]
    if nulls := [f"{field} is null" for field in required if getattr(sample, field) is None]:
        return types.Undefined(reason=" and ".join(nulls))
    read = [field for field in types.CONTEXT_FIELDS if field in catalog.fields_read_as_text(metric)]
    if bare := [
        field for field in read if any(context.text is None for context in getattr(sample, field))
    ]:
        return types.Undefined(
            reason=" and ".join(f"{field} has ids and no texts" for field in bare)
        )
    if catalog.is_ours(metric.name) or isinstance(metric, Criterion):
        return (yield from metric.steps(sample, sentences))
    return (yield from catalog.guarded_steps(metric, sample, sentences))


@dataclass
class Blocks:
    """Judge samples in blocks. Takes known answers from the store and the `earlier` sources."""

    judge: LoadedJudge
    store: Store | None
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    earlier: Sequence[EarlierAnswers] = ()
    watch: Callable[[VerdictRequest], object] = lambda _request: None
    """Called after each answer is stored."""
    place: int = 0
    """Number of the judge in a jury."""
    asked: int = 0

    def __post_init__(self) -> None:
        self._sentences, self._rule = self.settings.sentences, self.settings.rule_for(self.metrics)
        self._wording = Wording(self.judge, self._sentences)
        self._share, self._certain, self._expected = 1.0, 0, 0

    def evaluations(self, samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        done = 0
        for block in blocks(samples):
            done += len(block)
            yield self.evaluate(block, done / len(samples))

    def prepare(self, samples: Sequence[Sample]) -> None:
        """Do nothing: a single judge has no turns to take."""

    def evaluate(self, block: Sequence[Sample], share: float) -> list[Evaluation]:
        return self.judge_with(self.verdicts, block, share)

    def judge_with(
        self,
        verdicts: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
        block: Sequence[Sample],
        share: float,
    ) -> list[Evaluation]:
        """Evaluate a block, which completes this `share` of all samples, with these verdicts."""
        self._share = share
        return evaluate_samples(block, self.metrics, self._sentences, verdicts)

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        worded = self._wording.worded(tasks)
        questions = distinct(worded)
        answers: dict[str, Answer | NoAnswer] = {}
        if self.store:
            answers |= self.store.answers_to(questions)
            self.store.add_requests(questions, _links(tasks, worded, self.place))
        for earlier in self.earlier:
            reused = earlier.answers_to([key for key in questions if key not in answers])
            if self.store:
                self.store.add_answers(reused, earlier.name)
            answers |= reused
        self._certain += len(questions)
        expected = round(self._certain / self._share)
        self.progress.expect(expected - self._expected, counted=self._share == 1)
        self._expected = expected
        if answers:
            self.progress.recall(len(answers))
        requests = {key: keyed.request for key, keyed in questions.items() if key not in answers}
        self.asked += len(requests)

        def keep(key: str, answer: Answer | NoAnswer) -> None:
            self._keep(key, answer)
            self.watch(requests[key])

        answers |= ask(self.judge.engine, requests, self.progress, on_answer=keep)
        return verdicts_of(tasks, worded, answers, self._rule)

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if self.store:
            self.store.add_answers({key: answer})
        for earlier in self.earlier:
            earlier.keep(key, answer)


def _links(tasks: Sequence[TaskRef], worded: Sequence[Worded], judge: int) -> Iterator[TaskLink]:
    for task, questions in zip(tasks, worded, strict=True):
        for keyed, window in questions if isinstance(questions, tuple) else ():
            yield TaskLink(
                task.sample_id, task.metric, task.position, judge, window or 0, keyed.key
            )


def blocks(samples: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield the samples in growing blocks, so that the first results appear soon."""
    rest = iter(samples)
    size = _FIRST_BLOCK
    while block := list(islice(rest, size)):
        yield block
        size = min(2 * size, _LARGEST_BLOCK)
