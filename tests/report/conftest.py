"""A finished run to look at, with text in it that would like to act on the terminal."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.report.terminal import Table, View, drawn

EVIL = "It \x1b[2J\x1b]0;owned\x07 rains. [bold red]Not[/] \u202etxet :smile:."
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def printed(view: Table | View, width: int = 120, *, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    text = drawn(view, console)
    assert colour == bool(_COLOUR.search(text))
    return _COLOUR.sub("", text)


def lines_of(view: Table | View, width: int = 100) -> list[str]:
    return [line.strip() for line in printed(view, width).splitlines()]


def row(name: str, *sentences: str) -> dict[str, Any]:
    return {"id": name, "reference": " ".join(sentences), "retrieved_contexts": ["A context."]}


def one_each(count: int) -> list[dict[str, Any]]:
    return [row(str(number), f"Sentence {number}.") for number in range(count)]


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
