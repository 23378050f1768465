"""A run in blocks of samples: memory does not grow with the data, and the first verdict comes at once.

    block of samples ──metrics──> tasks ──wording──> questions ──known? else the engine──> answers ──rule──> verdicts

Answers are stored the moment they are there, so a run that was stopped asks only what is missing. What was answered
before, in another run or to this user, is copied into the store. A verdict is a function of its own question, so
neither the size of the blocks nor where they are cut moves a byte.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.record.earlier_answers import EarlierAnswers
from localjudge.record.evaluation import Evaluation
from localjudge.record.store import Asking, Store
from localjudge.run.answers import Answers, ask, verdicts_of
from localjudge.run.evaluate import evaluate_samples
from localjudge.run.judges import OpenJudge
from localjudge.run.wording import AskedTask, Worded, Wording, distinct
from localjudge.text import Segmenter
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRule

_FIRST_BLOCK, _LARGEST_BLOCK = 16, 256


class Blocks:
    """Judges the samples of a run block by block."""

    def __init__(
        self,
        judge: OpenJudge,
        store: Store,
        *,
        metrics: Sequence[Metric],
        segmenter: Segmenter,
        rule: VerdictRule,
        progress: Progress,
        earlier: Sequence[EarlierAnswers] = (),
    ) -> None:
        self._engine = judge.engine
        self._store = store
        self._earlier = earlier
        self._metrics = metrics
        self._segmenter = segmenter
        self._wording = Wording(judge.judge, judge.engine, segmenter)
        self._rule = rule
        self._expected = _Expected(progress)
        self._progress = progress
        self.asked = 0
        """Questions that the engine was asked; answers that were known are not counted."""

    def evaluations(
        self, samples: Iterable[Sample], count: int, *, done: int = 0, answered: int = 0
    ) -> Iterator[list[Evaluation]]:
        """Every metric on every sample, block by block, in the order of the samples, then of the metrics.

        `count` samples are in the data. So many of them are done, and not in `samples`: so many answers they took.
        """
        if done:
            self._expected.at(done / count)
            self._expected.add(answered, known=answered)
        for block in blocks(samples):
            done += len(block)
            self._expected.at(done / count)
            yield evaluate_samples(block, self._metrics, self._segmenter, self.verdicts)

    def verdicts(self, tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        """One verdict for each task, in their order; what is not known is asked."""
        worded = self._wording.worded(tasks)
        return verdicts_of(tasks, worded, self._answers(tasks, worded), self._rule)

    def _answers(self, tasks: Sequence[AskedTask], worded: Sequence[Worded]) -> Answers:
        questions = distinct(worded)
        known = self._store.answers_to(questions)
        self._store.add_requests(questions, _askings(tasks, worded))
        for earlier in self._earlier:
            found = earlier.answers_to([key for key in questions if key not in known])
            self._store.add_reused(found, earlier.name)
            known |= found
        self._expected.add(len(questions), known=len(known))
        requests = {key: keyed.request for key, keyed in questions.items() if key not in known}
        asked = ask(self._engine, requests, self._progress, on_answer=self._keep)
        self.asked += len(asked)
        return {**known, **asked}

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        self._store.add_answer(key, answer)
        for earlier in self._earlier:
            earlier.keep(key, answer)


def blocks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """The samples in blocks that grow: a small one first, so that there is soon something to see."""
    rest = iter(samples)
    size = _FIRST_BLOCK
    while block := list(islice(rest, size)):
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

    def add(self, count: int, *, known: int = 0) -> None:
        """So many questions more are certain, of which so many are answered already."""
        self._certain += count
        expected = round(self._certain / self._share)
        self._progress.expect(expected - self._told)
        self._told = expected
        if known:
            self._progress.recall(known)


def _askings(tasks: Sequence[AskedTask], worded: Sequence[Worded]) -> Iterator[Asking]:
    for task, questions in zip(tasks, worded, strict=True):
        if isinstance(questions, tuple):
            for question in questions:
                yield Asking(task.sample_id, task.metric, task.position, question.window or 0, question.key)
