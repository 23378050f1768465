"""A judge in a real Ray cluster: the bytes of one in process, whoever is killed and whoever joins late."""

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

# Not imported here: a cluster of this machine is closed to others by what is set when ray is imported.
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_spec("ray") is None, reason="NOT CHECKED: the extra ray is not installed"),
]
GRAMMAR = grammars.load_grammar("attributed")
FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
Opener = Callable[..., RayEngine]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """One cluster for all: to start it takes seconds."""
    with connected("local", processors=4) as ray:
        yield ray


@pytest.fixture
def open_ray(tmp_path: Path) -> Iterator[Opener]:
    """Opens engines with scripted workers, two if not asked otherwise."""
    engines: list[RayEngine] = []

    def opened(workers: int = 2, **settings: Any) -> RayEngine:
        wanted = EngineSettings(ray="local", ray_workers=workers, **settings)
        engines.append(RayEngine(model_in(tmp_path), wanted, SCRIPTED))
        return engines[-1]

    yield opened
    for engine in engines:
        engine.close()


def requests_of(ask: Asker, units: list[str]) -> list[VerdictRequest]:
    """Each about a context that three of them share."""
    return [ask(unit, [f"context {number // 3}"]) for number, unit in enumerate(units)]


def probabilities(engine: RayEngine, requests: list[VerdictRequest]) -> list[float]:
    """In the order of the requests, each once."""
    pairs = list(engine.answers(requests))
    p_yes = {index: answer.p_yes for index, answer in pairs if not isinstance(answer, NoAnswer)}
    assert len(pairs) == len(p_yes) == len(requests)
    return [p_yes[index] for index in range(len(requests))]


def test_it_is_the_engine_in_process_to_its_users(make_model: ModelMaker) -> None:
    """It keeps the contract; identity, name, template, lengths are the same: one without Ray continues its run."""
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


def test_a_run_has_the_same_bytes_and_is_verified_without_ray_and_with_it(tmp_path: Path) -> None:
    """Also one that was begun in process and continued in a cluster."""
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
    """Somebody ends the run."""


class Stopping(Silence):
    """Raises when so many answers are there."""

    def __init__(self, after: int) -> None:
        self._left = after

    def advance(self) -> None:
        """One more."""
        self._left -= 1
        if not self._left:
            raise StopAsking


def test_a_worker_that_is_killed_loses_nothing(
    open_ray: Opener, ask: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SIGKILL twice, each time when ten more answers are there; another worker takes its place."""
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


def test_a_question_that_kills_is_named_when_all_others_are_answered(
    open_ray: Opener, ask: Asker, tmp_path: Path
) -> None:
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


def test_what_an_engine_raises_in_a_worker_is_raised_here(open_ray: Opener, ask: Asker) -> None:
    with pytest.raises(OutOfResource, match="there is no more of it") as error:
        list(open_ray(1).answers([ask("hopeless")]))
    assert error.value.hint == "get more"


def test_answers_that_are_not_read_to_their_end_harm_no_later_ones(open_ray: Opener, ask: Asker) -> None:
    engine = open_ray(1)
    requests = requests_of(ask, [f"unit {number}" for number in range(30)])
    begun = iter(engine.answers(requests))
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    assert probabilities(engine, requests[10:20]) == list(map(said, requests[10:20]))


def test_a_node_without_the_model_or_with_another_says_so(tmp_path: Path) -> None:
    """The file is changed, then taken away, once it is known here."""
    file = model_in(tmp_path)
    settings = EngineSettings(ray="local", ray_workers=2)
    file.path.write_bytes(b"other weights")
    with pytest.raises(ModelError, match=rf"on node {os.uname().nodename}: .*model.gguf is not the model of this run"):
        RayEngine(file, settings, SCRIPTED)
    file.path.unlink()
    with pytest.raises(ModelError, match=rf"on node {os.uname().nodename}: no judge is called"):
        RayEngine(file, settings, SCRIPTED)


def test_a_worker_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one without localjudge: a module that is there in this process alone."""
    here = ModuleType("only_here")
    monkeypatch.setitem(sys.modules, "only_here", here)
    exec("def open_engine(file, settings, *, begin_of_text): ...", vars(here))
    in_process = SCRIPTED._replace(engine=here.open_engine)
    with pytest.raises(OutOfResource, match=r"cannot start: .*No module named 'only_here'"):
        RayEngine(model_in(tmp_path), EngineSettings(ray="local", ray_workers=2), in_process)


def test_a_worker_of_another_kind_is_not_asked(
    open_ray: Opener, ask: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each engine that is opened is of a kind of its own, the first of ours, which is 0."""
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
def test_an_address_where_no_cluster_is_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        localjudge.evaluate(made_up_data(tmp_path, 1), ray=address)


def asked(context: str, unit: str) -> VerdictRequest:
    """Instructions | context | unit."""
    return VerdictRequest(tuple((Piece(text, trusted=False),) for text in ("Decide.", context, unit)), GRAMMAR)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.text("xyz", max_size=3)), max_size=60), st.data())
def test_each_is_answered_once_whoever_dies(units: list[tuple[str, str]], data: st.DataObject) -> None:
    """Equal questions too; what is deadly is set aside after three deaths, and nothing else is."""
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
