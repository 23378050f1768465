import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import localjudge
from localjudge.engine import opening
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.ray_engine import RayEngine, Work, connected
from localjudge.errors import InputError, ModelError, OutOfResource
from localjudge.judge import profile as grammars
from localjudge.progress import Silence
from localjudge.run.verify import verify_run as verify
from localjudge.types import NoAnswer, Piece, VerdictRequest
from tests.engine.conftest import TEMPLATE, Asker, ModelMaker
from tests.engine.contract import check_engine
from tests.engine.scripted_workers import SCRIPTED, asked_by, model_in, said

# Not imported here, because settings at the import of ray close a local cluster to other machines.
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_spec("ray") is None, reason="NOT CHECKED: the extra ray is not installed"),
]
GRAMMAR = grammars.load_grammar("attributed")
FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
Opener = Callable[..., RayEngine]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """One cluster for all tests, as starting takes seconds."""
    with connected("local", processors=4) as ray:
        yield ray


@pytest.fixture
def open_ray(tmp_path: Path) -> Iterator[Opener]:
    engines: list[RayEngine] = []

    def opened(workers: int = 2, **settings: Any) -> RayEngine:
        wanted = EngineSettings(ray="local", ray_workers=workers, **settings)
        engines.append(RayEngine(model_in(tmp_path), wanted, SCRIPTED))
        return engines[-1]

    yield opened
    for engine in engines:
        engine.close()


def requests_of(ask: Asker, units: list[str]) -> list[VerdictRequest]:
    return [ask(unit, [f"context {number // 3}"]) for number, unit in enumerate(units)]


def probabilities(engine: RayEngine, requests: list[VerdictRequest]) -> list[float]:
    pairs = list(engine.answers(requests))
    p_yes = {index: answer.p_yes for index, answer in pairs if not isinstance(answer, NoAnswer)}
    assert len(pairs) == len(p_yes) == len(requests)
    return [p_yes[index] for index in range(len(requests))]


def test_the_ray_engine_behaves_like_the_engine_in_process(make_model: ModelMaker) -> None:
    """Identity, name, template and lengths are equal, so either continues a run of the other."""
    file = make_model("llama", vocabulary="pieces", chat_template=TEMPLATE)
    settings = EngineSettings(n_ctx=2048, ray="local", ray_workers=1)
    assert check_engine(lambda: opening.open_judging_engine(file, settings)) == []
    with (
        closing(opening.open_judging_engine(file, settings)) as engine,
        closing(LlamaCppEngine(file, EngineSettings(n_ctx=2048, threads=1))) as alone,
    ):
        for name in ("identity", "name", "metadata", "capacity", "shares_prefixes", "memory_bytes"):
            assert getattr(engine, name) == getattr(alone, name), name
        for ends in ("chat_ends", "chat_without_ends"):
            assert getattr(engine, ends)[:3] == getattr(alone, ends)[:3]


def made_up_data(tmp_path: Path, samples: int) -> Path:
    rows = [
        {
            "id": f"{number}",
            "retrieved_contexts": [f"The river {number} is {100 + 7 * number} km long.", "It rains."],
            "reference": f"The river {number} is long. It has {number} mouths.",
            "response": f"The river {number} is {100 + 7 * number} km long. It is deep.",
        }
        for number in range(samples)
    ]
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def test_a_run_has_the_same_bytes_with_and_without_ray(tmp_path: Path) -> None:
    """Also if it was begun in process and resumed in a cluster."""
    data = made_up_data(tmp_path, 40)
    metrics = ["context_recall", "faithfulness"]
    alone = localjudge.evaluate(data, metrics=metrics, out=tmp_path / "alone", threads=1)
    there = localjudge.evaluate(data, metrics=metrics, out=tmp_path / "ray", ray="local", ray_workers=2)
    assert there.manifest.signature == alone.manifest.signature
    with pytest.raises(StopAsking):
        localjudge.evaluate(data, metrics=metrics, out=tmp_path / "both", threads=1, progress=Stopping(30))
    both = localjudge.evaluate(data, metrics=metrics, out=tmp_path / "both", ray="local", ray_workers=2)
    asked = [run.manifest.environment.sessions[-1].asked or 0 for run in (both, there)]
    assert asked[0] < asked[1]
    for name in FILES:
        for run in (there, both):
            assert (run.directory / name).read_bytes() == (alone.directory / name).read_bytes()
    assert verify(both.directory, count=20).result == "bit-identical"
    assert verify(alone.directory, count=20, ray="local", ray_workers=1).result == "bit-identical"


class StopAsking(Exception):
    """Signal to end the run."""


class Stopping(Silence):
    """Progress that raises after a number of answers."""

    def __init__(self, after: int) -> None:
        self._left = after

    def advance(self) -> None:
        """Count an answer."""
        self._left -= 1
        if not self._left:
            raise StopAsking


def test_a_killed_worker_is_replaced_without_loss(
    open_ray: Opener, ask: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SIGKILL twice, each after ten more answers."""
    (tmp_path / "pause").write_text("0.02")
    requests = requests_of(ask, [f"unit {number}" for number in range(150)])
    engine, answers, killed = open_ray(), {}, []
    while engine.works_at_once < 2:
        list(engine.answers(requests[:1]))
    for index, answer in engine.answers(requests):
        assert index not in answers
        answers[index] = answer
        if len(answers) in (10, 60):
            pid, _ = asked_by(tmp_path)[-1]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    assert [getattr(answers[index], "p_yes", None) for index in range(150)] == list(map(said, requests))
    assert len(killed) == 2
    assert "a worker of the Ray cluster died" in caplog.text


def test_a_deadly_question_is_named_after_all_others_are_answered(open_ray: Opener, ask: Asker, tmp_path: Path) -> None:
    requests = requests_of(ask, ["a", "b", "so deadly", "so deadly", "d", "e"])
    answered: set[int] = set()
    with pytest.raises(OutOfResource, match=r"3 workers died of the question about 'so deadly' \(2 such questions\)"):
        answered.update(index for index, _ in open_ray().answers(requests))
    assert answered == {0, 1, 4, 5}
    assert [unit for _, unit in asked_by(tmp_path)].count("so deadly") <= 8


def test_workers_that_all_die_end_the_run(open_ray: Opener, ask: Asker) -> None:
    requests = requests_of(ask, [f"deadly {number}" for number in range(20)])
    with pytest.raises(OutOfResource, match="workers of the Ray cluster died one after the other") as error:
        list(open_ray(1).answers(requests))
    assert "The actor is dead because" in error.value.message


def test_an_error_in_a_worker_is_raised_in_the_driver(open_ray: Opener, ask: Asker) -> None:
    with pytest.raises(OutOfResource, match="there is no more of it") as error:
        list(open_ray(1).answers([ask("hopeless")]))
    assert error.value.hint == "get more"


def test_an_abandoned_call_does_not_affect_later_ones(open_ray: Opener, ask: Asker) -> None:
    engine = open_ray(1)
    requests = requests_of(ask, [f"unit {number}" for number in range(30)])
    begun = iter(engine.answers(requests))
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    assert probabilities(engine, requests[10:20]) == list(map(said, requests[10:20]))


def test_a_node_with_a_missing_or_changed_model_is_reported(tmp_path: Path) -> None:
    file = model_in(tmp_path)
    settings = EngineSettings(ray="local", ray_workers=2)
    file.path.write_bytes(b"other weights")
    with pytest.raises(ModelError, match=rf"on node {os.uname().nodename}: .*model.gguf is not the model of this run"):
        RayEngine(file, settings, SCRIPTED)
    file.path.unlink()
    with pytest.raises(ModelError, match=rf"on node {os.uname().nodename}: no judge is called"):
        RayEngine(file, settings, SCRIPTED)


def test_a_worker_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Localjudge is missing there, simulated by a module of this process."""
    here = ModuleType("only_here")
    monkeypatch.setitem(sys.modules, "only_here", here)
    exec("def open_engine(file, settings, *, begin_of_text): ...", vars(here))
    in_process = SCRIPTED._replace(engine=here.open_engine)
    with pytest.raises(OutOfResource, match=r"cannot start: .*No module named 'only_here'"):
        RayEngine(model_in(tmp_path), EngineSettings(ray="local", ray_workers=2), in_process)


def test_a_worker_of_another_kind_is_not_used(
    open_ray: Opener, ask: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every opened engine has its own kind; ours is 0."""
    (tmp_path / "kinds").mkdir()
    engine = open_ray(2)
    deadline = time.monotonic() + 20
    list(engine.answers(requests_of(ask, ["a", "b"])))
    while "kind: 1 there" not in caplog.text and time.monotonic() < deadline:
        list(engine.answers(requests_of(ask, ["a", "b"])))
    assert "a worker is refused: on node" in caplog.text
    assert "kind: 1 there, 0 here" in caplog.text
    assert len({pid for pid, _ in asked_by(tmp_path)}) == 1
    assert engine.identity["kind"] == 0


@pytest.mark.parametrize("address", ["ray://head:10001", "localhost:1", " "])
def test_an_address_without_a_cluster_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        localjudge.evaluate(made_up_data(tmp_path, 1), ray=address)


def asked(context: str, unit: str) -> VerdictRequest:
    return VerdictRequest(tuple((Piece(text, trusted=False),) for text in ("Decide.", context, unit)), GRAMMAR)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.text("xyz", max_size=3)), max_size=60), st.data())
def test_each_request_is_answered_once_when_workers_die(units: list[tuple[str, str]], data: st.DataObject) -> None:
    """Equal requests too. Only deadly requests are dropped, after three deaths."""
    deadly = data.draw(st.sets(st.sampled_from(range(len(units))), max_size=4)) if units else set()
    work, answered = Work([asked(context, unit) for context, unit in units]), Counter[int]()
    while portion := work.deal():
        assert len({units[index][0] for index in portion}) == 1
        if deadly.isdisjoint(portion):
            answered.update(portion)
        else:
            work.lose(portion)
    assert answered == Counter(set(range(len(units))) - deadly)
    assert sorted(work.set_aside) == sorted(deadly)
