"""From tasks to questions: what a judge is asked about each unit of text, and under which key. Nothing is asked here.

    task ──fits the context?──> one question, or one for each window of its contexts
                                a verdict, or a reason why there is none, where nothing has to be asked

The invariant: a question is a function of its own task, the judge and the engine's identity. Which other tasks are
worded with it moves nothing, except in the joint protocol, where the statements of one sample are asked together.
"""

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from localjudge.engine.protocol import Engine
from localjudge.errors import SampleError
from localjudge.judge.prompt_writer import PromptWriter
from localjudge.judge.windows import Windows
from localjudge.metrics.metric import Sentences
from localjudge.record.keys import KeyedRequest, RequestKeys
from localjudge.types import Attribution, NoAnswer, Node, Sufficiency, Task, Verdict, VerdictRequest

NO_CONTEXT = Verdict(label=0)
_ROOM_FOR_SPECIAL_TOKENS = 64
_NODES_KEPT = 4096


class AskedTask(NamedTuple):
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

    def worded(self, tasks: Sequence[AskedTask]) -> list[Worded]:
        """What each task comes to; a judge may word the tasks of one metric on one sample together."""
        return [
            worded
            for _, group in groupby(tasks, key=lambda asked: (asked.sample_id, asked.metric))
            for worded in self._worded_together([asked.task for asked in group])
        ]

    def _worded_together(self, tasks: Sequence[Task]) -> list[Worded]:
        to_ask = [task for task in tasks if not _has_no_context(task)]
        try:
            questions = iter(self._questions(to_ask))
        except SampleError as error:
            return [NoAnswer(error=error.in_one_line)] * len(tasks)
        return [NO_CONTEXT if _has_no_context(task) else next(questions) for task in tasks]

    def _questions(self, tasks: Sequence[Task]) -> list[tuple[Question, ...]]:
        """The questions of each task, one for each window: most tasks fit, and are not tokenised to find that out."""
        whole = self._judge.requests(tasks)
        if all(map(self._surely_fits, whole)):
            return [(Question(self._keys.keyed(request), None),) for request in whole]
        cut = Windows(cost=self._cost, capacity=self._engine.capacity, sentences=self._sentences)
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

    def _cost(self, task: Task) -> int:
        return self._engine.length(self._judge.request(task))


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
