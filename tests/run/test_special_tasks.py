"""Questions that only a judge which reads instructions can be asked: who is refused, and what a run of them leaves."""

from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import ScriptedEngine, model_registry
from localjudge.analysis.compare import compare
from localjudge.errors import UsageError
from localjudge.run.estimate import estimate
from localjudge.run.verify import verify_run as verify

ROWS: list[dict[str, Any]] = [
    {"id": "a", "user_input": "Why?", "retrieved_contexts": ["It rained."], "response": "It rained."},
    {"id": "b", "user_input": "How?", "retrieved_contexts": [], "response": "I do not know."},
    {"id": "c", "user_input": "Who?", "retrieved_contexts": ["Nobody."], "response": None},
]
SCRIPT: dict[str, float | str] = {"Why?": 0.9, "Who?": 0.2, "It rained.": 0.1, "I do not know.": 0.95}
"""By the last text of the user's in a prompt: the question of a sufficiency, the response of a refusal."""
METRICS = ["context_sufficiency", "refusal", "abstention", "abstention(mode=made_up)"]


class Lexical(ScriptedEngine):
    """An engine with the weights of the reference judge, by its checksum."""

    @property
    def identity(self) -> dict[str, Any]:
        """As the model's engine says it."""
        return {**super().identity, "model_sha256": model_registry.registered()["reference"].sha256}


def run(out: Path, engine: ScriptedEngine | None = None) -> localjudge.Run:
    return localjudge.evaluate(ROWS, out=out, engine=engine or ScriptedEngine(SCRIPT), metrics=METRICS)


def test_each_question_is_asked_once_and_no_context_suffices_for_nothing(tmp_path: Path) -> None:
    """Sufficiency of a and c, refusal of a and b: 4 questions. b has no contexts, which is 0 without asking."""
    engine = ScriptedEngine(SCRIPT)
    found = run(tmp_path / "run", engine)
    assert len(engine.asked) == 4
    scores = {(row.sample_id, row.metric): (row.score, row.detail) for row in found.scores}
    assert scores["b", "context_sufficiency"] == (0.0, "no context text")
    assert scores["a", "abstention"] == (1.0, "answered rightly")
    assert scores["b", "abstention"] == (1.0, "refused rightly")
    assert scores["c", "abstention"] == (None, "response is null")
    assert scores["b", "abstention(mode=made_up)"] == (0.0, "refused rightly")
    assert scores["a", "abstention(mode=made_up)"] == (None, "the contexts suffice: answered rightly")


def test_a_run_of_them_is_opened_verified_and_gone_on_with(tmp_path: Path) -> None:
    first = run(tmp_path / "run")
    assert verify(first, engine=ScriptedEngine(SCRIPT)).result == "bit-identical"
    engine = ScriptedEngine(SCRIPT)
    again = run(tmp_path / "run", engine)
    assert not engine.asked
    assert again.summary == first.summary
    change = compare(first, again).metrics["abstention"].scores
    assert change is not None
    assert (change.improved, change.worsened, change.tied) == (0, 0, 2)


def test_the_words_of_a_special_task_are_signed_only_where_it_is_asked(tmp_path: Path) -> None:
    asked = run(tmp_path / "run").manifest.judge["judge"]
    others = localjudge.evaluate(
        ROWS, out=tmp_path / "other", engine=ScriptedEngine({}, default=0.5), metrics=["faithfulness"]
    ).manifest.judge["judge"]
    assert asked["special_tasks"].keys() == {"sufficiency", "refusal"}
    assert {name: part for name, part in asked.items() if name != "special_tasks"} == others


@pytest.mark.parametrize("metric", METRICS)
def test_the_reference_judge_is_refused_before_anything_is_asked(tmp_path: Path, metric: str) -> None:
    """It counts words: of a refusal it would say how many of them are new."""
    names = [metric, "faithfulness"]
    with pytest.raises(UsageError, match="does not read instructions") as refused:
        localjudge.evaluate(ROWS, out=tmp_path / "run", metrics=names, engine=Lexical({}))
    assert metric in refused.value.args[0]
    assert "faithfulness" not in str(refused.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match="does not read instructions"):
        estimate(ROWS, metrics=names, engine=Lexical({}))


def test_a_run_that_did_not_ask_them_is_rescored_with_them(tmp_path: Path) -> None:
    """What it asked is as good as ever: 2 statements were asked about; 2 refusals are asked now."""
    engine = ScriptedEngine(SCRIPT)
    first = localjudge.evaluate(ROWS, out=tmp_path / "first", engine=engine, metrics=["faithfulness"])
    before = len(engine.asked)
    more = first.rescore(metrics=["faithfulness", "refusal"], out=tmp_path / "more", engine=engine)
    assert len(engine.asked) - before == 2
    assert more["faithfulness"] == first["faithfulness"]
    assert more.manifest.environment["answers"] == {"asked": 2, "reused": {str(tmp_path / "first"): before}}
