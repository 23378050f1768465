"""Turn samples into verdicts, block by block. This is the only loop over an engine.

    block of samples ──metrics──> tasks ──wording──> questions ──stored? else the engine──> answers
          │                                                        answers ──rule──> verdicts
          └── in rounds: all metrics ask together, and again, until no metric has a question left

The size and position of blocks change no byte. A SampleError makes its sample `Failed`; any other
error stops the run.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby, islice
from typing import Any, NamedTuple, TypeVar, get_args

from localjudge import types
from localjudge.engine.protocol import Engine
from localjudge.errors import SampleError
from localjudge.judge.windows import Windows
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric, Sentences, Steps, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.foreign import guarded_steps
from localjudge.progress import Progress
from localjudge.run_directory.result_rows import Evaluation, JudgedUnit
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import AskedUnit, KeyedRequest, RequestKeys, Store, TaskLink
from localjudge.text.judged_sentences import JudgedSentences
from localjudge.types import Answer, NoAnswer, Sample, Task, Verdict, VerdictRequest, VerdictRule

NO_CONTEXT = Verdict(label=0)
_ROOM_FOR_SPECIAL_TOKENS = 64
_DIGEST_BYTES = 16
_CACHED_NODES = 4096
_FIRST_BLOCK = 16
_MAX_BLOCK = 256

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

    def asked(self, judge: int) -> AskedUnit:
        """Return the unit about which the judge with this number is asked."""
        return AskedUnit(self.sample_id, self.metric, self.position, judge)


Question = tuple[KeyedRequest, int | None]
"""A request with the number of its window, or None for the whole task."""
WordedTask = tuple[Question, ...] | Verdict | NoAnswer
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
        self._prompts = judge.prompts
        self._engine = judge.engine
        self._sentences = sentences
        if identity is None:
            identity = judge.engine.identity
        self.keys = RequestKeys(identity)

    def word(self, tasks: Sequence[TaskRef]) -> list[WordedTask]:
        """Return the questions of each task. Tasks of a metric on a sample are worded together."""
        worded: list[WordedTask] = []
        for _, refs in groupby(tasks, key=lambda ref: (ref.sample_id, ref.metric)):
            worded += self._word_together([ref.task for ref in refs])
        return worded

    def _word_together(self, tasks: Sequence[Task]) -> list[WordedTask]:
        asked = [task for task in tasks if not _lacks_context(task)]
        try:
            questions = iter(self._make_questions(asked))
        except SampleError as error:
            return [NoAnswer(error=error.in_one_line)] * len(tasks)
        worded: list[WordedTask] = []
        for task in tasks:
            if _lacks_context(task):
                worded.append(NO_CONTEXT)
            else:
                worded.append(next(questions))
        return worded

    def _make_questions(self, tasks: Sequence[Task]) -> list[tuple[Question, ...]]:
        requests = self._prompts.requests(tasks)
        if all(map(self._surely_fits, requests)):
            return [((self.keys.keyed(request), None),) for request in requests]
        return self._ask_by_windows(tasks)

    def _ask_by_windows(self, tasks: Sequence[Task]) -> list[tuple[Question, ...]]:
        """Cut the contexts of long tasks into windows, and ask about each window."""
        cut = Windows(
            cost=lambda task: self._engine.length(self._prompts.request(task)),
            capacity=self._prompts.window_capacity(self._engine.capacity),
            sentences=self._sentences,
            overlap=self._prompts.overlap,
        )
        windows = [cut.split(task) for task in tasks]
        shown = [window.task for window in chain.from_iterable(windows)]
        requests = iter(self._prompts.requests(shown))
        questions: list[tuple[Question, ...]] = []
        for windows_of_task in windows:
            questions_of_task: list[Question] = []
            for window in windows_of_task:
                questions_of_task.append((self.keys.keyed(next(requests)), window.number))
            questions.append(tuple(questions_of_task))
        return questions

    def _surely_fits(self, request: VerdictRequest) -> bool:
        """Compare bytes instead of tokens: a token has at least one byte."""
        size = sum(map(_count_bytes, request.path))
        size += len(request.path) + len(request.grammar.pattern) + request.grammar.reason_tokens
        capacity = self._prompts.window_capacity(self._engine.capacity)
        return size + _ROOM_FOR_SPECIAL_TOKENS <= capacity


def distinct(worded: Iterable[WordedTask]) -> dict[str, KeyedRequest]:
    """Return each request once, by its key."""
    requests: dict[str, KeyedRequest] = {}
    for questions in worded:
        if isinstance(questions, tuple):
            for keyed, _ in questions:
                requests[keyed.key] = keyed
    return requests


@lru_cache(maxsize=_CACHED_NODES)
def _count_bytes(node: types.Node) -> int:
    return sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in node)


def _lacks_context(task: Task) -> bool:
    """Return whether a task about contexts has no text in them."""
    if not isinstance(task, types.Attribution | types.Sufficiency):
        return False
    return not any(map(str.strip, task.contexts))


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
    """Return the engine's answers in the order of the requests."""
    answers = ask(engine, dict(enumerate(requests)), progress)
    return [answers[place] for place in range(len(requests))]


def decide_verdict(
    answers: Sequence[tuple[Answer | NoAnswer, int | None]], rule: VerdictRule
) -> Verdict | NoAnswer:
    """Return the verdict from the answers about a unit's windows.

    The unit is supported if any window supports it.
    """
    valid: list[tuple[Answer, int | None]] = []
    for answer, window in answers:
        if isinstance(answer, NoAnswer):
            return answer
        if answer.valid_mass < rule.min_valid_mass:
            mass = f"{answer.valid_mass:.2g} of its probability"
            limit = f"less than {rule.min_valid_mass:g} (min_valid_mass)"
            error = f"the model did not answer: it gave valid answers {mass}, {limit}"
            return NoAnswer(error=error, valid_mass=answer.valid_mass)
        valid.append((answer, window))
    best, window = max(valid, key=lambda pair: pair[0].p_yes)
    return Verdict(
        label=decide_label(best.p_yes, rule),
        p_yes=best.p_yes,
        valid_mass=best.valid_mass,
        reason=best.reason,
        window=window,
    )


def decide_label(p_yes: float, rule: VerdictRule) -> types.Label:
    if p_yes >= rule.threshold:
        return 1
    return 0


def decide_verdicts(
    tasks: Sequence[TaskRef],
    worded: Sequence[WordedTask],
    answers: Mapping[str, Answer | NoAnswer],
    rule: VerdictRule,
) -> list[Verdict | NoAnswer]:
    """Return the verdict of each task from the answers by key."""
    verdicts: list[Verdict | NoAnswer] = []
    for task, questions in zip(tasks, worded, strict=True):
        if isinstance(questions, tuple):
            parts = [(answers[keyed.key], window) for keyed, window in questions]
            verdicts.append(decide_verdict(parts, rule.for_metric(task.metric)))
        else:
            verdicts.append(questions)
    return verdicts


_Rounds = Generator[list[TaskRef], list[Verdict | NoAnswer] | None, Evaluation]
"""Yields the tasks of each round, receives their verdicts, and returns the evaluation."""


def evaluate_samples(
    samples: Sequence[Sample],
    metrics: Sequence[Metric],
    sentences: Sentences,
    ask: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
) -> list[Evaluation]:
    """Evaluate all metrics on all samples, ordered by sample, then by metric."""
    cut = JudgedSentences(sentences)
    cases: list[_Rounds] = []
    for sample in samples:
        cases += [_evaluate_in_rounds(sample, metric, cut) for metric in metrics]
    evaluations: dict[int, Evaluation] = {}
    rounds: dict[int, list[TaskRef]] = {}

    def advance(place: int, verdicts: list[Verdict | NoAnswer] | None) -> None:
        try:
            rounds[place] = cases[place].send(verdicts)
        except StopIteration as finished:
            evaluations[place] = finished.value

    for place in range(len(cases)):
        advance(place, None)
    while rounds:
        asked = rounds
        rounds = {}
        verdicts = iter(ask(list(chain.from_iterable(asked.values()))))
        for place, tasks in asked.items():
            advance(place, list(islice(verdicts, len(tasks))))
    return [evaluations[place] for place in range(len(cases))]


def _evaluate_in_rounds(sample: Sample, metric: Metric, sentences: Sentences) -> _Rounds:
    units: list[JudgedUnit] = []

    def conclude(outcome: types.Outcome) -> Evaluation:
        return Evaluation(sample.id, metric.name, outcome, tuple(units))

    steps = _start(metric, sample, sentences)
    try:
        tasks = next(steps)
        while True:
            refs = _refer_to(tasks, sample, metric, len(units))
            verdicts: list[Verdict | NoAnswer] = []
            if refs:
                verdicts = (yield refs) or []
            for task, verdict in zip(tasks, verdicts, strict=True):
                units.append(JudgedUnit(task.unit, verdict))
            answered: list[Verdict] = []
            errors: list[str] = []
            for verdict in verdicts:
                if isinstance(verdict, NoAnswer):
                    errors.append(verdict.error)
                else:
                    answered.append(verdict)
            if errors:
                missing = f"no verdict for {len(errors)} of {len(verdicts)} units"
                return conclude(types.Failed(reason=f"{missing}: {errors[0]}"))
            tasks = steps.send(answered)
    except StopIteration as finished:
        return conclude(finished.value)
    except SampleError as error:
        return conclude(types.Failed(reason=error.in_one_line))


def _refer_to(
    tasks: Iterable[Task], sample: Sample, metric: Metric, first_position: int
) -> list[TaskRef]:
    refs: list[TaskRef] = []
    for position, task in enumerate(tasks, first_position):
        refs.append(TaskRef(sample.id, metric.name, position, task))
    return refs


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
        if field in catalog.fields_read_as_text(metric) and _has_bare_ids(sample, field):
            without_texts.append(f"{field} has ids and no texts")
    if without_texts:
        return types.Undefined(reason=" and ".join(without_texts))
    if catalog.is_ours(metric.name) or isinstance(metric, Criterion):
        return (yield from metric.steps(sample, sentences))
    return (yield from guarded_steps(metric, sample, sentences))


def _has_bare_ids(sample: Sample, field: types.FieldName) -> bool:
    return any(context.text is None for context in getattr(sample, field))


@dataclass
class Blocks:
    """Judge samples in blocks.

    Takes known answers from the store and the `earlier` sources. `watch` is called after each
    answer is stored. `place` is the number of the judge in a jury.
    """

    judge: LoadedJudge
    store: Store | None
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    earlier: Sequence[EarlierAnswers] = ()
    watch: Callable[[VerdictRequest], object] = lambda _request: None
    place: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        self._sentences = self.settings.sentences
        self._rule = self.settings.rule_for(self.metrics)
        self._wording = Wording(self.judge, self._sentences)
        self._share = 1.0
        self._questions = 0
        self._expected = 0

    def evaluations(self, samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        """Yield the evaluations of each block."""
        done = 0
        for block in blocks(samples):
            done += len(block)
            yield self.evaluate(block, done / len(samples))

    def prepare(self, samples: Sequence[Sample]) -> bool:
        """Return whether the questions about these samples are answered now.

        A single judge answers them when a sample is evaluated.
        """
        return False

    def evaluate(self, block: Sequence[Sample], share: float) -> list[Evaluation]:
        """Evaluate a block, which completes this `share` of all samples."""
        return self.evaluate_with(self.verdicts, block, share)

    def evaluate_with(
        self,
        verdicts: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
        block: Sequence[Sample],
        share: float,
    ) -> list[Evaluation]:
        """Evaluate a block, which completes this `share` of all samples, with these verdicts."""
        self._share = share
        return evaluate_samples(block, self.metrics, self._sentences, verdicts)

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts of tasks by stored answers, and by the engine for new questions."""
        worded = self._wording.word(tasks)
        questions = distinct(worded)
        answers = self._find_answers(questions, _link(tasks, worded, self.place))
        self._report(len(questions), len(answers))
        requests: dict[str, VerdictRequest] = {}
        for key, keyed in questions.items():
            if key not in answers:
                requests[key] = keyed.request
        self.asked += len(requests)

        def keep(key: str, answer: Answer | NoAnswer) -> None:
            self._keep(key, answer)
            self.watch(requests[key])

        answers |= ask(self.judge.engine, requests, self.progress, on_answer=keep)
        return decide_verdicts(tasks, worded, answers, self._rule)

    def _find_answers(
        self, questions: Mapping[str, KeyedRequest], links: Iterable[TaskLink]
    ) -> dict[str, Answer | NoAnswer]:
        """Return the known answers, and store the questions and what earlier sources know."""
        answers: dict[str, Answer | NoAnswer] = {}
        if self.store:
            answers |= self.store.answers_to(questions)
            self.store.add_requests(questions, links)
        for source in self.earlier:
            reused = source.answers_to([key for key in questions if key not in answers])
            if self.store:
                self.store.add_answers(reused, source.name)
            answers |= reused
        return answers

    def _report(self, questions: int, answers: int) -> None:
        """Report the expected questions, extrapolated to all samples, and the known answers."""
        self._questions += questions
        expected = round(self._questions / self._share)
        self.progress.expect(expected - self._expected, counted=self._share == 1)
        self._expected = expected
        if answers:
            self.progress.recall(answers)

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if self.store:
            self.store.add_answers({key: answer})
        for source in self.earlier:
            source.keep(key, answer)


def _link(tasks: Sequence[TaskRef], worded: Sequence[WordedTask], judge: int) -> Iterator[TaskLink]:
    """Yield which requests a judge is asked about each task."""
    for task, questions in zip(tasks, worded, strict=True):
        if not isinstance(questions, tuple):
            continue
        for keyed, window in questions:
            yield TaskLink(
                task.sample_id, task.metric, task.position, judge, window or 0, keyed.key
            )


def blocks(samples: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield the samples in growing blocks, so that the first results appear soon."""
    rest = iter(samples)
    size = _FIRST_BLOCK
    while block := list(islice(rest, size)):
        yield block
        size = min(2 * size, _MAX_BLOCK)
