"""Results of a run are computed once, and freed with it."""

import gc
from pathlib import Path
from typing import Any

import localjudge
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


def test_a_result_is_computed_once_for_each_run_and_its_labels(scripted_run: ScriptedRun) -> None:
    """The eight latest results of a run are kept."""
    runs = [scripted_run(name, ROWS, {}, metrics=[METRIC]) for name in ("a", "b")]
    files = []
    for run in runs:
        label(run, lambda _text: 1, n=20)
        files.append(run.directory / "labels.jsonl")
    assert runs[0].labels is runs[0].labels
    assert runs[1].labels is runs[1].labels
    assert runs[0].labels is not runs[1].labels
    lines = files[0].read_bytes().splitlines(keepends=True)
    results = []
    for count in range(1, 10):
        files[0].write_bytes(b"".join(lines[:count]))
        results.append(runs[0].labels)
    assert runs[0].labels is results[-1]
    files[0].write_bytes(b"".join(lines[:2]))
    assert runs[0].labels is results[1]
    files[0].write_bytes(lines[0])
    assert runs[0].labels == results[0]
    assert runs[0].labels is not results[0]
