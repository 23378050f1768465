"""The engine of a run whose judge is held by workers of a Ray cluster.

    this process     identity, lengths, chat template: a vocabulary without weights
    requests ──depth first──> portions ──> worker ──> engine in process, its model from its own node's file
                                             └──answers of a portion──> the run's one store

It gives the identity and the bytes of an engine in process, so a run may be begun without Ray and gone on with it, or
the other way round, and be verified by either. A worker whose identity, packages or processor differ from this
machine's is refused. What a worker had not answered when it died is asked of another, one request at a time; a request
of which `_MOST_DEATHS` workers died is set aside, and named when all others are answered.
"""

import logging
import platform
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import islice, pairwise
from time import perf_counter
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.decoding import depth_first, shared_nodes
from localjudge.engine.hardware import processor_name
from localjudge.engine.protocol import (
    DescribedEngine,
    Engine,
    EngineSettings,
    EngineStats,
    ModelOutline,
    TokenCounter,
)
from localjudge.engine.ray_cluster import LOCAL, connected
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.record.directory import excerpt
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest
from localjudge.words import as_typed, option_name, printable, printable_lines

_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core")
_PORTION = 8
"""Requests that a worker answers before it sends what it has; so many about one context go to one worker."""
_PORTIONS = 2
"""At a worker: the second waits there, so that no worker waits for this process."""
_MOST_DEATHS = 3
"""Workers that may die of a request that they were asked alone."""
_MOST_DEATHS_IN_A_ROW = 12
"""Workers that may die with no answer between them, where there are few; twice as many as there are workers else."""
_PATIENCE_SECONDS = 60
_log = logging.getLogger(__name__)
_Pairs = list[tuple[int, Answer | NoAnswer]]


class InProcess(NamedTuple):
    """What a process does with a model's file: a worker opens an `engine`, the process that gives it work the rest."""

    engine: Callable[..., Engine]
    outline: Callable[[ModelFile, EngineSettings], ModelOutline]
    counter: Callable[..., TokenCounter]
    """The first and the last take a file, settings and `begin_of_text`."""


class JudgeWorker:
    """The actor: one engine, opened from the model's file on its node."""

    def open(self, open_engine: Callable[[], Engine]) -> "Report":
        """Open the engine. Raises what is wrong with the model or the memory there, with the node's name."""
        node = platform.node()
        try:
            self._engine = open_engine()
        except LocaljudgeError as error:
            raise type(error)(f"on node {node}: {error.message}", hint=error.hint) from error
        return Report(node, _kind(self._engine.identity), self._engine.identity, self._engine.shares_prefixes)

    def answers(self, requests: Sequence[VerdictRequest]) -> tuple[_Pairs, EngineStats]:
        """The answers to a portion by their places in it, and the work done so far."""
        return list(self._engine.answers(requests)), self._engine.stats


class Report(NamedTuple):
    """Who a worker is, once its engine is open; `kind` is what has to be the same for the same bytes."""

    node: str
    kind: dict[str, Any]
    identity: dict[str, Any]
    shares_prefixes: bool


@dataclass(eq=False)
class _Worker:
    """One that may be given work; `portions` are those that it has not answered, the first of them begun."""

    actor: Any
    node: str
    portions: dict[Any, list[int]] = field(default_factory=dict)


class Work:
    """The requests of one call, until each is answered or set aside. Knows no cluster."""

    def __init__(self, requests: Sequence[VerdictRequest]) -> None:
        paths = [request.path for request in requests]
        order = list(depth_first(paths))
        self._begins = {after for before, after in pairwise(order) if shared_nodes(paths[before], paths[after]) <= 1}
        self.waiting = deque(order)
        self.alone: set[int] = set()
        self._deaths: Counter[int] = Counter()
        self.set_aside: list[int] = []
        """Requests of which so many workers died that they are not asked again."""

    def deal(self, workers: int) -> list[int]:
        """What the next free one of so many workers gets, less towards the end; nothing while nothing waits."""
        waiting, portion = self.waiting, list[int]()
        size = min(_PORTION // 2, len(waiting) // (2 * _PORTIONS * workers))
        while waiting:
            enough = size if waiting[0] in self._begins else _PORTION
            if portion and (len(portion) >= enough or not self.alone.isdisjoint((portion[0], waiting[0]))):
                break
            portion.append(waiting.popleft())
        return portion

    def lose(self, portions: Sequence[Sequence[int]]) -> None:
        """A worker died at the first of these portions: all of them wait again, those of the first one by one."""
        begun, *others = portions
        if len(begun) == 1:
            self._deaths[begun[0]] += 1
            if self._deaths[begun[0]] >= _MOST_DEATHS:
                self.set_aside.append(begun[0])
                begun = []
        self.alone.update(begun)
        self.waiting.extendleft(reversed([*begun, *(index for portion in others for index in portion)]))


class RayEngine:
    """Answers requests with workers in a Ray cluster, each with the model in its memory.

    Raises InputError if there is no Ray or no cluster, ModelError if no worker can open the model, or none is of this
    machine's kind.
    """

    def __init__(
        self, file: ModelFile, settings: EngineSettings, in_process: InProcess, *, begin_of_text: bool = True
    ) -> None:
        outline = in_process.outline(file, settings)
        self._kind = _kind(outline.identity)
        self.identity: dict[str, Any] = {}
        self.memory_bytes = outline.memory_bytes
        """What one worker takes."""
        self._workers: list[_Worker] = []
        self._opening: dict[Any, Any] = {}
        self._refusals: list[LocaljudgeError] = []
        self._actors: list[Any] = []
        self._deaths = 0
        self._stats: dict[_Worker, EngineStats] = {}
        self._seconds = 0.0
        with ExitStack() as undo:
            address, threads = settings.ray or LOCAL, settings.threads or 1
            processors = max(EngineSettings().used_threads, threads * (settings.ray_workers or 1))
            self._ray = undo.enter_context(connected(address, processors))
            undo.callback(self._end_actors)
            of_worker = EngineSettings(n_ctx=settings.n_ctx, threads=threads, gpu_layers=settings.gpu_layers)
            typed = option_name("ray") != "ray"
            self._open_engine = partial(_open_here, in_process.engine, file, of_worker, begin_of_text, typed)
            for _ in range(self._count(settings, outline)):
                self._start()
            while not self._workers:
                self._wait_for([])
            # Not before: a file that no worker has tried may end the process that opens it.
            self._counter = counter = in_process.counter(file, settings, begin_of_text=begin_of_text)
            undo.callback(counter.close)
            self._undo = undo.pop_all()
        self.name, self.capacity = counter.name, counter.capacity
        self.metadata = counter.metadata if isinstance(counter, DescribedEngine) else {}
        self.length, self.distinct_tokens = counter.length, counter.distinct_tokens

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's chat template puts around a message, if it has one."""
        return self._counter.chat_ends

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The model's chat template for conversations alone, if it has one."""
        return self._counter.chat_without_ends if isinstance(self._counter, DescribedEngine) else None

    @property
    def works_at_once(self) -> int:
        """Workers that are there now."""
        return max(1, len(self._workers))

    @property
    def stats(self) -> EngineStats:
        """Work done by all workers, those that died among them; `seconds_total` have passed in this process."""
        done = [stats.model_dump() for stats in self._stats.values()]
        summed = {name: sum(work[name] for work in done) for name in EngineStats.model_fields}
        return EngineStats(**{**summed, "seconds_total": self._seconds})

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request, as soon as a worker sends what it was dealt.

        Raises OutOfResource if workers die again and again, or, when all others are answered, of one request.
        """
        work = Work(requests)
        for worker in self._workers:
            worker.portions.clear()  # of a call that was not read to its end
        began = perf_counter()
        self._deal(work, requests)
        while (asked := [reference for worker in self._workers for reference in worker.portions]) or work.waiting:
            answers = self._receive(self._wait_for(asked), work)
            # Before they are given on and stored, so that no worker waits for that.
            self._deal(work, requests)
            self._seconds += perf_counter() - began
            yield from answers
            began = perf_counter()
        if work.set_aside:
            question = requests[work.set_aside[0]].path[-1]
            text = "".join(piece.text for piece in question if not piece.trusted)
            more = f", and of {len(work.set_aside) - 1} more" if len(work.set_aside) > 1 else ""
            raise OutOfResource(
                f"{_MOST_DEATHS} workers died of one question, the one about {printable(text[:80])!r}{more}; all that "
                "was asked with it is answered and stored",
                hint="give the workers more memory, or leave its sample out of the data, and run the same command "
                "again",
            )

    def close(self) -> None:
        """End the workers, and the cluster if it is our own."""
        self._undo.close()

    def _end_actors(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)

    def _count(self, settings: EngineSettings, outline: ModelOutline) -> int:
        """Workers to start: as many as were asked for, or as there is room for. Some may have to wait for a node."""
        # GPUs of this machine are not shared out: each worker sees all of them, as an engine in process does.
        gpus = int(outline.uses_gpu and settings.ray != LOCAL)
        cpus, memory = settings.threads or 1, outline.memory_bytes
        self._class = self._ray.remote(num_cpus=cpus, memory=memory, num_gpus=gpus, max_restarts=0)(JudgeWorker)
        there, takes = self._ray.cluster_resources(), {"CPU": cpus, "memory": memory, "GPU": gpus}
        room = int(min(there.get(resource, 0) // count for resource, count in takes.items() if count))
        if not room and settings.ray == LOCAL:
            raise OutOfResource(f"Ray has no room for a worker here, which takes {takes}", hint="free memory")
        return settings.ray_workers or max(1, room)

    def _start(self) -> None:
        actor = self._class.remote()
        self._actors.append(actor)
        self._opening[actor.open.remote(self._open_engine)] = actor

    def _deal(self, work: Work, requests: Sequence[VerdictRequest]) -> None:
        for worker in [*self._workers, *self._workers]:
            # Before a request that may kill, the answers before it have to be there.
            most = _PORTIONS if work.alone.isdisjoint(islice(work.waiting, 1)) else 1
            if len(worker.portions) < most and (portion := work.deal(len(self._workers))):
                worker.portions[worker.actor.answers.remote([requests[index] for index in portion])] = portion

    def _wait_for(self, asked: Sequence[Any]) -> Any | None:
        """One of what is asked that is answered; None if something else happened: a worker that opened is let in.

        Raises what the first worker that was refused said, if nobody is left to wait for.
        """
        waited_for = [*asked, *self._opening]
        if not waited_for:
            raise self._refusals[0]
        ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=_PATIENCE_SECONDS, fetch_local=False)
        if not (ready or asked):
            _log.warning("still waiting for workers of the Ray cluster to find room and to open the model")
        if ready and ready[0] in self._opening:
            self._admit(ready[0], self._opening.pop(ready[0]))
            return None
        return ready[0] if ready else None

    def _admit(self, reference: Any, actor: Any) -> None:
        """Let a worker in, or refuse it: then it is left where it is, so that no other is started in its place."""
        try:
            report: Report = self._ray.get(reference)
            self._require_kind(report)
        except self._ray.exceptions.RayError as error:
            refusal = getattr(error, "cause", None)
            if not isinstance(refusal, LocaljudgeError):
                why = f"a worker of the Ray cluster cannot start: {_in_one_line(error)}"
                refusal = OutOfResource(why, hint="is there memory for it, and is localjudge installed on its node?")
        except ModelError as error:
            refusal = error
        else:
            self.identity, self._kind, self.shares_prefixes = report.identity, report.kind, report.shares_prefixes
            self._workers.append(_Worker(actor, report.node))
            return
        self._refusals.append(refusal)
        _log.warning("a worker is refused: %s", printable_lines(str(refusal)))

    def _require_kind(self, report: Report) -> None:
        """Raise ModelError unless a worker is as this machine, as far as that is known, and as the first."""
        there, here = report.kind, self._kind if self.identity else {**report.kind, **self._kind}
        names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
        if names:
            lines = [f"  {name}: {excerpt(there.get(name))} there, {excerpt(here.get(name))} here" for name in names]
            raise ModelError(
                f"on node {report.node}: it would judge otherwise than this machine:\n" + "\n".join(lines),
                hint="give it the same packages, and start workers on one kind of processor, that of this machine",
            )

    def _receive(self, reference: Any | None, work: Work) -> _Pairs:
        """The answers to a portion; none if its worker died."""
        if reference is None:
            return []
        worker = next(worker for worker in self._workers if reference in worker.portions)
        try:
            pairs, self._stats[worker] = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            self._replace(worker, error)
            work.lose(list(worker.portions.values()))
            return []
        self._deaths = 0
        portion = worker.portions.pop(reference)
        return [(portion[place], answer) for place, answer in pairs]

    def _replace(self, worker: _Worker, error: Exception) -> None:
        """Start another worker for one that died. Raises OutOfResource if they do nothing else."""
        _log.warning("a worker on node %s died; what it was at is asked again", printable(worker.node))
        self._workers.remove(worker)
        # It may be there: Ray also says so of one whose answer was lost on the way.
        self._ray.kill(worker.actor)
        self._deaths += 1
        if self._deaths >= max(_MOST_DEATHS_IN_A_ROW, 2 * len(self._workers)):
            raise OutOfResource(
                f"{self._deaths} workers of the Ray cluster died one after the other, with no answer between them; of "
                f"the last one Ray says: {_in_one_line(error)}",
                hint="is there memory for so many workers? Then run the same command again to go on",
            ) from error
        self._start()


def _open_here(
    open_engine: Callable[..., Engine], file: ModelFile, settings: EngineSettings, begin_of_text: bool, typed: bool
) -> Engine:
    """The engine of the run's model on this node: at the same path, or under the name that it is registered by.

    `typed`: messages name options as on the command line. Raises ModelError if the model is another one here.
    """
    here = model_registry.find(str(file.path) if file.path.is_file() else file.source)
    if here.sha256 != file.sha256:
        raise ModelError(
            f"{here.path} is not the model of this run: sha256 {here.sha256}, and the run's is {file.sha256}",
            hint="put the same file there on every node",
        )
    with as_typed() if typed else nullcontext():
        return open_engine(file.model_copy(update={"path": here.path}), settings, begin_of_text=begin_of_text)


def _kind(identity: Mapping[str, Any]) -> dict[str, Any]:
    """An engine's identity with what it rests on besides: one build for many processors does not tell them apart."""
    return {**identity, "processor": processor_name(), **{package: version(package) for package in _PACKAGES}}


def _in_one_line(error: Exception) -> str:
    """What Ray says of a death, without the numbers that it calls things by."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("The actor is dead because")), lines[-1] if lines else "")
