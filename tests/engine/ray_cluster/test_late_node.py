"""A cluster that somebody else started: joined by its address, left as it was, and larger while a run goes on."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.ray_cluster import worker_pool
from localjudge.engine.ray_cluster.ray_engine import RayEngine
from localjudge.errors import ModelError
from localjudge.types import NoAnswer
from tests.engine.conftest import Asker
from tests.engine.ray_cluster.scripted_workers import SCRIPTED, asked_by, model_in, said

ray = pytest.importorskip("ray", reason="NOT CHECKED: the extra ray is not installed")
ONE_PROCESSOR: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head node with one processor."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    started = Cluster(initialize_head=True, head_node_args=ONE_PROCESSOR)
    yield started
    started.shutdown()


def test_a_node_that_joins_late_helps_and_one_that_goes_loses_nothing(cluster: Any, ask: Asker, tmp_path: Path) -> None:
    """One worker of one processor; behind the tenth answer a node joins, and goes when its worker has answered some."""
    (tmp_path / "pause").write_text("0.05")
    requests = [ask(f"unit {number}", [f"context {number // 3}"]) for number in range(200)]
    answers: dict[int, Any] = {}
    late: Any = None
    gone = False
    settings = EngineSettings(ray=cluster.address)
    with closing(RayEngine(model_in(tmp_path), settings, SCRIPTED)) as engine:
        assert engine.works_at_once == 1
        for index, answer in engine.answers(requests):
            answers[index] = answer
            if len(answers) == 10:
                late = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
            if engine.works_at_once == 2 and not gone and len({pid for pid, _ in asked_by(tmp_path)}) == 2:
                cluster.remove_node(late, allow_graceful=False)
                gone = True
        assert len({worker.pid for worker in engine.workers}) == 1
    assert gone, "nobody came late"
    assert not any(isinstance(answer, NoAnswer) for answer in answers.values())
    assert [answers[index].p_yes for index in range(200)] == list(map(said, requests))
    assert not ray.is_initialized()
    assert _nodes(cluster), "the cluster ended with the engine"


class AtFirstWarning(logging.Handler):
    """Does something when localjudge first says what it waits for."""

    def __init__(self, do: Callable[[], object]) -> None:
        super().__init__(logging.WARNING)
        self.do = do
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take notice."""
        self.said.append(record.getMessage())
        if len(self.said) == 1:
            self.do()


def test_workers_that_find_no_room_are_spoken_of_and_one_that_was_let_in_and_died_is_not_waited_for(
    cluster: Any, ask: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processors are wanted where there is one, until a node has them. Its worker dies, and the next is refused."""
    monkeypatch.setattr(worker_pool, "_PATIENCE_SECONDS", 1)
    handler = AtFirstWarning(lambda: cluster.add_node(num_cpus=2, object_store_memory=100 << 20))
    logger = logging.getLogger(worker_pool.__name__)
    logger.addHandler(handler)
    (tmp_path / "kinds").write_text("0")
    settings = EngineSettings(ray=cluster.address, threads=2, ray_workers=2)
    try:
        with closing(RayEngine(model_in(tmp_path), settings, SCRIPTED)) as engine:
            assert handler.said == [
                "the Ray cluster has no room for a worker yet (num_cpus 2, memory 0): waiting for a node that has"
            ]
            with pytest.raises(ModelError, match="kind: 1 there, 0 here"):
                list(engine.answers([ask("deadly"), ask("b")]))
    finally:
        logger.removeHandler(handler)


def _nodes(cluster: Any) -> list[dict[str, Any]]:
    """The cluster is still there, and can be joined."""
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    try:
        return list(ray.nodes())
    finally:
        ray.shutdown()
