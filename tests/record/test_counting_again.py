"""Scores of metrics on request are counted again from their verdicts when a run is opened."""

import json
import re
from pathlib import Path

import pytest

import localjudge
from localjudge import Run, ScriptedEngine
from localjudge.errors import RunDirectoryError

ROW = {
    "id": "c",
    "user_input": "Who?",
    "retrieved_contexts": ["Eight.", "Nine."],
    "reference": "Ten.",
    "response": "Eleven [1]. Twelve [2].",
}
JUDGED_ON_REQUEST = [
    "answer_correctness",
    "answer_correctness(mode=precision)",
    "answer_correctness(mode=recall)",
    "answer_relevancy",
    "context_precision(against=response)",
    "context_sufficiency",
    "refusal",
    "abstention",
    "citation_support",
    "citation_support(of=all)",
]


@pytest.mark.parametrize("metric", JUDGED_ON_REQUEST)
def test_a_verdict_that_was_turned_is_found_whatever_the_formula(tmp_path: Path, metric: str) -> None:
    """Every verdict is 0: with the last being 1, every score is another."""
    run = localjudge.evaluate([ROW], out=tmp_path, engine=ScriptedEngine({}, default=0.2), metrics=[metric])
    lines = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()]
    turned = [*lines[:-1], lines[-1] | {"label": 1, "p_yes": 0.9}]
    if metric == "answer_correctness":  # one side alone leaves F1 at 0
        turned = [line | {"label": 1, "p_yes": 0.9} for line in lines]
    (tmp_path / "verdicts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in turned), encoding="utf-8")
    assert run.scores[0].status == "scored"
    with pytest.raises(RunDirectoryError, match=rf"c, {re.escape(metric)}: it is .*, its verdicts give"):
        Run.open(tmp_path)


@pytest.mark.parametrize("metric", ["abstention", "answer_correctness(mode=recall)", "answer_correctness"])
def test_verdicts_of_the_wrong_number_are_a_contradiction_and_no_crash(tmp_path: Path, metric: str) -> None:
    """The last one is gone, or all are of the other side."""
    localjudge.evaluate([ROW], out=tmp_path, engine=ScriptedEngine({}, default=0.9), metrics=[metric])
    file = tmp_path / "verdicts.jsonl"
    text = file.read_text(encoding="utf-8")
    for spoiled in (
        "".join(text.splitlines(keepends=True)[:-1]),
        text.replace('"reference"', '"response"').replace('"unit": "question"', '"unit": "response"'),
    ):
        file.write_text(spoiled, encoding="utf-8")
        with pytest.raises(RunDirectoryError):
            Run.open(tmp_path)
