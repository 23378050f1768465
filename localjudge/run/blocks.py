"""A run in blocks of samples: memory does not grow with the data, and the first verdict comes at once.

    block of samples ──metrics──> tasks ──wording──> questions ──known? else the engine──> answers ──rule──> verdicts

Answers are stored the moment they are there, so a run that was stopped asks only what is missing. What was answered
before, in another run or to this user, is copied into the store. A verdict is a function of its own question, so
neither the size of the blocks nor where they are cut moves a byte.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from localjudge.engine.protocol import ParallelEngine
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.record.earlier_answers import EarlierAnswers
from localjudge.record.evaluation import Evaluation
from localjudge.record.keys import KeyedRequest
from localjudge.record.store import Asking
from localjudge.run.answers import Answers, ask, verdicts_of
from localjudge.run.evaluate import evaluate_samples
from localjudge.run.judges import OpenJudge
from localjudge.run.wording import AskedTask, Worded, Wording, distinct
from localjudge.text import Segmenter
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRule

_FIRST_BLOCK, _LARGEST_BLOCK = 16, 256
_MOST_AT_ONCE = 64
"""Blocks grow with the workers of an engine, up to so many times: then they hold 16,384 samples."""


class AnswerStore(Protocol):
    """Where answers go the moment they are there, and are looked for first: `Store`, or the memory of an open judge."""

    def answers_to(self, keys: Iterable[str]) -> Mapping[str, Answer | NoAnswer]:
        """The answers to the questions with these keys, as far as there are any."""
        ...

    def add_requests(self, requests: Mapping[str, KeyedRequest], askings: Iterable[Asking]) -> None:
        """Note what is asked, and by which units."""
        ...

    def add_reused(self, answers: Mapping[str, Answer], source: str) -> None:
        """Take over answers that were given elsewhere."""
        ...

    def add_answer(self, request_key: str, answer: Answer | NoAnswer) -> None:
        """Take an answer that was just given."""
        ...


class Blocks:
    """Judges the samples of a run block by block."""

    def __init__(
        self,
        judge: OpenJudge,
        store: AnswerStore,
        *,
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
        self._expected = _Expected(progress)
        self._progress = progress
        self.asked = 0
        """Questions that an engine was asked; answers that were known are not counted."""

    def evaluations(
        self, samples: Iterable[Sample], count: int, *, done: int = 0, answered: int = 0
    ) -> Iterator[list[Evaluation]]:
        """Every metric on every sample, block by block, in the order of the samples, then of the metrics.

        `count` samples are in the data. So many of them are done, and not in `samples`: so many answers they took.
        """
        if done:
            self._expected.at(done / count)
            self._expected.add(answered)
            self._expected.recall(answered)
        for block in blocks(samples, self._at_once):
            done += len(block)
            self._expected.at(done / count)
            yield evaluate_samples(block, self._metrics, self._segmenter, self.verdicts)

    def _at_once(self) -> int:
        """How many requests the engine works on at the same time."""
        return self._engine.works_at_once if isinstance(self._engine, ParallelEngine) else 1

    def verdicts(self, tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        """One verdict for each task, in their order; what is not known is asked."""
        worded = self._wording.worded(tasks)
        return verdicts_of(tasks, worded, self._answers(tasks, worded), self._rule)

    def _answers(self, tasks: Sequence[AskedTask], worded: Sequence[Worded]) -> Answers:
        questions = distinct(worded)
        self._expected.add(len(questions))
        known = dict(self._store.answers_to(questions))
        self._store.add_requests(questions, _askings(tasks, worded))
        for earlier in self._earlier:
            found = earlier.answers_to([key for key in questions if key not in known])
            self._store.add_reused(found, earlier.name)
            known |= found
        self._expected.recall(len(known))

        def keep(key: str, answer: Answer | NoAnswer) -> None:
            self._store.add_answer(key, answer)
            for earlier in self._earlier:
                earlier.keep(key, answer)

        requests = {key: keyed.request for key, keyed in questions.items() if key not in known}
        asked = ask(self._engine, requests, self._progress, on_answer=keep)
        self.asked += len(asked)
        return {**known, **asked}


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


class _Expected:
    """Tells the progress how many questions there will be, by how many the samples so far came to."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._share = 1.0
        self._certain = 0
        self._told = 0

    def at(self, share: float) -> None:
        """The next questions are those of a block that ends when so much of the data is done."""
        self._share = share

    def add(self, count: int) -> None:
        """So many questions more are certain."""
        self._certain += count
        expected = round(self._certain / self._share)
        self._progress.expect(expected - self._told)
        self._told = expected

    def recall(self, known: int) -> None:
        """So many of them are answered already."""
        if known:
            self._progress.recall(known)


def _askings(tasks: Sequence[AskedTask], worded: Sequence[Worded]) -> Iterator[Asking]:
    for task, questions in zip(tasks, worded, strict=True):
        if isinstance(questions, tuple):
            for question in questions:
                yield Asking(task.sample_id, task.metric, task.position, question.window or 0, question.key)
