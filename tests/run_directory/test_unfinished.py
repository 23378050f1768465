import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed

import localjudge
from localjudge import Run, RunDirectoryError, ScriptedEngine, UnfinishedRun
from localjudge.types import VerdictRequest
from tests.analysis.conftest import label
from tests.cli.conftest import called
from tests.run_directory.conftest import Stopped, edited

SAMPLES = 60
ROWS: list[dict[str, Any]] = [
    {
        "id": str(number),
        "topic": str(number % 5),
        "retrieved_contexts": ["It rains."],
        "reference": f"Odd {number}." if number % 2 else f"Even {number}.",
    }
    for number in range(SAMPLES)
]
IN_BLOCKS = 48
"""Blocks have 16, 32, ... samples."""


def judged(
    out: Path, most: int = SAMPLES, seen: Callable[[], None] = lambda: None, **options: Any
) -> Run:
    def answer(request: VerdictRequest) -> float:
        nonlocal most
        most -= 1
        if most < 0:
            seen()
            raise Stopped
        return 0.9 if "Odd" in str(request.path) else 0.1

    return localjudge.evaluate(
        ROWS, metrics=["context_recall"], out=out, engine=ScriptedEngine(answer), **options
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unfinished") / "run"
    with pytest.raises(Stopped):
        judged(out, most=50)
    return out


@pytest.mark.parametrize("options", [{}, {"cluster_by": "topic"}])
def test_a_stopped_run_has_the_numbers_of_a_run_of_its_samples(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(Stopped):
        judged(tmp_path / "run", most=50, **options)
    run = Run.open(tmp_path / "run", unfinished=True)
    whole = judged(tmp_path / "whole", limit=IN_BLOCKS, **options)
    assert run.summary.metrics == whole.summary.metrics
    assert (run.summary.metrics["context_recall"].mean, run.summary.samples) == (0.5, IN_BLOCKS)
    assert (run.scores, run.verdicts) == (whole.scores, whole.verdicts)
    shown = [json.loads(printed("show", each, "--json")) for each in (run, whole)]
    ranks = [values["metrics"]["context_recall"]["evidence_places"] for values in shown]
    assert ranks[0] == ranks[1]
    assert ranks[0]["statements"] == IN_BLOCKS


def test_labels_count_when_a_run_is_finished(tmp_path: Path, sound: Path) -> None:
    """Labels of the statements that have a verdict lie beside the rows so far."""
    unfinished = shutil.copytree(sound, tmp_path / "run")
    whole = label(judged(tmp_path / "whole"), lambda _: 1, 10)
    shutil.copy(whole.directory / "labels.jsonl", unfinished)
    assert whole.labels is not None
    assert Run.open(unfinished, unfinished=True).labels is None


def test_a_run_can_be_shown_while_it_runs(tmp_path: Path) -> None:
    runs: list[Run] = []
    with pytest.raises(Stopped):
        judged(
            tmp_path / "run",
            50,
            lambda: runs.append(Run.open(tmp_path / "run", unfinished=True)),
        )
    assert [(run.summary.samples, len(run.scores)) for run in runs] == [(IN_BLOCKS, IN_BLOCKS)]


def test_the_table_of_a_stopped_run_says_unfinished(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = called(capfd, "show", directory)
    assert code == 0
    assert " not finished: the first 48 of 60 samples, in data order\n" in out
    values = json.loads(called(capfd, "show", directory, "--json")[1])
    assert (values["finished"], values["samples"]) == (False, IN_BLOCKS)
    assert "Odd 7." in called(capfd, "show", directory, "7")[1]


def test_a_run_without_rows_shows_no_manifest_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Stopped):
        judged(tmp_path, most=3)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["environment"] |= {"judge": "/203.0.113.5/model.gguf", "sources": ["--judge"]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    code, _, errors = called(capfd, "show", tmp_path)
    assert (code, "no finished sample" in errors) == (1, True)
    with pytest.raises(UnfinishedRun) as refused:
        Run.open(tmp_path)
    for text in (errors, str(refused.value)):
        assert "203.0.113.5" not in text
        assert "--judge" not in text


def a_link(directory: Path) -> None:
    (directory / "scores.jsonl.part").rename(directory / "elsewhere")
    (directory / "scores.jsonl.part").symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (
            edited("scores.jsonl.part", '"score": 1.0', '"score": 7.0'),
            "scores.jsonl.part:.* is not a row",
        ),
        (
            edited("scores.jsonl.part", '"context_recall"', '"faithfulness"'),
            "to its run|verdict has no score",
        ),
        (
            edited("scores.jsonl.part", '"sample_id": "1"', '"sample_id": "x"'),
            "to its run|verdict has no score",
        ),
        (a_link, "scores.jsonl.part is a link"),
        (
            edited("so-far.json", '{"scores.jsonl":', '{"scores.jsonl":-'),
            "so-far.json cannot be read",
        ),
        (lambda directory: os.truncate(directory / "so-far.json", 5), "so-far.json cannot be read"),
        (lambda directory: os.unlink(directory / "scores.jsonl.part"), "cannot be read"),
    ],
)
def test_invalid_unfinished_rows_are_refused(
    directory: Path, spoil: Callable[[Path], object], problem: str
) -> None:
    spoil(directory)
    with pytest.raises(RunDirectoryError, match=problem):
        Run.open(directory, unfinished=True)
