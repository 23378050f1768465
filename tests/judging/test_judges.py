import shutil
from pathlib import Path
from typing import Any

import pytest
import random_model

import localjudge
from localjudge import InputError, ModelError, ScriptedEngine, model_registry, resources
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.protocol import EngineSettings

pytestmark = pytest.mark.engine

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "retrieved_contexts": ["It opened in 1936."],
        "reference": "It opened in 1936. It was closed.",
    },
]
OPTIONS: dict[str, Any] = {"metrics": ["context_recall"], "threads": 1}
BROKEN_TEMPLATE = "{{ raise_exception('not for you') }}"


def probabilities(run: localjudge.Run) -> list[float | None]:
    return [verdict.p_yes for verdict in run.verdicts]


@pytest.fixture(scope="module")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> localjudge.Run:
    return localjudge.evaluate(ROWS, out=tmp_path_factory.mktemp("by-name"), **OPTIONS)


def test_equal_model_bytes_are_the_same_judge_at_any_path(
    by_name: localjudge.Run, tmp_path: Path
) -> None:
    copy = shutil.copy(resources.bundled_file("models", "lexical.gguf"), tmp_path / "renamed.gguf")
    run = localjudge.evaluate(ROWS, judge=copy, out=tmp_path / "run", **OPTIONS)
    assert probabilities(run) == probabilities(by_name)
    assert run.summary == by_name.summary


def test_a_passed_engine_uses_the_profile_of_its_model(
    by_name: localjudge.Run, tmp_path: Path
) -> None:
    engine = LlamaCppEngine(
        model_registry.find("lexical"), EngineSettings(threads=1), begin_of_text=False
    )
    try:
        run = localjudge.evaluate(ROWS, engine=engine, out=tmp_path / "run", **OPTIONS)
    finally:
        engine.close()
    assert run.summary == by_name.summary
    assert run.manifest.judge == by_name.manifest.judge


def test_an_untrained_model_gives_no_score(tmp_path: Path) -> None:
    """Random weights spread their probability over the whole vocabulary, so the share of 0 and 1 is
    noise.
    """
    path = random_model.write(tmp_path / "noise.gguf", random_model.piece_vocabulary())
    run = localjudge.evaluate(ROWS, judge=path, out=tmp_path / "run", **OPTIONS)
    assert run.summary.metrics["context_recall"].mean is None
    assert [(score.status, score.score) for score in run.scores] == [("failed", None)]
    assert "did not answer" in (run.scores[0].detail or "")
    assert all(
        verdict.label is None and (verdict.valid_mass or 1) < 0.01 for verdict in run.verdicts
    )
    taken = localjudge.evaluate(ROWS, judge=path, out=tmp_path / "any", min_valid_mass=0, **OPTIONS)
    assert [score.status for score in taken.scores] == ["scored"]


def test_a_judge_that_cannot_be_opened_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = LlamaCppEngine.close

    def watched(self: LlamaCppEngine) -> None:
        closed.append(self.name)
        close(self)

    monkeypatch.setattr(LlamaCppEngine, "close", watched)
    path = random_model.write(
        tmp_path / "broken.gguf", random_model.byte_vocabulary(), chat_template=BROKEN_TEMPLATE
    )
    with pytest.raises(ModelError, match="chat template"):
        localjudge.Judge.open(path, threads=1)
    assert closed == ["broken"]


def test_an_open_engine_is_not_sent_to_a_cluster(tmp_path: Path) -> None:
    engine = ScriptedEngine({}, default=0.5)
    with pytest.raises(InputError, match="engine"):
        localjudge.evaluate(ROWS, engine=engine, ray="auto", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
