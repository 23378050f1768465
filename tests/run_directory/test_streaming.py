"""Runs are read row by row; memory does not grow with the texts."""

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, ScriptedEngine

pytestmark = pytest.mark.engine

SAMPLES = 2_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    texts = {f"s{number}": f"{number} {'x' * 2_000}" for number in range(SAMPLES)}
    rows = [
        {"id": name, "retrieved_contexts": [text], "reference": f"{text}."}
        for name, text in texts.items()
    ]
    out = tmp_path_factory.mktemp("streaming") / "run"
    engine = ScriptedEngine(lambda request: float(len(repr(request.path)) % 2))
    return localjudge.evaluate(rows, out=out, engine=engine, metrics=["context_recall"])


def peak(read: Callable[[], object]) -> int:
    read()  # what is made once, and kept, is no part of it
    return min(traced(read) for _ in range(3))


def traced(read: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    read()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def consume(rows: Iterator[object]) -> None:
    for _ in rows:
        pass


READERS: list[Callable[[Run], Iterator[object]]] = [
    *(Run.iter_scores, Run.iter_verdicts, Run.iter_samples)
]


@pytest.mark.parametrize("read", READERS)
def test_reading_uses_bounded_memory(run: Run, read: Callable[[Run], Iterator[object]]) -> None:
    assert peak(lambda: consume(read(run))) < 4_000_000


@pytest.mark.parametrize("rows", ["verdicts", "samples"])
def test_exporting_uses_bounded_memory(run: Run, tmp_path: Path, rows: Any) -> None:
    file = tmp_path / "rows.jsonl"
    assert peak(lambda: run.export(file, rows=rows, texts=True)) < 4_000_000


def test_a_comparison_uses_bounded_memory(run: Run) -> None:
    comparisons: list[Any] = []
    assert peak(lambda: comparisons.append(run.compare(run))) < 8_000_000
    assert comparisons[0].samples.by_id == SAMPLES


def test_each_sample_comes_with_its_scores(run: Run, tmp_path: Path) -> None:
    assert [sample.id for sample in run.samples] == [f"s{number}" for number in range(SAMPLES)]
    file = run.export(tmp_path / "rows.jsonl", rows="samples")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(row["sample_id"], row["context_recall"]) for row in rows] == [
        (score.sample_id, score.score) for score in run.scores
    ]
