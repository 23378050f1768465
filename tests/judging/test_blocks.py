"""A question is asked once in a run, and the size of blocks changes no file."""

from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.protocol import count_workers
from localjudge.engine.scripted import unit_text
from localjudge.judging import evaluate as run_blocks

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


def test_several_workers_get_larger_blocks() -> None:
    """At most 16 times as large: 4,096 samples and their questions fit into memory."""
    sizes = {}
    for workers in (1, 3, 1_000):
        sizes[workers] = [len(block) for block in run_blocks.blocks(range(10_000), workers)][:6]
    assert sizes == {
        1: [16, 32, 64, 128, 256, 256],
        3: [48, 96, 192, 384, 768, 768],
        1_000: [256, 512, 1_024, 2_048, 4_096, 2_064],
    }


class EngineWithPool(ScriptedEngine):
    """An engine with an attribute that is called as the number of workers."""

    def __init__(self, workers: Any) -> None:
        super().__init__({}, default=0.9)
        self.workers = workers


@pytest.mark.parametrize(
    ("workers", "count"), [(4, 4), (0, 1), (["thread 1", "thread 2"], 1), (None, 1)]
)
def test_workers_of_an_engine_that_are_not_a_number_are_not_counted(
    tmp_path: Path, workers: Any, count: int
) -> None:
    engine = EngineWithPool(workers)
    assert count_workers(engine) == count
    assert judged(tmp_path / "run", engine, ROW)["context_recall"].mean == 1


def test_block_size_changes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one sample give the files of a single block, with some questions shared."""
    rows = [
        {**ROW, "id": str(number), "reference": f"It is {number % 7}. So be it."}
        for number in range(40)
    ]
    written = []
    for size in (1, 64):
        monkeypatch.setattr(run_blocks, "_FIRST_BLOCK", size)
        monkeypatch.setattr(run_blocks, "_MAX_BLOCK", size)
        engine = ScriptedEngine({"It is 3.": 0.2, "So be it.": "broken"}, default=0.9)
        run = judged(tmp_path / str(size), engine, *rows)
        names = ("scores.jsonl", "verdicts.jsonl", "summary.json")
        written.append([(run.directory / name).read_bytes() for name in names])
    assert written[0] == written[1]
