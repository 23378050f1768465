"""Turn samples into verdicts, block by block. This is the only loop over an engine.

    block of samples ──metrics──> tasks ──wording──> questions ──stored? else the engine──> answers
          │                                                        answers ──rule──> verdicts
          └── in rounds: all metrics ask together, and again, until no metric has a question left

The size and position of blocks change no byte. A SampleError makes its sample `Failed`; any other
error stops the run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from localjudge.engine.protocol import Engine, count_workers
from localjudge.judging.expected_questions import ExpectedQuestions
from localjudge.judging.judges import SingleJudge
from localjudge.judging.questions import TaskRef, WordedTask, Wording, distinct
from localjudge.judging.rounds import evaluate_samples
from localjudge.judging.settings import RunSettings
from localjudge.judging.verdicts import decide_verdicts
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.run_directory.evaluations import Evaluation
from localjudge.run_directory.request_keys import KeyedRequest
from localjudge.run_directory.reuse import AnswerMemory, EarlierAnswers
from localjudge.run_directory.store import Store
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRequest

_DIGEST_BYTES = 16
_FIRST_BLOCK = 16
_MAX_BLOCK = 256
_MAX_TIMES = 16

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


@dataclass
class Blocks:
    """Judge samples in blocks.

    Takes known answers from the store and the `earlier` sources. `watch` is called after each
    answer is stored. `place` is the number of the judge in a jury, whose judges share `expected`.
    """

    judge: SingleJudge
    store: Store | None
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    earlier: Sequence[EarlierAnswers] = ()
    watch: Callable[[VerdictRequest], object] = lambda _request: None
    place: int = 0
    expected: ExpectedQuestions = field(default_factory=ExpectedQuestions)
    asked: int = 0

    def __post_init__(self) -> None:
        self._sentences = self.settings.sentences
        self._rule = self.settings.rule_for(self.metrics)
        self._wording = Wording(self.judge, self._sentences, self.settings.language)

    def evaluations(self, samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        """Yield the evaluations of each block."""
        done = 0
        for block in blocks(samples, count_workers(self.judge.engine)):
            done += len(block)
            yield self.evaluate(block, done / len(samples))

    def prepare(self, samples: Sequence[Sample]) -> bool:
        """Return whether the questions about these samples are answered now.

        A single judge answers them when a sample is evaluated.
        """
        return False

    def evaluate(self, block: Sequence[Sample], share: float) -> list[Evaluation]:
        """Evaluate a block, which completes this `share` of all samples."""
        self.expected.share = share
        return evaluate_samples(block, self.metrics, self._sentences, self.verdicts)

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts of tasks by stored answers, and by the engine for new questions."""
        worded = self._wording.word(tasks)
        questions = distinct(worded)
        answers = self._find_answers(questions, _windows_by_unit(tasks, worded, self.place))
        self.expected.report(len(questions), self.progress)
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

        answers |= ask(self.judge.engine, requests, self.progress, on_answer=keep)
        return decide_verdicts(tasks, worded, answers, self._rule)

    def _find_answers(
        self,
        questions: Mapping[str, KeyedRequest],
        windows_by_unit: Mapping[AskedUnit, Sequence[AskedWindow]],
    ) -> dict[str, Answer | NoAnswer]:
        """Return the known answers, and store the questions and what earlier sources know."""
        answers: dict[str, Answer | NoAnswer] = {}
        if self.store:
            answers |= self.store.answers_to(questions)
            self.store.add_requests(questions, windows_by_unit)
        for source in self.earlier:
            reused = source.answers_to([key for key in questions if key not in answers])
            if self.store:
                self.store.add_answers(reused, source.name)
            answers |= reused
        return answers

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if self.store:
            self.store.add_answers({key: answer})
        for source in self.earlier:
            if isinstance(source, AnswerMemory):
                source.add(key, answer)


def _windows_by_unit(
    tasks: Sequence[TaskRef], worded: Sequence[WordedTask], judge: int
) -> dict[AskedUnit, list[AskedWindow]]:
    """Return the requests to a judge about each task that it is asked about."""
    windows_by_unit: dict[AskedUnit, list[AskedWindow]] = {}
    for task, questions in zip(tasks, worded, strict=True):
        if isinstance(questions, tuple):
            windows = [AskedWindow(window, keyed.key) for keyed, window in questions]
            windows_by_unit[task.asked(judge)] = windows
    return windows_by_unit


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


def digest(key: str) -> bytes:
    """Shorten a key: 1,000,000 take about 100 MB."""
    return bytes.fromhex(key)[:_DIGEST_BYTES]
