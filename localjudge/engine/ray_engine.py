"""Engine with workers in a Ray cluster, either an existing one or one started on this machine.

    this process     identity, lengths, chat template: a vocabulary without weights
    requests ──depth first──> portions ──> worker ──> in-process engine with the model file of its node
                                             └──answers of a portion──> the store of the run

Identity and answers equal those of an in-process engine, so a run may start without Ray and resume with it, or the
other way round, and either can verify it. A worker with another identity, package version or processor is refused. If
a worker dies, another one gets its unanswered requests one at a time. After `_MOST_DEATHS` deaths a request is set
aside and reported once all others are answered.

A local cluster ends with its last engine. It listens on the loopback interface only, requires a token, and keeps its
files in a temporary folder. Environment variables configure this when Ray is imported and started.
"""

import logging
import os
import platform
import secrets
import signal
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from ipaddress import ip_address
from itertools import pairwise
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
from localjudge.errors import InputError, LocaljudgeError, ModelError, OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.record.directory import excerpt
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest
from localjudge.words import numbered, option, option_name, printable, printable_lines

LOCAL = "local"
_IMPORTED = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # our error says what Ray says of a connection that fails
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # and a warning of ours that a worker died
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # else Ray looks for a missing cluster for a quarter of an hour
}
_STARTED = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # without clusters of several machines, all listens on loopback
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_worker_niceness": "0",  # workers run with the priority of a judge in process,
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # and see its GPUs
}
_QUIETLY = {"log_to_driver": False, "configure_logging": False}
_OBJECT_STORE_BYTES = 128 << 20
"""Memory for requests and answers in transit. Ray's default is a third of the memory."""
_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core")
_PORTION = 8
"""Number of requests with the same context that a worker answers before it returns them."""
_MOST_DEATHS = 3
"""Maximum number of workers lost to a single request."""
_MOST_DEATHS_IN_A_ROW = 12
"""Maximum number of workers lost without an answer in between, or twice the number of workers if larger."""
_PATIENCE_SECONDS = 60
_log = logging.getLogger(__name__)
_Pairs = list[tuple[int, Answer | NoAnswer]]
_lock = threading.Lock()
_addresses: list[str] = []
"""Addresses of this process's engines, which share one connection."""
_undo = ExitStack()


@contextmanager
def connected(address: str, processors: int) -> Iterator[Any]:
    """Yield Ray connected to `local`, `auto` or host:port. `processors` is the size of a local cluster.

    Uses an existing connection of the program unchanged. Raises InputError if Ray is missing, the address has no
    cluster, or Ray does not start.
    """
    with _lock:
        try:
            with _environment(_IMPORTED | (_STARTED if address == LOCAL else {})):
                import ray
        except ImportError as error:
            raise InputError(
                f"{option_name('ray')} needs the package ray: {error}", hint="install it with: pip install ray"
            ) from error
        if _addresses and _addresses[0] != address:
            raise InputError(
                f"this process is in the Ray cluster {_addresses[0]} already, and not in {address}",
                hint="close the judges that are open there first",
            )
        if "://" in address:
            raise InputError(f"{address} is not the address of a cluster's head", hint="use HOST:6379")
        if not ray.is_initialized():
            _connect(ray, address, processors)
        _addresses.append(address)
    try:
        yield ray
    finally:
        with _lock:
            _addresses.pop()
            if not _addresses:
                _undo.close()


def _connect(ray: Any, address: str, processors: int) -> None:
    """Connect until `_undo` is closed. Raises InputError on failure."""
    with ExitStack() as undo:
        logger = logging.getLogger("ray")
        undo.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        before = signal.getsignal(signal.SIGTERM)
        try:
            if address == LOCAL:
                _start(ray, processors, undo)
            else:
                undo.callback(ray.shutdown)
                ray.init(address=address, **_QUIETLY)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"Ray cannot be used ({address}): {' '.join(str(error).split())}",
                hint=f"name HOST:6379 of a head node, or use {option('ray', LOCAL)}",
            ) from error
        finally:
            # Ray answers SIGTERM in its own way: a run that is stopped ends as without Ray.
            if before is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        _undo.push(undo.pop_all())


def _start(ray: Any, processors: int, undo: ExitStack) -> None:
    folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="localjudge-", ignore_cleanup_errors=True))
    undo.enter_context(_environment(_STARTED | {"RAY_TMPDIR": folder}))
    undo.callback(ray.shutdown)
    store = {"num_cpus": processors, "object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    ray.init(address="local", **store, **_QUIETLY)
    where = ray.nodes()[0]["NodeManagerAddress"]
    if not ip_address(where).is_loopback:
        raise RuntimeError(f"it would listen at {where}, where other machines can reach it")


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


class InProcess(NamedTuple):
    """What opens a model's file: a worker its `engine`, the process that gives it work the rest."""

    engine: Callable[..., Engine]
    outline: Callable[[ModelFile, EngineSettings], ModelOutline]
    counter: Callable[..., TokenCounter]


class Report(NamedTuple):
    """Description of a worker. Workers with an equal `kind` give the same bytes."""

    node: str
    kind: dict[str, Any]
    identity: dict[str, Any]
    shares_prefixes: bool


class JudgeWorker:
    """Ray actor with one engine, opened from the model file on its node."""

    def open(self, open_engine: Callable[[], Engine]) -> Report:
        """Open the engine. Raises model and memory errors with the node's name."""
        node = platform.node()
        try:
            self._engine = open_engine()
        except LocaljudgeError as error:
            raise type(error)(f"on node {node}: {error.message}", hint=error.hint) from error
        return Report(node, _kind(self._engine.identity), self._engine.identity, self._engine.shares_prefixes)

    def answers(self, requests: Sequence[VerdictRequest]) -> tuple[_Pairs, EngineStats]:
        """Return the answers by position in the portion, and the work done so far."""
        return list(self._engine.answers(requests)), self._engine.stats


class Work:
    """Queue of the requests of one call until each is answered or set aside. Independent of Ray."""

    def __init__(self, requests: Sequence[VerdictRequest]) -> None:
        paths = [request.path for request in requests]
        order = list(depth_first(paths))
        # After the first, each request that shares no context with the one before it.
        self._begins = {after for before, after in pairwise(order) if shared_nodes(paths[before], paths[after]) <= 1}
        self.waiting = deque(order)
        self._alone: set[int] = set()
        """Requests held by a worker when it died."""
        self._deaths: Counter[int] = Counter()
        self.set_aside: list[int] = []
        """Requests that ended `_MOST_DEATHS` workers."""

    def deal(self) -> list[int]:
        """Return the next portion for a worker, empty if no request is waiting."""
        portion: list[int] = []
        while self.waiting and len(portion) < _PORTION:
            following = self.waiting[0]
            if portion and (following in self._begins or not self._alone.isdisjoint((portion[0], following))):
                break
            portion.append(self.waiting.popleft())
        return portion

    def lose(self, portion: Sequence[int]) -> None:
        """Return the requests of a dead worker to the queue, to be dealt one by one."""
        if len(portion) == 1:
            self._deaths[portion[0]] += 1
            if self._deaths[portion[0]] >= _MOST_DEATHS:
                self.set_aside += portion
                return
        self._alone.update(portion)
        self.waiting.extendleft(reversed(portion))


class RayEngine:
    """Answer requests with the workers of a Ray cluster, each with the model in memory.

    Raises InputError without Ray or a cluster, ModelError if no worker can open the model or matches this machine.
    """

    def __init__(
        self, file: ModelFile, settings: EngineSettings, in_process: InProcess, *, begin_of_text: bool = True
    ) -> None:
        outline = in_process.outline(file, settings)
        self._kind = _kind(outline.identity)
        self.identity: dict[str, Any] = {}
        self.memory_bytes = outline.memory_bytes
        """Memory of one worker in bytes."""
        self._actors: list[Any] = []
        self._opening: dict[Any, Any] = {}
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, list[int]]] = {}
        self._refusals: list[LocaljudgeError] = []
        self._deaths = 0
        self._stats: dict[int, EngineStats] = {}
        self._seconds = 0.0
        with ExitStack() as undo:
            threads = settings.threads or 1
            processors = max(EngineSettings().used_threads, threads * (settings.ray_workers or 1))
            self._ray = undo.enter_context(connected(settings.ray or LOCAL, processors))
            undo.callback(self._end_actors)
            of_worker = EngineSettings(n_ctx=settings.n_ctx, threads=threads, gpu_layers=settings.gpu_layers)
            self._open_engine = partial(_open_here, in_process.engine, file, of_worker, begin_of_text)
            for _ in range(self._count(settings, outline)):
                self._start_worker()
            while not self._idle:
                self._receive(Work([]))
            # Not before: a file that no worker has tried may end the process that opens it.
            self._counter = counter = in_process.counter(file, settings, begin_of_text=begin_of_text)
            undo.callback(counter.close)
            self._undo = undo.pop_all()
        self.name, self.capacity = counter.name, counter.capacity
        self.metadata = counter.metadata if isinstance(counter, DescribedEngine) else {}
        self.length, self.distinct_tokens = counter.length, counter.distinct_tokens

    @property
    def chat_ends(self) -> ChatEnds | None:
        """Text that the model's chat template puts around a message, or None."""
        return self._counter.chat_ends

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The model's chat template if it only supports conversations, otherwise None."""
        return self._counter.chat_without_ends if isinstance(self._counter, DescribedEngine) else None

    @property
    def works_at_once(self) -> int:
        """Current number of workers."""
        return max(1, len(self._idle) + len(self._busy))

    @property
    def stats(self) -> EngineStats:
        """Work of all workers, including dead ones. `seconds_total` is the time passed in this process."""
        done = [stats.model_dump() for stats in self._stats.values()]
        summed = {name: sum(work[name] for work in done) for name in EngineStats.model_fields}
        return EngineStats(**{**summed, "seconds_total": self._seconds})

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer every request as soon as a worker returns its portion.

        Raises OutOfResource if workers die repeatedly, or after all other answers if one request ends its workers.
        """
        work = Work(requests)
        self._idle += [actor for actor, _ in self._busy.values()]  # of a call that was not read to its end
        self._busy.clear()
        began = perf_counter()
        while self._deal(work, requests):
            answers = self._receive(work)
            self._deal(work, requests)  # before they are stored, so that no worker waits for that
            self._seconds += perf_counter() - began
            yield from answers
            began = perf_counter()
        if work.set_aside:
            question = requests[work.set_aside[0]].path[-1]
            text = "".join(piece.text for piece in question if not piece.trusted)
            raise OutOfResource(
                f"{_MOST_DEATHS} workers died of the question about {printable(text[:80])!r} "
                f"({numbered(len(work.set_aside), 'such question')}); all others are answered and stored",
                hint="give the workers more memory, or leave its sample out of the data, and run the command again",
            )

    def close(self) -> None:
        """Stop the workers, and the cluster if this process started it."""
        self._undo.close()

    def _end_actors(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)

    def _count(self, settings: EngineSettings, outline: ModelOutline) -> int:
        # GPUs of this machine are not shared out: each worker sees all of them, as an engine in process does.
        gpus = int(outline.uses_gpu and settings.ray != LOCAL)
        cpus, memory = settings.threads or 1, outline.memory_bytes
        self._class = self._ray.remote(num_cpus=cpus, memory=memory, num_gpus=gpus, max_restarts=0)(JudgeWorker)
        cluster, takes = self._ray.cluster_resources(), {"CPU": cpus, "memory": memory, "GPU": gpus}
        room = int(min(cluster.get(resource, 0) // count for resource, count in takes.items() if count))
        if not room and settings.ray == LOCAL:
            raise OutOfResource(f"Ray has no room for a worker here, which takes {takes}", hint="free memory")
        return settings.ray_workers or max(1, room)

    def _start_worker(self) -> None:
        actor = self._class.remote()
        self._actors.append(actor)
        self._opening[actor.open.remote(self._open_engine)] = actor

    def _deal(self, work: Work, requests: Sequence[VerdictRequest]) -> bool:
        """Assign waiting requests to idle workers. Return whether any work is in progress."""
        while self._idle and (portion := work.deal()):
            actor = self._idle.pop()
            self._busy[actor.answers.remote([requests[index] for index in portion])] = actor, portion
        return bool(self._busy or work.waiting)

    def _receive(self, work: Work) -> _Pairs:
        """Return the answers to a portion, or none if a worker opened, died or timed out.

        Raises the error of the first refused worker if no worker is left.
        """
        waited_for = [*self._busy, *self._opening]
        if not waited_for:
            raise self._refusals[0]
        ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=_PATIENCE_SECONDS, fetch_local=False)
        if not (ready or self._busy):
            _log.warning("still waiting for workers of the Ray cluster to find room and to open the model")
        if not ready:
            return []
        if ready[0] in self._opening:
            self._admit(ready[0], self._opening.pop(ready[0]))
            return []
        actor, portion = self._busy.pop(ready[0])
        try:
            pairs, self._stats[id(actor)] = self._ray.get(ready[0])
        except self._ray.exceptions.RayTaskError as error:
            self._idle.append(actor)
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            self._replace(actor, error)
            work.lose(portion)
            return []
        self._idle.append(actor)
        self._deaths = 0
        return [(portion[place], answer) for place, answer in pairs]

    def _admit(self, reference: Any, actor: Any) -> None:
        """Accept or refuse a worker. A refused worker keeps its place so that Ray does not start another there."""
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
            self._idle.append(actor)
            return
        self._refusals.append(refusal)
        _log.warning("a worker is refused: %s", printable_lines(str(refusal)))

    def _require_kind(self, report: Report) -> None:
        """Raise ModelError unless a worker matches this machine and the first worker."""
        there, here = report.kind, self._kind if self.identity else {**report.kind, **self._kind}
        names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
        if names:
            lines = [f"  {name}: {excerpt(there.get(name))} there, {excerpt(here.get(name))} here" for name in names]
            raise ModelError(
                f"on node {report.node}: its answers would differ from this machine's:\n" + "\n".join(lines),
                hint="give it the same packages, and start workers on this machine's kind of processor",
            )

    def _replace(self, actor: Any, error: Exception) -> None:
        """Replace a dead worker. Raises OutOfResource after too many deaths in a row."""
        _log.warning("a worker of the Ray cluster died; its questions are asked again")
        # It may be there: Ray also says so of one whose answer was lost on the way.
        self._ray.kill(actor)
        self._deaths += 1
        if self._deaths >= max(_MOST_DEATHS_IN_A_ROW, 2 * self.works_at_once):
            raise OutOfResource(
                f"{self._deaths} workers of the Ray cluster died one after the other, with no answer between them: "
                f"{_in_one_line(error)}",
                hint="use fewer workers if memory is short, and run the same command again to go on",
            ) from error
        self._start_worker()


def _open_here(
    open_engine: Callable[..., Engine], file: ModelFile, settings: EngineSettings, begin_of_text: bool
) -> Engine:
    """Open the run's model on this node by path or registered name. Raises ModelError if its bytes differ."""
    here = model_registry.find(str(file.path) if file.path.is_file() else file.source)
    if here.sha256 != file.sha256:
        raise ModelError(
            f"{here.path} is not the model of this run: sha256 {here.sha256}, and the run's is {file.sha256}",
            hint="put the same file there on every node",
        )
    return open_engine(file.model_copy(update={"path": here.path}), settings, begin_of_text=begin_of_text)


def _kind(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity plus processor data, because one build may choose different code on different processors."""
    return {**identity, "processor": processor_name(), **{package: version(package) for package in _PACKAGES}}


def _in_one_line(error: Exception) -> str:
    """Return Ray's message about a death without object ids."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("The actor is dead because")), lines[-1] if lines else "")
