"""Several answers decoded at once: which are, that they stay legal, and that they are near the isolated ones."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from localjudge import model_registry
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.llamacpp.fork_groups import Room, Siblings, alone, together
from localjudge.engine.llamacpp.kv_cache import Stretch
from localjudge.engine.planner import Path as Nodes
from localjudge.engine.planner import depth_first
from localjudge.engine.settings import EngineSettings
from localjudge.judge import prompts
from localjudge.judge.judge import PromptJudge, Reasons
from localjudge.types import Answer, Attribution, Span, Unit, VerdictRequest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import random_model

STATEMENTS = ("It opened in 1936.", "It was closed.", "The bridge is 300 m long.", "It never opened.", "It is red.")
PLENTY = Room(answers=8, step_tokens=512, cells=4096)
ROOT, CONTEXT, OTHER = (1, 2), (3, 4, 5), (6,)


def grouped(paths: Sequence[Nodes], room: Room, answer_tokens: int = 1) -> list[Siblings]:
    longest = [sum(map(len, path)) + answer_tokens for path in paths]
    return list(together(depth_first(paths), paths, longest, room))


def test_statements_on_one_context_are_siblings() -> None:
    """They share two nodes; what hangs on another context forks elsewhere."""
    paths = [(ROOT, CONTEXT, (7,)), (ROOT, CONTEXT, (8,)), (ROOT, OTHER, (7,)), (ROOT, OTHER, (8,))]
    assert grouped(paths, PLENTY) == [Siblings([0, 1], 2), Siblings([2, 3], 2)]


def test_whole_branches_are_siblings_too() -> None:
    """Chunks that are each asked one question part at the chunk: one shared node."""
    paths = [(ROOT, (7,), (9,)), (ROOT, (8,), (9,)), (ROOT, (5,), (9,))]
    assert grouped(paths, PLENTY) == [Siblings([0, 1, 2], 1)]


def test_no_shared_node_is_evaluated_twice() -> None:
    """Single statements on contexts of their own fork at the root; two on one context do not join them."""
    single = [((ROOT, (10 + place,), (7,))) for place in range(2)]
    paths = [*single, (ROOT, CONTEXT, (7,)), (ROOT, CONTEXT, (8,)), (ROOT, OTHER, (7,))]
    assert grouped(paths, PLENTY) == [Siblings([0, 1], 1), Siblings([2, 3], 2), Siblings([4], 2)]


@pytest.mark.parametrize(
    ("room", "sizes"),
    [
        (PLENTY._replace(answers=2), [2, 1]),
        (PLENTY._replace(step_tokens=2), [2, 1]),  # each adds 1 token to a step
        (PLENTY._replace(cells=5 + 2 + 2), [2, 1]),  # 5 shared, and for each 1 token and 1 of the answer
    ],
)
def test_a_group_keeps_to_its_room(room: Room, sizes: list[int]) -> None:
    """Answers, tokens in a step and cells each end a group."""
    paths = [(ROOT, CONTEXT, (token,)) for token in (7, 8, 9)]
    assert [len(group.members) for group in grouped(paths, room)] == sizes


def test_alone_is_one_by_one() -> None:
    """In the order of the walk, each behind all of its path but the last node."""
    paths = [(ROOT, CONTEXT, (7,)), (ROOT, OTHER), (ROOT, CONTEXT, (8,))]
    assert list(alone(depth_first(paths), paths)) == [Siblings([0], 2), Siblings([2], 2), Siblings([1], 1)]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LlamaCppEngine, LlamaCppEngine]]:
    """The same model isolated and batching."""
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    file = model_registry.find(str(random_model.write(path, random_model.byte_vocabulary())))
    isolated, batching = (LlamaCppEngine(file, EngineSettings(threads=1, batching=on)) for on in (False, True))
    yield isolated, batching
    isolated.close()
    batching.close()


def asked(reasons: Reasons = "none") -> list[VerdictRequest]:
    judge = PromptJudge(prompts.load("instruct"), reasons=reasons)
    units = [
        Unit(kind="statement", index=index, source="reference", span=Span(start=0, end=len(text), text=text))
        for index, text in enumerate(STATEMENTS)
    ]
    return judge.requests([Attribution(unit=unit, contexts=("The bridge opened in 1936.",)) for unit in units])


def answered(engine: LlamaCppEngine, requests: list[VerdictRequest]) -> list[Answer]:
    return [answer for _, answer in sorted(engine.answers(requests)) if isinstance(answer, Answer)]


def test_batching_is_another_engine(engines: tuple[LlamaCppEngine, LlamaCppEngine]) -> None:
    """Its answers are stored apart from isolated ones, and its name says why."""
    isolated, batching = engines
    differing = {key for key, value in isolated.identity.items() if batching.identity[key] != value}
    assert differing == {"batching", "flash_attention"}
    assert isolated.identity["batching"] == "isolated"
    assert batching.identity["batching"].startswith("not isolated")


def test_batched_verdicts_are_near_isolated_ones(engines: tuple[LlamaCppEngine, LlamaCppEngine]) -> None:
    """The same tokens through the same weights, summed in another order."""
    isolated, batching = (answered(engine, asked()) for engine in engines)
    assert [answer.p_yes for answer in batching] == pytest.approx([answer.p_yes for answer in isolated], abs=0.01)


def test_batched_reasons_are_legal(engines: tuple[LlamaCppEngine, LlamaCppEngine]) -> None:
    """Every answer closes, whichever of its neighbours ends first."""
    answers = answered(engines[1], asked("before"))
    assert len(answers) == len(STATEMENTS)
    assert [json.loads(answer.raw)["reason"] for answer in answers] == [answer.reason for answer in answers]


def test_reasons_are_decoded_at_once(
    engines: tuple[LlamaCppEngine, LlamaCppEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five reasons take as many steps as the longest of them, not as many as all together."""
    engine = engines[1]
    widths: list[int] = []
    evaluate = engine._cells.logits_behind_each

    def counted(stretches: Sequence[Stretch]) -> list[NDArray[np.float32]]:
        widths.append(len(stretches))
        return evaluate(stretches)

    monkeypatch.setattr(engine._cells, "logits_behind_each", counted)
    before = engine.effort.generated_tokens
    answered(engine, asked("after"))
    free = engine.effort.generated_tokens - before
    assert widths[0] == len(STATEMENTS)
    assert len(widths) <= 1 + 64 + 4 < free
    assert sum(widths) == len(STATEMENTS) + free
