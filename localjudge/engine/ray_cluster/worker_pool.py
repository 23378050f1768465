"""The workers of one judge: started, let in or refused, given portions, replaced when they die.

    started ──opens its engine──> of the judge's kind? ──> idle <──> at work
       ^                            └ no: refused, and left where it is, so that no other is started in its place
       └────────────── a worker that died, opening or at work, has another started for it

In a cluster that may grow one more worker than there is room for is always wanted: Ray starts it where a node joins.
"""

import logging
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
from localjudge.errors import LocaljudgeError, OutOfResource
from localjudge.printable import printable, printable_lines
from localjudge.types import VerdictRequest

_MOST_DEATHS_IN_A_ROW = 6
"""Workers that may die with no answer between them, where there are few; twice as many as there are workers else."""
_ON_THEIR_WAY = 8
"""Deliveries of a worker that may wait for this process: then the worker waits."""
_OTHERS_SECONDS = 60
"""So long others may still open when one has, or has been refused, and it has to be known who they are."""
_log = logging.getLogger(__name__)


class Worker:
    """One that may be given work."""

    def __init__(self, actor: Any, report: WorkerReport) -> None:
        self.actor = actor
        self.report = report


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
        self._opening: dict[Any, Any] = {}
        self._refused: list[Any] = []
        self._refusals: list[LocaljudgeError] = []
        self.idle: list[Worker] = []
        self._at_work: dict[Any, Worker] = {}
        self._begun: set[Worker] = set()
        self._deaths = 0
        if not size.workers:
            _log.warning(
                "the Ray cluster has no room for a worker yet (%s): waiting for a node that has",
                ", ".join(f"{name} {count:,}" for name, count in size.takes.items()),
            )
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
        """Wait until one is let in; or until it is known of all that there is room for, but no more than a minute."""
        while not self.count or (all_of_them and self._known < self._size.workers):
            if not self.count and self._refusals and self._known >= self._size.workers:
                raise self._refusals[0]
            if self._events(timeout=_OTHERS_SECONDS if self._known else None) is None:
                if not self.count:
                    raise self._refusals[0]
                return

    def give(self, worker: Worker, requests: Sequence[VerdictRequest], *, careful: bool) -> None:
        """Let an idle worker answer these requests."""
        self.idle.remove(worker)
        options = {"num_returns": "streaming", "_generator_backpressure_num_objects": _ON_THEIR_WAY}
        self._at_work[worker.actor.answers.options(**options).remote(list(requests), careful)] = worker

    def events(self) -> list[Event]:
        """What happened, at least one thing of those that are waited for: it may also be a worker that has opened."""
        if not self._opening and not self._at_work and not self.idle:
            raise self._refusals[-1] if self._refusals else OutOfResource("no worker is left")
        return self._events(timeout=None) or []

    def stop_work(self) -> None:
        """End those that are at work, and start others: a portion cannot be taken back from a worker."""
        for worker in list(self._at_work.values()):
            self._ray.kill(worker.actor)
            self._start()
        self._at_work.clear()
        self._begun.clear()

    def close(self) -> None:
        """End all of them."""
        workers = [worker.actor for worker in (*self.idle, *self._at_work.values())]
        for actor in (*workers, *self._opening.values(), *self._refused):
            self._ray.kill(actor)
        self.idle.clear()
        self._at_work.clear()
        self._opening.clear()
        self._refused.clear()

    @property
    def _known(self) -> int:
        return self.count + len(self._refused)

    def _start(self) -> None:
        actor = self._class.remote(self._order)
        self._opening[actor.open.remote()] = actor

    def _events(self, timeout: float | None) -> list[Event] | None:
        """None if nothing happened in so many seconds."""
        waited_for = [*self._at_work, *self._opening]
        first, _ = self._ray.wait(waited_for, num_returns=1, timeout=timeout, fetch_local=False)
        if not first:
            return None
        # All that are ready by now: to ask for each by itself would look at all of them each time.
        ready, _ = self._ray.wait(waited_for, num_returns=len(waited_for), timeout=0, fetch_local=False)
        return [event for one in ready or first for event in self._of(one)]

    def _of(self, ready: Any) -> Iterator[Event]:
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
            begun = worker in self._begun
            self._begun.discard(worker)
            _log.warning("a worker on node %s died; what it was at is asked again", printable(worker.report.node))
            yield Died(worker, begun)
            self._replace(error)
        else:
            self._begun.add(worker)
            if delivery.answers:
                self._deaths = 0
            yield Delivered(worker, delivery)
            if delivery.last:
                del self._at_work[ready]
                self._begun.discard(worker)
                self.idle.append(worker)
                yield Finished(worker)

    def _opened(self, ready: Any) -> None:
        actor = self._opening.pop(ready)
        try:
            said: WorkerReport | WorkerRefusal = self._ray.get(ready)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            self._replace(error)
            return
        refusal = said.error if isinstance(said, WorkerRefusal) else self._rule.refusal(said)
        if isinstance(said, WorkerReport) and refusal is None:
            self.idle.append(Worker(actor, said))
            _log.debug("worker %d on node %s is ready", said.pid, printable(said.node))
        elif refusal is not None:
            self._refused.append(actor)
            self._refusals.append(refusal)
            _log.warning("a worker is refused: %s", printable_lines(str(refusal)))
        if self._size.grows and not self._opening:
            self._start()

    def _replace(self, error: Exception) -> None:
        """Start another worker for one that died. Raises OutOfResource if they do nothing else."""
        self._deaths += 1
        if self._deaths >= max(_MOST_DEATHS_IN_A_ROW, 2 * self.count):
            raise OutOfResource(
                f"{self._deaths} workers of the Ray cluster died one after the other, with no answer between them; of "
                f"the last one Ray says: {_in_one_line(error)}",
                hint="is there memory for so many workers? Then run the same command again to go on",
            ) from error
        self._start()


def _in_one_line(error: Exception) -> str:
    """What Ray says of a death, without the numbers that it calls things by."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.startswith("The actor is dead because")), lines[0] if lines else "")
