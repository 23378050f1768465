"""Results of a run are computed once, and freed with it."""

import gc
from pathlib import Path
from typing import Any

import localjudge
from localjudge.run_directory.run_record import RunRecord, cached_by_run
from tests.analysis.conftest import label
from tests.analysis.labelled_runs import METRIC
from tests.conftest import OneJudge, ScriptedRun

ROWS: list[dict[str, Any]] = [
    {"id": str(number), "reference": f"Sentence {number}.", "retrieved_contexts": ["A context."]}
    for number in range(30)
]


def test_the_folder_of_a_run_without_directory_is_deleted_with_the_run(tmp_path: Path) -> None:
    """Reading labels and corrected means kept the run and its texts until the process ended."""
    engine = OneJudge({}, default=0.9)
    run = localjudge.evaluate(ROWS, out=False, engine=engine, metrics=[METRIC])
    folder = run.directory
    label(run, lambda _text: 1, n=20)
    assert run.labels is not None
    assert run[METRIC].corrected is not None
    exported = run.export(tmp_path / "verdicts.jsonl", rows="verdicts")
    assert '"ann"' in exported.read_text(encoding="utf-8")
    assert folder.exists()
    del run
    gc.collect()
    assert not folder.exists()


def test_a_result_is_computed_once_for_each_run_and_argument(scripted_run: ScriptedRun) -> None:
    computed = []

    @cached_by_run
    def double(run: RunRecord, number: int) -> int:
        computed.append((run.directory.name, number))
        return 2 * number

    runs = [scripted_run(name, ROWS[:1], {}, metrics=[METRIC]) for name in ("a", "b")]
    for _ in range(3):
        assert [double(run, number) for run in runs for number in (1, 2)] == [2, 4, 2, 4]
    assert computed == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    for number in range(20):
        double(runs[0], number)
    double(runs[0], 1)
    assert computed.count(("a", 1)) == 2
