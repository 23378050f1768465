"""A run that is still running, or was stopped, is shown as far as it is: what it has is checked like any other run."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, ScriptedEngine
from localjudge.errors import RunDirectoryError
from localjudge.types import VerdictRequest
from tests.cli.conftest import called
from tests.record.conftest import in_store

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
"""Blocks are of 16, 32, ... samples."""


class Stopped(Exception):
    """The engine was stopped on purpose."""


def judged(out: Path, most: int = SAMPLES, seen: Callable[[], None] = lambda: None, **options: Any) -> Run:
    def said(request: VerdictRequest) -> float:
        nonlocal most
        most -= 1
        if most < 0:
            seen()
            raise Stopped
        return 0.9 if "Odd" in str(request.path) else 0.1

    return localjudge.evaluate(ROWS, metrics=["context_recall"], out=out, engine=ScriptedEngine(said), **options)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stopped when the rows of 48 samples were written."""
    out = tmp_path_factory.mktemp("unfinished") / "run"
    with pytest.raises(Stopped):
        judged(out, most=50)
    return out


@pytest.mark.parametrize("options", [{}, {"cluster_by": "topic"}], ids=["alone", "in groups"])
def test_it_has_the_numbers_of_a_run_of_as_many_samples(tmp_path: Path, options: dict[str, Any]) -> None:
    """24 of 48 statements are odd; the interval is that of a whole run on these 48."""
    with pytest.raises(Stopped):
        judged(tmp_path / "run", most=50, **options)
    found = Run.open(tmp_path / "run", unfinished=True)
    whole = judged(tmp_path / "whole", limit=IN_BLOCKS, **options)
    assert found.summary.metrics == whole.summary.metrics
    assert (found.summary.metrics["context_recall"].mean, found.summary.samples) == (0.5, IN_BLOCKS)
    assert (found.scores, found.verdicts) == (whole.scores, whole.verdicts)
    assert found.verdicts_of("7") == whole.verdicts_of("7")


def test_it_is_shown_while_it_is_written(tmp_path: Path) -> None:
    """From inside the run, whose lock is held and whose log of answers is open."""
    found: list[Run] = []
    with pytest.raises(Stopped):
        judged(tmp_path / "run", 50, lambda: found.append(Run.open(tmp_path / "run", unfinished=True)))
    assert [(run.summary.samples, len(run.scores)) for run in found] == [(IN_BLOCKS, IN_BLOCKS)]


def test_rows_that_were_written_since_it_was_opened_are_not_in_it(directory: Path) -> None:
    found = Run.open(directory, unfinished=True)
    with (directory / "scores.jsonl.part").open("a", encoding="utf-8") as part:
        part.write('{"half a row')
    assert len(found.scores) == IN_BLOCKS


def test_the_table_says_that_it_is_not_finished(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capfd, "show", directory)
    assert code == 0
    assert " not finished: the first 48 of 60 samples, in the order of the data\n" in out
    values = json.loads(called(capfd, "show", directory, "--json")[1])
    assert (values["finished"], values["samples"]) == (False, IN_BLOCKS)
    assert "Odd 7." in called(capfd, "show", directory, "7")[1]


def test_everything_else_wants_it_finished(directory: Path) -> None:
    with pytest.raises(RunDirectoryError, match="is not finished"):
        Run.open(directory)


def test_before_the_first_rows_there_is_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        judged(tmp_path / "run", most=3)
    with pytest.raises(RunDirectoryError, match="has no finished sample yet"):
        Run.open(tmp_path / "run", unfinished=True)


def test_nothing_is_written_by_looking(directory: Path) -> None:
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    Run.open(directory, unfinished=True)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def other_byte(directory: Path) -> None:
    part = directory / "scores.jsonl.part"
    part.write_bytes(part.read_bytes().replace(b'"score": 1.0', b'"score": 0.0', 1))


def vouched(directory: Path, name: str, content: bytes) -> None:
    """Another content, and a `resume.json` that says that it was so."""
    (directory / f"{name}.part").write_bytes(content)
    point = json.loads((directory / "resume.json").read_text())
    point["parts"][name] = [len(content), hashlib.sha256(content).hexdigest()]
    (directory / "resume.json").write_text(json.dumps(point))


def other_metric(directory: Path) -> None:
    content = (directory / "scores.jsonl.part").read_bytes()
    vouched(directory, "scores.jsonl", content.replace(b'"context_recall"', b'"faithfulness"', 1))


def a_link(directory: Path) -> None:
    (directory / "scores.jsonl.part").rename(directory / "elsewhere")
    (directory / "scores.jsonl.part").symlink_to("elsewhere")


def negative_size(directory: Path) -> None:
    point = json.loads((directory / "resume.json").read_text())
    point["parts"]["scores.jsonl"][0] = -1
    (directory / "resume.json").write_text(json.dumps(point))


def gone(directory: Path) -> None:
    os.unlink(directory / "scores.jsonl.part")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (other_byte, "scores.jsonl.part is not as it was left"),
        (other_metric, "not those of its metrics|verdict is of no score"),
        (a_link, "scores.jsonl.part is a link"),
        (negative_size, "not as it was left"),
        (gone, "cannot be read"),
    ],
)
def test_a_stranger_s_rows_are_not_believed(directory: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(directory)
    with pytest.raises(RunDirectoryError, match=said):
        Run.open(directory, unfinished=True)


def test_a_group_that_is_missing_is_no_bug(tmp_path: Path) -> None:
    """A store that gives a group to no sample of the rows."""
    with pytest.raises(Stopped):
        judged(tmp_path / "run", most=50, cluster_by="topic")
    in_store(tmp_path / "run", "UPDATE sample SET id = id || 'x'")
    with pytest.raises(RunDirectoryError, match="not those of its metrics"):
        Run.open(tmp_path / "run", unfinished=True)
