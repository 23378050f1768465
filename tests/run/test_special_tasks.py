"""Questions that only a judge which reads instructions can be asked: who is refused, and what a run of them leaves."""

from pathlib import Path
from typing import Any

import localjudge
from localjudge import ScriptedEngine

ROWS: list[dict[str, Any]] = [
    {"id": "a", "user_input": "Why?", "retrieved_contexts": ["It rained."], "response": "It rained."},
    {"id": "b", "user_input": "How?", "retrieved_contexts": [], "response": "I do not know."},
    {"id": "c", "user_input": "Who?", "retrieved_contexts": ["Nobody."], "response": None},
]
SCRIPT: dict[str, float | str] = {"Why?": 0.9, "Who?": 0.2, "It rained.": 0.1, "I do not know.": 0.95}
"""By the last text of the user's in a prompt: the question of a sufficiency, the response of a refusal."""
METRICS = ["context_sufficiency", "refusal", "abstention", "abstention(mode=made_up)"]


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


def test_the_words_of_a_special_task_are_signed_only_where_it_is_asked(tmp_path: Path) -> None:
    asked = run(tmp_path / "run").manifest.judge["judge"]
    others = localjudge.evaluate(
        ROWS, out=tmp_path / "other", engine=ScriptedEngine({}, default=0.5), metrics=["faithfulness"]
    ).manifest.judge["judge"]
    assert asked["special_tasks"].keys() == {"sufficiency", "refusal"}
    assert {name: part for name, part in asked.items() if name != "special_tasks"} == others
