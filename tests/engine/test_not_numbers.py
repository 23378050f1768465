from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_model
from gguf import GGUFReader

from localjudge import ModelError, model_registry
from localjudge.engine.llamacpp import loading
from localjudge.engine.llamacpp.self_check import SelfCheckResult
from localjudge.engine.protocol import EngineSettings
from localjudge.judge.profile import load_grammar
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, NoAnswer, Piece, VerdictRequest
from tests.engine.conftest import Opener, attributions

pytestmark = pytest.mark.engine

HALF_NAN = b"\x00\x7e"
HALF_INFINITY = b"\x00\x7c"
FIRST_BAD_POSITION = 120
REASON = "logits that are not numbers"


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the self-check, which would refuse most of the damage."""
    finding = SelfCheckResult(rewind_mode="cut", difference=0, repack=False)
    monkeypatch.setattr(loading, "find_self_check", lambda *_: finding)


def damage(path: Path, tensor: str, first_row: int, value: bytes) -> ModelFile:
    reader = GGUFReader(path, "r+")
    rows = next(
        tensor_data for tensor_data in reader.tensors if tensor_data.name == tensor
    ).data.view(np.uint8)
    rows[first_row:, :2] = list(value)
    return model_registry.find(str(path))


@pytest.fixture
def spoilt(tmp_path: Path, untried: None) -> ModelFile:
    """A model with NaN position embeddings from 120 on: only short prompts have answers."""
    path = random_model.write(
        tmp_path / "spoilt.gguf", random_model.byte_vocabulary(), architecture="gpt2"
    )
    return damage(path, "position_embd.weight", FIRST_BAD_POSITION, HALF_NAN)


def short(
    unit: str, *, grammar: str = "attributed", explanation: str | None = None
) -> VerdictRequest:
    nodes = ((Piece(text="Is it so? ", trusted=True),), (Piece(text=unit, trusted=False),))
    after = load_grammar(explanation) if explanation else None
    return VerdictRequest(path=nodes, grammar=load_grammar(grammar), explanation=after)


@pytest.fixture(
    params=[("F16", HALF_NAN), ("F16", HALF_INFINITY), ("Q8_0", HALF_NAN), ("Q8_0", HALF_INFINITY)],
)
def damaged(request: pytest.FixtureRequest, tmp_path: Path, untried: None) -> ModelFile:
    """A model with a damaged embedding row, which is tied to a token's logit."""
    quantisation, value = request.param
    shape = random_model.Shape(width=32, layers=1, context=8192)
    vocabulary = random_model.byte_vocabulary()
    path = random_model.write(
        tmp_path / "damaged.gguf", vocabulary, shape=shape, quantisation=quantisation
    )
    return damage(path, "token_embd.weight", -1, value)


@pytest.mark.parametrize("reasons", ["none", "before", "after"])
def test_a_damaged_model_gives_no_answer(
    damaged: ModelFile, open_engine: Opener, reasons: Any
) -> None:
    engine = open_engine(damaged, n_ctx=4096)
    requests = attributions(["It opened in 1936.", "It was closed."], reasons=reasons)
    answers = dict(engine.answers(requests)).values()
    assert [isinstance(answer, NoAnswer) and REASON in answer.error for answer in answers] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("grammar", "explanation"),
    [("attributed", None), ("reason_attributed", None), ("attributed", "attributed_reason")],
)
def test_a_failed_request_does_not_change_other_answers(
    spoilt: ModelFile, open_engine: Opener, grammar: str, explanation: str | None
) -> None:
    """The failing request is first, in the middle or last. Zero times NaN is NaN."""
    engine = open_engine(spoilt, n_ctx=512)
    good = [short(unit, grammar=grammar, explanation=explanation) for unit in ("a", "bb", "c")]
    bad = short("z" * FIRST_BAD_POSITION, grammar=grammar, explanation=explanation)
    expected = dict(engine.answers(good))
    assert all(isinstance(answer, Answer) for answer in expected.values())
    for place in range(4):
        answers = dict(engine.answers([*good[:place], bad, *good[place:]]))
        assert isinstance(answers.pop(place), NoAnswer)
        assert [answer for _, answer in sorted(answers.items())] == [
            expected[index] for index in range(3)
        ]
    assert dict(engine.answers(good)) == expected


def test_a_verdict_without_its_explanation_is_not_an_answer(
    spoilt: ModelFile, open_engine: Opener
) -> None:
    engine = open_engine(spoilt, n_ctx=512)
    room = FIRST_BAD_POSITION - engine.length(short(""))
    [(_, verdict)] = engine.answers([short("y" * room)])
    [(_, explained)] = engine.answers([short("y" * room, explanation="attributed_reason")])
    assert isinstance(verdict, Answer)
    assert isinstance(explained, NoAnswer)
    assert REASON in explained.error


def test_finite_weights_with_overflowing_logits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A norm of 3e38 passes the check of the weights."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path))
    path = random_model.write(tmp_path / "model.gguf", random_model.byte_vocabulary())
    reader = GGUFReader(path, "r+")
    norm = next(
        tensor_data for tensor_data in reader.tensors if tensor_data.name == "output_norm.weight"
    ).data
    norm[:] = 3e38
    with pytest.raises(ModelError, match="invalid numbers"):
        loading.load(model_registry.find(str(path)), EngineSettings(threads=1, n_ctx=256))
