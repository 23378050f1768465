"""Turn tasks into questions: requests for an engine, in windows if they are long, with their keys.

task ──profile──> request ──fits the context?──> one question
  │                           └──no──> windows ──> a question for each
  └──nearest sentences, if the profile says so──> request ──> one question, or a second one
                                                              beside fewer letters
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from localjudge import types
from localjudge.errors import SampleError
from localjudge.judge.nearest import readings, shared_finders
from localjudge.judge.windows import Windows
from localjudge.judging.judges import SingleJudge
from localjudge.judging.settings import RunSettings
from localjudge.run_directory.store_reader import AskedUnit, KeyedRequest, RequestKeys
from localjudge.types import NoAnswer, Task, Verdict, VerdictRequest

_DIGEST_BYTES = 16

NO_CONTEXT = Verdict(label=0)
"""Verdict of a task about contexts without any text."""
_ROOM_FOR_SPECIAL_TOKENS = 64
_WHOLE_AND_CLOSER = (None, 0)
"""The windows of both readings: all that is near, and fewer letters."""
_CACHED_NODES = 4096


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
"""A request with the number of its window, or None for the whole task.

Beside a whole task, window 0 is the second reading, with fewer letters."""
WordedTask = tuple[Question, ...] | Verdict | NoAnswer
"""The questions of a task, or its result without asking."""


class Wording:
    """Turn tasks into requests. The keys contain the `identity`, by default the engine's."""

    def __init__(
        self,
        judge: SingleJudge,
        settings: RunSettings,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        self._prompts = judge.prompts
        self.engine = judge.engine
        self._capacity = judge.prompts.profile.window_capacity(judge.engine.capacity)
        self._sentences = settings.sentences
        self._language = settings.language
        if identity is None:
            identity = judge.engine.identity
        self.keys = RequestKeys(identity)

    def word(self, tasks: Sequence[TaskRef]) -> list[WordedTask]:
        """Return the questions of each task. Tasks of a metric on a sample are worded together."""
        worded: list[WordedTask] = []
        for _, refs in groupby(tasks, key=lambda ref: (ref.sample_id, ref.metric)):
            together = [ref.task for ref in refs]
            asked = [task for task in together if not _lacks_context(task)]
            try:
                questions = iter(self._make_questions(asked))
            except SampleError as error:
                worded += [NoAnswer(error=error.in_one_line)] * len(together)
                continue
            for task in together:
                if _lacks_context(task):
                    worded.append(NO_CONTEXT)
                else:
                    worded.append(next(questions))
        return worded

    def _make_questions(self, tasks: Sequence[Task]) -> list[tuple[Question, ...]]:
        profile = self._prompts.profile
        finders = shared_finders(self._sentences, self._language)
        read = [readings(task, profile, finders, self._fits) for task in tasks]
        requests = self._prompts.requests(list(chain.from_iterable(read)))
        all_fit = all(map(self._surely_fits, requests))
        cut = Windows(
            cost=lambda task: self.engine.length(self._prompts.request(task)),
            capacity=self._capacity,
            sentences=self._sentences,
            overlap=profile.overlap,
        )
        remaining = iter(requests)
        questions_by_task: list[tuple[Question, ...]] = []
        for task, shown in zip(tasks, read, strict=True):
            requests_of_task = list(islice(remaining, len(shown)))
            questions_of_task: list[Question] = []
            if all_fit or profile.letters(task) is not None:
                for request, number in zip(requests_of_task, _WHOLE_AND_CLOSER, strict=False):
                    questions_of_task.append((self.keys.keyed(request), number))
            else:
                for window, number in cut.split(task):
                    request = self._prompts.request(window)
                    questions_of_task.append((self.keys.keyed(request), number))
            questions_by_task.append(tuple(questions_of_task))
        return questions_by_task

    def _fits(self, task: Task) -> bool:
        """Return whether a task fits the context, True if its text cannot be read at all."""
        request = self._prompts.request(task)
        if self._surely_fits(request):
            return True
        try:
            return self.engine.length(request) <= self._capacity
        except SampleError:
            return True

    def _surely_fits(self, request: VerdictRequest) -> bool:
        """Compare bytes instead of tokens: a token has at least one byte."""
        size = sum(map(_count_bytes, request.path))
        size += len(request.path) + len(request.grammar.pattern) + request.grammar.reason_tokens
        return size + _ROOM_FOR_SPECIAL_TOKENS <= self._capacity


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


def digest(key: str) -> bytes:
    """Shorten a key: 1,000,000 take about 100 MB."""
    return bytes.fromhex(key)[:_DIGEST_BYTES]
