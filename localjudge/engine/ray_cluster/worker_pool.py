"""The workers of one judge: started, let in or refused, given portions, replaced when they die.

    wanted ──there is room──> opens its engine ──> of the judge's kind? ──> idle <──> at work
       ^                                             └ no: refused, and left where it is, so that no other is started
       │                                               in its place
       └─────────── a worker that died, opening or at work, has another started for it

In a cluster that may grow one more worker than there is room for is always wanted: Ray starts it where a node joins.
Where a worker's process cannot even start (localjudge is not installed there) its room is free again at once, so the
next would go there and fail: that worker is not replaced, and no more are wanted.

What opens may take as long as it takes. What is wanted may find no room for ever: that is said each minute, and not
waited for once those that found room are all refused.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from localjudge.engine.ray_cluster.judge_worker import (
    Delivery,
    JudgeWorker,
    WorkerOrder,
    WorkerRefusal,
    WorkerReport,
)
from localjudge.engine.ray_cluster.same_kind import KindRule
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource
from localjudge.printable import printable, printable_lines
from localjudge.types import VerdictRequest

_MOST_DEATHS_IN_A_ROW = 6
"""Workers that may die with no answer between them, where there are few; twice as many as there are workers else."""
_MOST_DEATHS_ALONE = 30
"""Of these, that may die of requests that they were asked alone: ten requests that nobody survives, side by side."""
_ON_THEIR_WAY = 8
"""Deliveries of a worker that may wait for this process: then the worker waits."""
_PATIENCE_SECONDS = 60
"""So long it may be silent before it is said what is waited for, and before it is known who all the workers are."""
_ADDRESS = re.compile(r"\bip=([^,)\s]+)")
_log = logging.getLogger(__name__)


class Worker:
    """One that may be given work."""

    def __init__(self, actor: Any, report: WorkerReport) -> None:
        self.actor = actor
        self.report = report
        self.has_begun = False
        self.asked_alone = False


class Delivered(NamedTuple):
    """A worker sent answers."""

    worker: Worker
    delivery: Delivery


class Finished(NamedTuple):
    """A worker is through with its portion."""

    worker: Worker


class Died(NamedTuple):
    """A worker is gone; whether it had begun its portion."""

    worker: Worker
    begun: bool


Event = Delivered | Finished | Died


class PoolSize(NamedTuple):
    """How many workers are started, and whether more are wanted as nodes join; what each takes, as Ray is told it."""

    workers: int
    grows: bool
    takes: Mapping[str, float]


class WorkerPool:
    """Workers that open what the order says and are of the kind that the rule lets in.

    Raises what the first of them says if none can open the model, OutOfResource if they die again and again.
    """

    def __init__(self, ray: Any, order: WorkerOrder, size: PoolSize, rule: KindRule) -> None:
        self._ray = ray
        self._size = size
        self._rule = rule
        # In the cluster once, not once in each message to it.
        self._order = ray.put(order)
        self._class = ray.remote(**size.takes, max_restarts=0, max_task_retries=0)(JudgeWorker)
        self._grows = size.grows
        self._wanted: dict[Any, Any] = {}
        self._opening: dict[Any, Any] = {}
        self._refused: list[Any] = []
        self._refusals: list[LocaljudgeError] = []
        self.idle: list[Worker] = []
        self._at_work: dict[Any, Worker] = {}
        self._deaths = 0
        self._deaths_alone = 0
        if not size.workers:
            self._say_that_there_is_no_room()
        for _ in range(size.workers + size.grows):
            self._start()

    @property
    def count(self) -> int:
        """Workers that are idle or at work."""
        return len(self.idle) + len(self._at_work)

    @property
    def reports(self) -> list[WorkerReport]:
        """Who they are."""
        return [worker.report for worker in (*self.idle, *self._at_work.values())]

    def wait_for_first(self, *, all_of_them: bool) -> None:
        """Wait until one is let in; or until it is known of all that there is room for, but then no more than a minute.

        Raises what the first said if all are refused.
        """
        while not self.count or (all_of_them and len(self._refusals) + self.count < self._size.workers):
            all_known = len(self._refusals) >= self._size.workers
            if not self.count and self._refusals and all_known and not self._opening:
                raise self._refusals[0]
            if self._events() is None:
                if self.count:
                    return
                self._require_hope()

    def give(self, worker: Worker, requests: Sequence[VerdictRequest], *, careful: bool) -> None:
        """Let an idle worker answer these requests."""
        self.idle.remove(worker)
        worker.has_begun = False
        worker.asked_alone = len(requests) == 1
        options = {"num_returns": "streaming", "_generator_backpressure_num_objects": _ON_THEIR_WAY}
        self._at_work[worker.actor.answers.options(**options).remote(list(requests), careful)] = worker

    def events(self) -> list[Event]:
        """What happened, at least one thing of those that are waited for: it may also be a worker that has opened."""
        while (happened := self._events()) is None:
            if not self.count:
                self._require_hope()
        return happened

    def stop_work(self) -> None:
        """End those that are at work, and start others: a portion cannot be taken back from a worker."""
        for worker in list(self._at_work.values()):
            self._ray.kill(worker.actor)
            self._start()
        self._at_work.clear()

    def close(self) -> None:
        """End all of them."""
        workers = [worker.actor for worker in (*self.idle, *self._at_work.values())]
        for actor in (*workers, *self._wanted.values(), *self._opening.values(), *self._refused):
            self._ray.kill(actor)
        self.idle.clear()
        self._at_work.clear()
        self._wanted.clear()
        self._opening.clear()
        self._refused.clear()

    def _start(self) -> None:
        actor = self._class.remote(self._order)
        self._wanted[actor.started.remote()] = actor

    def _require_hope(self) -> None:
        """Say what is waited for, though nobody works. Raises if it is for room alone, and who had room was refused."""
        if self._opening:
            _log.warning("still waiting for %d workers of the Ray cluster to open the model", len(self._opening))
        elif self._refusals:
            raise self._refusals[-1]
        else:
            self._say_that_there_is_no_room()

    def _say_that_there_is_no_room(self) -> None:
        takes = ", ".join(f"{name} {count:,}" for name, count in self._size.takes.items())
        _log.warning("the Ray cluster has no room for a worker yet (%s): waiting for a node that has", takes)

    def _events(self) -> list[Event] | None:
        """None if nothing happened for a minute. Raises if there is nobody left who could do anything."""
        waited_for = [*self._at_work, *self._opening, *self._wanted]
        if not waited_for and not self.idle:
            raise self._refusals[-1] if self._refusals else OutOfResource("no worker is left")
        first, _ = self._ray.wait(waited_for, num_returns=1, timeout=_PATIENCE_SECONDS, fetch_local=False)
        if not first:
            return None
        # All that are ready by now: to ask for each by itself would look at all of them each time.
        ready, _ = self._ray.wait(waited_for, num_returns=len(waited_for), timeout=0, fetch_local=False)
        return [event for one in ready or first for event in self._of(one)]

    def _of(self, ready: Any) -> Iterator[Event]:
        if ready in self._wanted:
            self._started(ready)
            return
        if ready in self._opening:
            self._opened(ready)
            return
        worker = self._at_work[ready]
        try:
            delivery: Delivery = self._ray.get(next(ready))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            del self._at_work[ready]
            _log.warning("a worker on node %s died; what it was at is asked again", printable(worker.report.node))
            yield Died(worker, worker.has_begun)
            self._replace(worker.actor, error, alone=worker.has_begun and worker.asked_alone)
        else:
            worker.has_begun = True
            if delivery.answers:
                self._deaths = self._deaths_alone = 0
            yield Delivered(worker, delivery)
            if delivery.last:
                del self._at_work[ready]
                self.idle.append(worker)
                yield Finished(worker)

    def _started(self, ready: Any) -> None:
        actor = self._wanted.pop(ready)
        try:
            self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            if isinstance(error, self._ray.exceptions.RayActorError) and error.actor_init_failed:
                self._grows = False
                self._refuse(_cannot_start(self._node_of(error), error))
            else:
                self._replace(actor, error)
            return
        # Not before: Ray may hold the word of the start back until what was asked with it is done.
        self._opening[actor.open.remote()] = actor
        if self._grows and not self._wanted:
            self._start()

    def _opened(self, ready: Any) -> None:
        actor = self._opening.pop(ready)
        try:
            said: WorkerReport | WorkerRefusal = self._ray.get(ready)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            self._replace(actor, error)
            return
        refusal = said.error if isinstance(said, WorkerRefusal) else self._rule.refusal(said)
        if isinstance(said, WorkerReport) and refusal is None:
            self.idle.append(Worker(actor, said))
            _log.debug("worker %d on node %s is ready", said.pid, printable(said.node))
        elif refusal is not None:
            self._refused.append(actor)
            self._refuse(refusal)

    def _refuse(self, refusal: LocaljudgeError) -> None:
        self._refusals.append(refusal)
        _log.warning("a worker is refused: %s", printable_lines(str(refusal)))

    def _node_of(self, error: Exception) -> str:
        """The name of the node that Ray gives the address of; that, where the node is gone."""
        address = found[1] if (found := _ADDRESS.search(str(error))) else "unknown"
        names = {node["NodeManagerAddress"]: node["NodeManagerHostname"] for node in self._ray.nodes()}
        return str(names.get(address, address))

    def _replace(self, actor: Any, error: Exception, *, alone: bool = False) -> None:
        """Start another worker for one that died. Raises OutOfResource if they do nothing else.

        One that died of a request which it was asked `alone` is the request's: the queue counts it, too, and sets it
        aside, so that one beside it which kills as well does not make the row of deaths complete.
        """
        # It may be there: Ray also says so of one whose answer was lost on the way.
        self._ray.kill(actor)
        self._deaths += not alone
        self._deaths_alone += alone
        most = max(_MOST_DEATHS_IN_A_ROW, 2 * self.count)
        if self._deaths >= most or self._deaths_alone >= max(_MOST_DEATHS_ALONE, most):
            raise OutOfResource(
                f"{self._deaths + self._deaths_alone} workers of the Ray cluster died one after the other, with no "
                f"answer between them; of the last one Ray says: {_in_one_line(error)}",
                hint="is there memory for so many workers? Then run the same command again to go on",
            ) from error
        self._start()


def _cannot_start(node: str, error: Exception) -> ModelError:
    """What is said of a worker whose process could not read what it is to do."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ModelError(
        f"on node {node}: a worker cannot start: {lines[-1] if lines else 'Ray does not say why'}",
        hint="install localjudge there, in the same version and with the same packages as here",
    )


def _in_one_line(error: Exception) -> str:
    """What Ray says of a death, without the numbers that it calls things by."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.startswith("The actor is dead because")), lines[0] if lines else "")
