"""The engine of a run whose judge is held by workers of a Ray cluster.

    this process     identity, lengths, chat template: a vocabulary without weights
    requests ──depth first──> portions ──> worker ──> engine in process, its model from its own node's file
                                             └──answers as they come──> the run's one store

It gives the identity and the bytes of an engine in process on that kind of processor, so a run may be begun without Ray
and gone on with it, or the other way round, and be verified by either. Workers come, die and go: what a worker had not
answered is asked of another.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.hardware import available_bytes
from localjudge.engine.protocol import ClosableCounter, DescribedEngine, EngineStats, ModelOutline
from localjudge.engine.ray_cluster.judge_worker import OpenEngine, WorkerOrder, WorkerReport
from localjudge.engine.ray_cluster.ray_connection import LOCAL, NodeRoom, RayConnection
from localjudge.engine.ray_cluster.same_kind import KindRule
from localjudge.engine.ray_cluster.work_queue import MOST_DEATHS, Portion, WorkQueue
from localjudge.engine.ray_cluster.worker_pool import Delivered, Event, Finished, PoolSize, Worker, WorkerPool
from localjudge.errors import OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.option_spelling import option_name
from localjudge.printable import printable
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest

_SHOWN = 80


class InProcess(NamedTuple):
    """What a process does with a model's file: a worker opens an `engine`, the process that gives it work the rest."""

    engine: OpenEngine
    outline: Callable[[ModelFile, EngineSettings], ModelOutline]
    counter: Callable[[ModelFile, EngineSettings, bool | None], ClosableCounter]


class RayEngine:
    """Answers requests with workers in a Ray cluster, each with the model in its memory.

    Raises UsageError if there is no Ray or no cluster, ModelError if no worker can open the model, or none is of this
    machine's kind.
    """

    def __init__(
        self, file: ModelFile, settings: EngineSettings, in_process: InProcess, *, begin_of_text: bool | None = None
    ) -> None:
        address = settings.ray or LOCAL
        outline = in_process.outline(file, settings)
        with ExitStack() as undo:
            connection = RayConnection(address)
            undo.callback(connection.close)
            order = WorkerOrder(
                file, _of_worker(settings), begin_of_text, in_process.engine, option_name("ray") != "ray"
            )
            rule = KindRule(outline.identity, allow_others=settings.allow_other_processors)
            self._pool = WorkerPool(connection.ray, order, _size(connection, settings, outline), rule)
            undo.callback(self._pool.close)
            self._pool.wait_for_first(all_of_them=settings.allow_other_processors)
            # Not before: a file that no worker has tried may end the process that opens it.
            self._counter = in_process.counter(file, settings, begin_of_text)
            undo.callback(self._counter.close)
            self._identity = rule.identity()
            self._forks = all(report.forks for report in self._pool.reports)
            self._undo = undo.pop_all()
        self._memory_bytes = outline.memory_bytes
        self._work: dict[Worker, EngineStats] = {}
        self._seconds = 0.0

    @property
    def identity(self) -> dict[str, Any]:
        """That of the workers: of an engine in process, if all are of one kind."""
        return self._identity

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._counter.name

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is."""
        return self._counter.metadata if isinstance(self._counter, DescribedEngine) else {}

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's chat template puts around a message, if it has one."""
        return self._counter.chat_ends

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The model's chat template for conversations alone, if it has one."""
        return self._counter.chat_without_ends if isinstance(self._counter, DescribedEngine) else None

    @property
    def capacity(self) -> int:
        """Tokens that fit the context."""
        return self._counter.capacity

    def length(self, request: VerdictRequest) -> int:
        """Tokens of the prompt and the longest legal answer, counted in this process."""
        return self._counter.length(request)

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens of the tree that the requests form, as one worker would evaluate them."""
        return self._counter.distinct_tokens(requests)

    @property
    def forks(self) -> bool:
        """Whether requests share what they have in common."""
        return self._forks

    @property
    def memory_bytes(self) -> int:
        """What one worker takes."""
        return self._memory_bytes

    @property
    def works_at_once(self) -> int:
        """Workers that are there now."""
        return max(1, self._pool.count)

    @property
    def workers(self) -> list[WorkerReport]:
        """Who they are."""
        return self._pool.reports

    @property
    def stats(self) -> EngineStats:
        """Work done by all workers, those that died among them; `seconds_total` have passed in this process."""
        done = [work.model_dump() for work in self._work.values()]
        summed = {name: sum(one[name] for one in done) for name in EngineStats.model_fields}
        return EngineStats(**{**summed, "seconds_total": self._seconds})

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request, each as soon as a worker sends it.

        Raises OutOfResource if workers die again and again, or, when all others are answered, of one request.
        """
        work = WorkQueue(requests)
        dealt: dict[Worker, Portion] = {}
        began = time.perf_counter()
        try:
            while dealt or not work.done:
                self._deal(work, dealt, requests)
                answers = [pair for event in self._pool.events() for pair in self._taken(event, work, dealt)]
                # Before they are given on and stored, so that no worker waits for that.
                self._deal(work, dealt, requests)
                self._seconds += time.perf_counter() - began
                yield from answers
                began = time.perf_counter()
        finally:
            self._pool.stop_work()
        if work.set_aside:
            raise _deadly([requests[index] for index in work.set_aside])

    def close(self) -> None:
        """End the workers, and the cluster if it is our own."""
        self._undo.close()

    def _deal(self, work: WorkQueue, dealt: dict[Worker, Portion], requests: Sequence[VerdictRequest]) -> None:
        for worker in list(self._pool.idle):
            portion = work.deal(self._pool.count)
            if portion is None:
                return
            dealt[worker] = portion
            self._pool.give(worker, [requests[index] for index in portion.indices], careful=portion.careful)

    def _taken(
        self, event: Event, work: WorkQueue, dealt: dict[Worker, Portion]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        if isinstance(event, Delivered):
            self._work[event.worker] = event.delivery.stats
            indices = dealt[event.worker].indices
            for place, answer in event.delivery.answers:
                work.answered(indices[place])
                yield indices[place], answer
        elif isinstance(event, Finished):
            del dealt[event.worker]
        else:
            work.lost(dealt.pop(event.worker), begun=event.begun)


def _of_worker(settings: EngineSettings) -> EngineSettings:
    """What a worker opens its engine with: in process, with threads that do not hang on its node."""
    return EngineSettings(n_ctx=settings.n_ctx, threads=_threads(settings), gpu_layers=settings.gpu_layers)


def _threads(settings: EngineSettings) -> int:
    """Those of one worker. Several workers of one thread do more than one of several."""
    return settings.threads or 1


def _size(connection: RayConnection, settings: EngineSettings, outline: ModelOutline) -> PoolSize:
    """How many workers: as many as were asked for, or as there is room for."""
    takes = {"num_cpus": _threads(settings), "memory": outline.memory_bytes}
    if connection.is_own:
        # GPUs are not shared out here: each worker sees all that this machine has, as an engine in process does.
        processors = settings.model_copy(update={"threads": None}).used_threads
        room = _room(NodeRoom(processors, available_bytes() or float("inf"), gpus=0), takes)
        # Ray counts nothing here: it would set processors aside that other judges may use.
        return PoolSize(settings.ray_workers or max(1, room), grows=False, takes={"num_cpus": 0})
    takes |= {"num_gpus": 1} if outline.uses_gpu else {}
    if settings.ray_workers:
        return PoolSize(settings.ray_workers, grows=False, takes=takes)
    return PoolSize(sum(_room(node, takes) for node in connection.nodes), grows=True, takes=takes)


def _room(node: NodeRoom, takes: Mapping[str, int]) -> int:
    """Workers that a node has room for."""
    has = {"num_cpus": node.processors, "memory": node.memory_bytes, "num_gpus": node.gpus}
    return int(min(has[name] // count for name, count in takes.items() if count))


def _deadly(requests: Sequence[VerdictRequest]) -> OutOfResource:
    """What is said of requests that no worker survives."""
    text = "".join(piece.text for piece in requests[0].path[-1] if not piece.trusted)
    more = f", and of {len(requests) - 1} more" if len(requests) > 1 else ""
    return OutOfResource(
        f"{MOST_DEATHS} workers died of one question, the one about {printable(text[:_SHOWN])!r}{more}; all that was "
        "asked with it is answered and stored",
        hint="give the workers more memory, or leave its sample out of the data, and run the same command again",
    )
