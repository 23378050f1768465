"""What runs in each worker process: one engine, opened from the model's file, which answers portion by portion.

Every worker opens the file that lies on its own node, proves by sha256 that it is the run's, and checks itself as an
engine in process does; what it reports is compared before it is asked anything.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.hardware import processor_name
from localjudge.engine.protocol import Engine, EngineStats
from localjudge.errors import LocaljudgeError, ModelError, OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.option_spelling import as_typed
from localjudge.types import Answer, NoAnswer, VerdictRequest

OpenEngine = Callable[[ModelFile, EngineSettings, bool | None], Engine]
"""Opens a model's file in this process; the last argument is `begin_of_text`."""
_SENT_AFTER = 0.5
"""Seconds that answers may wait for others, so that a fast judge does not send each by itself."""
_WORD_IS_OUT = 0.02
"""Seconds in which it is heard that a portion is begun, before what may end this process."""
_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core")


class WorkerOrder(NamedTuple):
    """What a worker is to open; `typed`: options in messages are called as on the command line."""

    file: ModelFile
    settings: EngineSettings
    begin_of_text: bool | None
    open_engine: OpenEngine
    typed: bool


class WorkerReport(NamedTuple):
    """Who a worker is, once its engine is open: `versions` are of the packages that turn requests into answers.

    `processor` is the name of the kind; "" where its system does not tell.
    """

    node: str
    pid: int
    processor: str
    identity: dict[str, Any]
    versions: dict[str, str]
    forks: bool


class WorkerRefusal(NamedTuple):
    """Why a worker cannot open its engine; `passing` where it may later on."""

    node: str
    message: str
    hint: str | None
    passing: bool

    @property
    def error(self) -> LocaljudgeError:
        """The same as it is raised."""
        return (OutOfResource if self.passing else ModelError)(f"on node {self.node}: {self.message}", hint=self.hint)


class Delivery(NamedTuple):
    """Answers by their place in the portion, what the worker has done so far, and whether the portion is done."""

    answers: list[tuple[int, Answer | NoAnswer]]
    stats: EngineStats
    last: bool


def package_versions() -> dict[str, str]:
    """The packages that an answer rests on, as this process has them."""
    return {package: version(package) for package in _PACKAGES}


class JudgeWorker:
    """The actor. Nothing is opened before `open`, which says what is wrong and raises nothing of ours."""

    def __init__(self, order: WorkerOrder) -> None:
        self._order = order
        self._engine: Engine | None = None

    def started(self) -> None:
        """Nothing: answered once the cluster has had room for the actor, and its process is there."""

    def open(self) -> WorkerReport | WorkerRefusal:
        """Open the engine."""
        order, node = self._order, platform.node()
        try:
            with as_typed() if order.typed else nullcontext():
                engine = order.open_engine(_file_here(order.file), order.settings, order.begin_of_text)
        except LocaljudgeError as error:
            return WorkerRefusal(node, error.message, error.hint, isinstance(error, OutOfResource))
        self._engine = engine
        return WorkerReport(node, os.getpid(), processor_name(), engine.identity, package_versions(), engine.forks)

    def answers(self, requests: Sequence[VerdictRequest], careful: bool) -> Iterator[Delivery]:
        """Answer a portion; first an empty delivery, which says that it is begun."""
        assert self._engine is not None, "open was called"
        yield Delivery([], self._engine.stats, last=False)
        if careful:
            time.sleep(_WORD_IS_OUT)
        ready: list[tuple[int, Answer | NoAnswer]] = []
        sent = time.monotonic()
        for pair in self._engine.answers(requests):
            ready.append(pair)
            if careful or time.monotonic() - sent >= _SENT_AFTER:
                yield Delivery(ready, self._engine.stats, last=False)
                ready, sent = [], time.monotonic()
        yield Delivery(ready, self._engine.stats, last=True)


def _file_here(file: ModelFile) -> ModelFile:
    """The run's model on this node: at the same path, or under the name that it is registered by.

    Raises ModelError if it is not there, or is another one.
    """
    found = model_registry.find(str(file.path) if file.path.is_file() else file.source)
    if found.sha256 != file.sha256:
        raise ModelError(
            f"{found.path} is not the model of this run: sha256 {found.sha256}, and the run's is {file.sha256}",
            hint="put the same file there on every node",
        )
    return file.model_copy(update={"path": found.path})
