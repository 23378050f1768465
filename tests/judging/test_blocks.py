"""A question is asked once in a run, and the size of blocks changes no file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.types import VerdictRequest

ROW = {"id": "a", "retrieved_contexts": ["A context."], "reference": "One. Two."}


def judged(out: Path, engine: ScriptedEngine, *rows: Any, metrics: Any = "context_recall") -> Run:
    return evaluate(rows, metrics=metrics, engine=engine, out=out)


def test_metrics_share_equal_questions(tmp_path: Path) -> None:
    engine = ScriptedEngine({}, default=1.0)
    run = judged(
        tmp_path,
        engine,
        {**ROW, "response": "One."},
        metrics=["context_recall", "faithfulness"],
    )
    assert [unit_text(request) for request in engine.asked] == ["One.", "Two."]
    assert len(run.verdicts) == 3


def test_stored_answers_and_errors_are_not_asked_again(tmp_path: Path) -> None:
    engines = [ScriptedEngine({"One.": 0.9, "Two.": "broken"}) for _ in range(2)]
    runs = [judged(tmp_path, engine, ROW) for engine in engines]
    assert [(row.p_yes, row.error) for row in runs[0].verdicts] == [(0.9, None), (None, "broken")]
    assert (runs[1].verdicts, engines[1].asked) == (runs[0].verdicts, ())


@pytest.mark.parametrize("contexts", [[""], [" \n", "\t"]])
def test_without_context_text_the_label_is_0_without_a_question(
    tmp_path: Path, contexts: list[str]
) -> None:
    engine = ScriptedEngine({})
    run = judged(tmp_path, engine, {**ROW, "retrieved_contexts": contexts})
    assert ([row.label for row in run.verdicts], engine.asked) == ([0, 0], ())


class Blocks(ScriptedEngine):
    """An engine with an attribute that is called as the number of workers; it keeps block sizes."""

    def __init__(self, workers: Any = 1) -> None:
        super().__init__({"It is 3.": 0.2, "So be it.": "broken"}, default=0.9)
        self.workers = workers
        self.sizes: list[int] = []

    def answers(self, requests: Sequence[VerdictRequest]) -> Any:
        """Keep the number of requests."""
        self.sizes.append(len(requests))
        return super().answers(requests)


def numbered(count: int) -> list[dict[str, Any]]:
    """Return samples with one question each."""
    return [{**ROW, "id": str(n), "reference": f"Number {n} is so."} for n in range(count)]


@pytest.mark.parametrize(
    ("workers", "sizes"),
    [
        (1, [16, 32, 64, 128, 256, 256, 8]),
        (3, [48, 96, 192, 384, 40]),
        (1_000, [256, 504]),
    ],
)
def test_several_workers_get_larger_blocks(tmp_path: Path, workers: int, sizes: list[int]) -> None:
    """At most 16 times as large: 4,096 samples and their questions fit into memory."""
    engine = Blocks(workers)
    judged(tmp_path / "run", engine, *numbered(760))
    assert engine.sizes == sizes


@pytest.mark.parametrize(
    ("workers", "sizes"),
    [(4, [20]), (0, [16, 4]), (["thread 1", "thread 2"], [16, 4]), (None, [16, 4])],
)
def test_workers_of_an_engine_that_are_not_a_number_are_not_counted(
    tmp_path: Path, workers: Any, sizes: list[int]
) -> None:
    engine = Blocks(workers)
    assert judged(tmp_path / "run", engine, *numbered(20))["context_recall"].mean == 1
    assert engine.sizes == sizes


def test_block_size_changes_no_file(tmp_path: Path) -> None:
    """Blocks of 16 and 24 samples give the files of a single block, with some questions shared."""
    rows = [
        {**ROW, "id": str(number), "reference": f"It is {number % 7}. So be it."}
        for number in range(40)
    ]
    written = []
    for workers in (1, 4):
        run = judged(tmp_path / str(workers), Blocks(workers), *rows)
        names = ("scores.jsonl", "verdicts.jsonl", "summary.json")
        written.append([(run.directory / name).read_bytes() for name in names])
    assert written[0] == written[1]
