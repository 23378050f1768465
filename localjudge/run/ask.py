"""From tasks to verdicts: words them, asks each distinct question once, stores each answer as it arrives.

    task ──windows, judge──> requests ──not answered yet──> engine ──> store ──threshold──> verdict

The invariant: a verdict is the same whether its answer was asked for now, by another metric, or before a restart.
"""

from collections.abc import Sequence, Set
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from localjudge.engine.protocol import Engine
from localjudge.errors import SampleError
from localjudge.judge.judge import Judge
from localjudge.judge.windows import Windows
from localjudge.metrics.protocol import Sentences
from localjudge.record.keys import KeyedRequest, RequestKeys
from localjudge.record.store import Asking, Store
from localjudge.run.progress import Progress
from localjudge.run.verdict_of import WindowAnswer, verdict_of
from localjudge.types import Attribution, NoAnswer, Node, Task, Verdict, VerdictRequest, VerdictRule

NO_CONTEXT = Verdict(label=0)
_ROOM_FOR_SPECIAL_TOKENS = 64
_NODES_KEPT = 4096


class AskedTask(NamedTuple):
    """A task, and which unit of a sample it is about: `position` counts through that sample's verdicts."""

    sample_id: str
    metric: str
    position: int
    task: Task


class WordedWindow(NamedTuple):
    """The request for one window of a task; None for the number of the whole task."""

    keyed: KeyedRequest
    number: int | None


Worded = list[WordedWindow] | Verdict | NoAnswer
"""The requests of a task, one for each window; or what follows without asking."""


class Asker:
    """Judge, engine and store together: tasks in, verdicts out."""

    def __init__(
        self, judge: Judge, engine: Engine, store: Store, *, rule: VerdictRule, sentences: Sentences, progress: Progress
    ) -> None:
        self._judge = judge
        self._engine = engine
        self._store = store
        self._rule = rule
        self._sentences = sentences
        self._progress = progress
        self._keys = RequestKeys(engine.identity)
        self._answers = store.answers()
        self._asked = 0

    @property
    def known(self) -> int:
        """Answers at hand."""
        return len(self._answers)

    @property
    def asked(self) -> int:
        """Requests that the engine was asked; answers from the store are not counted."""
        return self._asked

    @property
    def shapes(self) -> Set[str]:
        """Shapes of the answers that the judge let a model give, as JSON."""
        return self._keys.shapes

    def verdicts(self, tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        """One verdict for each task, in their order."""
        worded = self._worded(tasks)
        missing = {
            keyed.key: keyed
            for requests in worded
            if isinstance(requests, list)
            for keyed, _ in requests
            if keyed.key not in self._answers
        }
        askings = [
            Asking(asked.sample_id, asked.metric, asked.position, window or 0, keyed.key)
            for asked, requests in zip(tasks, worded, strict=True)
            if isinstance(requests, list)
            for keyed, window in requests
        ]
        self._store.add_requests(missing.values(), askings)
        self._ask(list(missing.values()))
        return [self._verdict(requests) if isinstance(requests, list) else requests for requests in worded]

    def requests(self, tasks: Sequence[AskedTask]) -> list[VerdictRequest]:
        """The distinct requests that the tasks come to, asked or not."""
        worded = (requests for requests in self._worded(tasks) if isinstance(requests, list))
        return list({keyed.key: keyed.request for requests in worded for keyed, _ in requests}.values())

    def _ask(self, requests: Sequence[KeyedRequest]) -> None:
        self._progress.expect(len(requests))
        for index, answer in self._engine.answers([keyed.request for keyed in requests]):
            key = requests[index].key
            self._store.add_answer(key, answer)
            self._answers[key] = answer
            self._asked += 1
            self._progress.advance()

    def _worded(self, tasks: Sequence[AskedTask]) -> list[Worded]:
        """What each task comes to; a judge may word the tasks of one metric on one sample together."""
        return [
            worded
            for _, group in groupby(tasks, key=lambda asked: (asked.sample_id, asked.metric))
            for worded in self._worded_together([asked.task for asked in group])
        ]

    def _worded_together(self, tasks: Sequence[Task]) -> list[Worded]:
        to_ask = [task for task in tasks if not _has_no_context(task)]
        try:
            requests = iter(self._keyed_windows(to_ask))
        except SampleError as error:
            return [NoAnswer(error=error.in_one_line)] * len(tasks)
        return [NO_CONTEXT if _has_no_context(task) else next(requests) for task in tasks]

    def _keyed_windows(self, tasks: Sequence[Task]) -> list[list[WordedWindow]]:
        """The requests of each task, one for each window: most tasks fit, and are not tokenised to find that out."""
        whole = self._judge.requests(tasks)
        if all(map(self._surely_fits, whole)):
            return [[WordedWindow(self._keys.keyed(request), None)] for request in whole]
        cut = Windows(cost=self._cost, capacity=self._engine.capacity, sentences=self._sentences)
        windows = [cut.of(task) for task in tasks]
        requests = iter(self._judge.requests([window.task for of_task in windows for window in of_task]))
        return [
            [WordedWindow(self._keys.keyed(next(requests)), window.number) for window in of_task] for of_task in windows
        ]

    def _surely_fits(self, request: VerdictRequest) -> bool:
        """Whether the number of bytes alone proves it: a token is a byte or more."""
        size = sum(map(_bytes, request.path))
        size += len(request.path) + len(request.grammar.pattern) + request.grammar.reason_tokens
        return size + _ROOM_FOR_SPECIAL_TOKENS <= self._engine.capacity

    def _cost(self, task: Task) -> int:
        return self._engine.length(self._judge.request(task))

    def _verdict(self, requests: Sequence[WordedWindow]) -> Verdict | NoAnswer:
        return verdict_of([WindowAnswer(self._answers[keyed.key], number) for keyed, number in requests], self._rule)


@lru_cache(maxsize=_NODES_KEPT)
def _bytes(node: Node) -> int:
    """Length of its text in UTF-8. Remembered: requests share most of their nodes."""
    return sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in node)


def _has_no_context(task: Task) -> bool:
    return isinstance(task, Attribution) and not any(context.strip() for context in task.contexts)
