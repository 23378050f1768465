"""Answer requests by workers on the nodes of a Ray cluster, each with the model in memory.

    this process   lengths and identity by its own engine; store and results as usual
        └── groups of requests that share a prefix ──> worker on a node ──> their answers

A node is not used if its engine has another identity, so one process would give the same bytes.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from localjudge.engine.protocol import Engine, EngineStats, depth_first
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource
from localjudge.progress import Progress
from localjudge.types import Answer, NoAnswer, VerdictRequest
from localjudge.words import numbered, printable

MAX_REPEATS = 3
"""How often a group is asked again after its worker was lost."""
_MAX_SIZE = 32
Group = tuple[int, ...]
"""Indices of requests that share a prefix."""
Answered = tuple[int, Answer | NoAnswer]
_LOOK_SECONDS = 5.0
_HINT = "start nodes with this machine's packages and model, and run the same command again"
_log = logging.getLogger(__name__)


class Node(NamedTuple):
    """A machine of the cluster."""

    id: str
    name: str


class Worker:
    """Ray actor: an open engine on a node."""

    def open(self, open_engine: Callable[[], Engine]) -> bool:
        self._engine = open_engine()
        return True

    def answers(self, requests: Sequence[VerdictRequest]) -> tuple[list[Answered], EngineStats]:
        before = self._engine.stats
        answers = list(self._engine.answers(requests))
        return answers, self._engine.stats.since(before)


class RayEngine:
    """Answer by one worker per `threads` processors of each node, and of nodes that join later.

    In everything else it is `engine`; `open_engine` opens one like it, or raises ModelError.
    """

    def __init__(
        self, engine: Engine, open_engine: Callable[[], Engine], threads: int, progress: Progress
    ) -> None:
        self._engine = engine
        self._open_engine = open_engine
        self._threads = threads
        self._gpus = int(bool(engine.identity["gpu_layers"]))
        self._progress = progress
        # Workers by the call that opens their model, with their node; then by worker.
        self._opening: dict[Any, tuple[Any, Node]] = {}
        self._ready: dict[Any, Node] = {}
        self._idle: deque[Any] = deque()
        self._losses: Counter[Node] = Counter()
        self._excluded: dict[Node, str] = {}
        self._next_look = 0.0
        self._reported = ""
        self.stats = EngineStats()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def workers(self) -> int:
        return sum(self._find_room().values())

    @property
    def place(self) -> str:
        nodes = numbered(len(set(self._ready.values())), "node")
        place = f"{numbered(len(self._ready), 'worker')} on {nodes}"
        return f"{place}, {len(self._opening)} starting" if self._opening else place

    def start_workers(self) -> str:
        """Start the workers, wait for them, and return their places."""
        while self._opening or not self._ready:
            self._wait([])
        return self.place

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[Answered]:
        began = time.perf_counter()
        waiting = deque(group_by_prefix(requests))
        losses: Counter[Group] = Counter()
        running: dict[Any, tuple[Any, Group]] = {}
        try:
            while waiting or running:
                while waiting and self._idle:
                    worker = self._idle.popleft()
                    group = waiting.popleft()
                    asked = worker.answers.remote([requests[index] for index in group])
                    running[asked] = (worker, group)
                for reference in self._wait(list(running)):
                    worker, group = running.pop(reference)
                    result = self._result(reference)
                    if result is None:
                        self._lose(worker, self._ready.pop(worker))
                        ask_again(group, waiting, losses)
                        continue
                    self._idle.append(worker)
                    self._losses[self._ready[worker]] = 0
                    answers, work = result
                    self.stats = self.stats.plus(work.model_copy(update={"seconds_total": 0.0}))
                    for position, answer in answers:
                        yield group[position], answer
        finally:
            self._idle.extend(worker for worker, _ in running.values())
            self.stats = self.stats.plus(EngineStats(seconds_total=time.perf_counter() - began))

    def close(self) -> None:
        for worker in [*self._ready, *(worker for worker, _ in self._opening.values())]:
            ray.kill(worker)
        self._engine.close()

    def _wait(self, running: list[Any]) -> list[Any]:
        """Wait for results, workers and nodes. Returns the references of results."""
        if time.monotonic() >= self._next_look:
            self._start_missing()
            self._report()
        if not running and not self._opening:
            reasons = "; ".join(self._excluded.values()) or f"none has {self._threads} threads"
            kind = OutOfResource if self._losses else ModelError
            raise kind(f"no node of the Ray cluster can judge: {reasons}", hint=_HINT)
        ready, _ = ray.wait([*running, *self._opening], timeout=_LOOK_SECONDS)
        for reference in ready:
            if reference in self._opening:
                self._admit(reference, *self._opening.pop(reference))
        return [reference for reference in running if reference in ready]

    def _start_missing(self) -> None:
        """Start the missing workers: one on a new node, the others when it is ready."""
        self._next_look = time.monotonic() + _LOOK_SECONDS
        present = Counter([*self._ready.values(), *(node for _, node in self._opening.values())])
        actor = ray.remote(num_cpus=self._threads, num_gpus=self._gpus)(Worker)
        for node, room in self._find_room().items():
            wanted = room if node in self._ready.values() else min(room, 1)
            on_node = NodeAffinitySchedulingStrategy(node.id, soft=False)
            for _ in range(present[node], wanted):
                worker = actor.options(scheduling_strategy=on_node).remote()
                self._opening[worker.open.remote(self._open_engine)] = (worker, node)

    def _find_room(self) -> dict[Node, int]:
        """Return for how many workers each usable node has room."""
        room: dict[Node, int] = {}
        for facts in ray.nodes():
            if not facts["Alive"]:
                continue
            node = Node(facts["NodeID"], f"{facts['NodeManagerHostname']} ({facts['NodeName']})")
            if node in self._excluded:
                continue
            count = facts["Resources"].get("CPU", 0) // self._threads
            if self._gpus:
                count = min(count, facts["Resources"].get("GPU", 0) // self._gpus)
            room[node] = int(count)
        return room

    def _admit(self, opened: Any, worker: Any, node: Node) -> None:
        """Take a worker that has opened the model, or exclude its node."""
        try:
            if self._result(opened) is None:
                self._lose(worker, node)
                return
        except LocaljudgeError as error:
            self._lose(worker, node, error.message)
            return
        self._ready[worker] = node
        self._idle.append(worker)
        self._start_missing()
        if not self._opening:
            self._report()

    def _report(self) -> None:
        if self.place != self._reported:
            self._progress.note(f"Ray: {self.place}")
        self._reported = self.place

    def _result(self, reference: Any) -> Any:
        """Return a worker's result, or None if it was lost. Raises its error."""
        try:
            return ray.get(reference)
        except RayTaskError as error:
            if isinstance(error.cause, LocaljudgeError):
                raise error.cause from error
            raise
        except RayError as error:
            if "creation task" in str(error):  # this package is not there
                raise ModelError(str(error).strip().splitlines()[-1]) from error
            return None

    def _lose(self, worker: Any, node: Node, refusal: str = "") -> None:
        """Let another worker replace one, unless its node refuses or loses one after the other."""
        ray.kill(worker)  # it may be there: perhaps only its answer was lost
        self._next_look = 0.0
        if not refusal:
            _log.warning(printable(f"a worker on node {node.name} was lost"))
            self._losses[node] += 1
        if self._losses[node] > MAX_REPEATS:
            refusal = f"it lost {self._losses[node]} workers without an answer between them"
        if refusal:
            self._excluded[node] = printable(f"node {node.name} is not used: {refusal}")
            _log.warning(self._excluded[node])


def group_by_prefix(requests: Sequence[VerdictRequest]) -> list[Group]:
    """Return groups of requests that share all nodes but the last, in the order of evaluation."""
    order = depth_first([request.path for request in requests])
    groups: list[Group] = []
    for _, indices in groupby(order, key=lambda index: requests[index].path[:-1]):
        while part := tuple(islice(indices, _MAX_SIZE)):
            groups.append(part)
    return groups


def ask_again(group: Group, waiting: deque[Group], losses: Counter[Group]) -> None:
    """Put the group of a lost worker before the `waiting` ones, and count its `losses`.

    Raises OutOfResource after too many losses.
    """
    losses[group] += 1
    if losses[group] > MAX_REPEATS:
        problem = f"{losses[group]} workers were lost while they answered the same questions"
        hint = "check the memory of the machines, and run the same command again to resume"
        raise OutOfResource(problem, hint=hint)
    waiting.appendleft(group)
