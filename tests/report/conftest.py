"""A finished run to look at, with text in it that would like to act on the terminal."""

from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate

EVIL = "It \x1b[2J\x1b]0;owned\x07 rains. [bold red]Not[/] \u202etxet :smile:."


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three samples: one of two statements attributed, one with nothing attributed, one without a reference."""
    rows: list[dict[str, Any]] = [
        {"id": "good", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."},
        {"id": "=evil\x1b[2J", "user_input": EVIL, "retrieved_contexts": [EVIL], "reference": EVIL},
        {"id": "none", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": None},
    ]
    engine = ScriptedEngine({"It rains.": 0.9}, default=0.1)
    metrics = ["context_recall", "context_relevancy"]
    return evaluate(rows, engine=engine, metrics=metrics, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One sample scored 1, one failed, of each metric."""
    rows = [
        {"id": "good", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains."},
        {"id": "bad", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It snows."},
    ]
    engine = ScriptedEngine({"It snows.": "it does not fit"}, default=0.9)
    return evaluate(rows, engine=engine, metrics=["context_recall"], out=Path(tmp_path_factory.mktemp("failed")))
