"""The report of a labelled run: disputed statements, and human labels next to the judge's verdicts."""

from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.analysis.labelling import Labelling
from tests.report.conftest import EVIL, HOSTILE, PageReader

ANSWERS = {"It rains.": (1, 1), "It snows.": (1, 0), "It is red.": (0, 0)}
"""Of ann and of bob."""


def answer(run: Run, labeller: str, **how: Any) -> None:
    labelling = Labelling(run, labeller, **how)
    while labelling.rows:
        first, second = ANSWERS.get(labelling.rows[0]["text"], (1, 0))
        labelling.answer(first if labeller == "ann" else second)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def labelled_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ann and bob label all statements of three samples, and differ on two of four. One statement is hostile."""
    rows = [
        {"id": "first", "user_input": "Rain?", "retrieved_contexts": ["Rain."], "reference": "It rains. It snows."},
        {"id": "second", "user_input": "Red?", "retrieved_contexts": ["Red."], "reference": "It is red."},
        {"id": "evil", "user_input": "?", "retrieved_contexts": ["x"], "reference": f"{EVIL[:-1]} {HOSTILE[0]}."},
    ]
    script: dict[str, float | str] = {"It rains.": 0.9, "It snows.": 0.8, "It is red.": 0.7}
    engine = ScriptedEngine(script, default=0.1)
    run = evaluate(rows, engine=engine, metrics=["context_recall"], out=tmp_path_factory.mktemp("labelled"))
    for labeller in ("ann", "bob"):
        answer(run, labeller, again=labeller == "bob")
    return run


def read(path: Path) -> PageReader:
    return PageReader(path.read_text())


def test_the_report_lists_disputed_statements_with_all_answers(labelled_run: Run, tmp_path: Path) -> None:
    page = read(labelled_run.report(tmp_path / "open.html"))
    _, heading, disputes = " ".join(page.text.split()).partition("Statements on which annotators differ")
    assert heading
    assert "It snows. first, context_recall ann 1, bob 0 no" in disputes
    assert ("It rains." in disputes, "It is red." in disputes) == (False, False)
    assert (HOSTILE[0] in disputes, "\\x1b[2J" in disputes) == (True, True)
    assert not [attrs for tag, attrs in page.elements if tag == "script" and "type" not in attrs]
