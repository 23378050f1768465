"""All shards of a run, reused together, give the files of the undivided run, with or without its
data file.
"""

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.types import NoAnswer, VerdictRequest
from tests.report.whole_files import exported
from tests.run_directory.conftest import Stopped, in_store

pytestmark = pytest.mark.engine

FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
METRICS = ["context_recall", "faithfulness", "document_recall_single_hit"]


def is_failing(request: VerdictRequest) -> bool:
    """Failures are never reused, so that they are asked again."""
    return sum(map(ord, unit_text(request))) % 13 == 0


class Engine(ScriptedEngine):
    """Answer by the text of the unit, fail on some, and stop after `most` answers."""

    def __init__(self, most: int = 1_000_000, other: float = 0.0) -> None:
        def answer(request: VerdictRequest) -> float | NoAnswer:
            nonlocal most
            most -= 1
            if most < 0:
                raise Stopped
            number = sum(map(ord, unit_text(request)))
            if is_failing(request):
                return NoAnswer(error="a logit is not a number")
            return abs(number % 97 / 96 - other)

        super().__init__(answer)


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"sample {number}",
            "topic": str(number % 7),
            "note": {"seen": number},
            "retrieved_contexts": [f"Context {number % 5}.", "Another."],
            "reference": f"Statement {number % 11}. It goes on." if number % 10 else "",
            "response": f"Answer {number}.",
            "reference_contexts": [f"Context {number}."],
        }
        for number in range(count)
    ]


def judged(data: Any, out: Path, engine: Any = None, **options: Any) -> Run:
    return evaluate(data, metrics=METRICS, out=out, engine=engine or Engine(), **options)


def sharded(
    data: Any, folder: Path, count: int, engine: Callable[[], Any] = Engine, **options: Any
) -> list[Path]:
    return [
        judged(
            data,
            folder / f"{number}-of-{count}",
            engine(),
            shard=f"{number}/{count}",
            **options,
        ).directory
        for number in range(1, count + 1)
    ]


def joined(shards: Any, out: Path, engine: ScriptedEngine | None = None, **options: Any) -> Run:
    """Return the whole run from its shards, without the data."""
    return evaluate(reuse=shards, out=out, engine=engine or Engine(), **options)


def again_by(run: Run | Path, out: Path, **options: Any) -> Run:
    return evaluate(reuse=run, out=out, engine=Engine(), **options)


def results(run: Run) -> dict[str, bytes]:
    return {name: (run.directory / name).read_bytes() for name in FILES}


def stored(run: Run) -> dict[str, set[tuple[Any, ...]]]:
    queries = {
        "sample": "SELECT * FROM sample",
        "verdict": "SELECT * FROM verdict",
        "node": "SELECT sha256, text, pieces FROM node",
        "request": "SELECT key, content FROM request JOIN shape ON shape.id = shape",
        "unit": "SELECT sample_id, metric, position, judge, window, key"
        " FROM unit JOIN request ON id = request",
    }
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as connection:
        return {name: set(connection.execute(query)) for name, query in queries.items()}


texts = st.text(st.sampled_from("ab. \n"), max_size=12)
contexts = {
    name: st.lists(texts, max_size=3) for name in ("retrieved_contexts", "reference_contexts")
}
samples = st.fixed_dictionaries({"reference": texts, "response": texts, **contexts})


@settings(max_examples=10)
@given(
    st.lists(samples, min_size=1, max_size=25),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_joined_shards_of_any_data_equal_the_whole_run(
    data: list[Any], count: int, random: Any, grouped: bool
) -> None:
    data = [
        {"id": f"s{number}", "topic": str(number % 3), **row} for number, row in enumerate(data)
    ]
    options: dict[str, Any] = {"cluster_by": "topic"} if grouped else {}
    with TemporaryDirectory() as folder:
        place = Path(folder)
        whole = judged(data, place / "whole", **options)
        shards = sharded(data, place, count, **options)
        random.shuffle(shards)
        engine = Engine()
        merged = joined(shards, place / "merged", engine)
        assert results(merged) == results(whole)
        assert stored(merged) == stored(whole)
        assert merged.manifest.data == whole.manifest.data
        assert all(is_failing(request) for request in engine.asked)
        with_data = judged(data, place / "with data", reuse=shards, **options)
        assert results(with_data) == results(whole)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("merge")
    judged(rows(100), place / "whole", cluster_by="topic")
    joined(sharded(rows(100), place, 3, cluster_by="topic"), place / "merged")
    return place


def shards_in(folder: Path) -> list[Path]:
    return [folder / f"{number}-of-3" for number in (1, 2, 3)]


def test_a_joined_run_equals_the_whole_run(folder: Path, tmp_path: Path) -> None:
    whole = Run.open(folder / "whole")
    merged = Run.open(folder / "merged")
    assert results(merged) == results(whole)
    assert b"a logit is not a number" in results(whole)["verdicts.jsonl"]
    answers = merged.manifest.environment.answers
    of_whole = whole.manifest.environment.answers
    assert answers is not None
    assert of_whole is not None
    assert answers.asked + sum(answers.reused.values()) == of_whole.asked
    assert answers.reused.keys() == {str(shard) for shard in shards_in(folder)}
    assert (merged.part, merged.summary.signature) == (None, whole.summary.signature)
    checked = merged.verify(engine=Engine())
    assert (checked.result, checked.stored_requests) == (
        "bit-identical",
        len(stored(whole)["request"]),
    )
    of_one_run: Any = {"run": True, "labels": {"current": {"when", "first"}}}
    verified_whole = whole.verify(engine=Engine())
    assert checked.model_dump(exclude=of_one_run) == verified_whole.model_dump(exclude=of_one_run)
    assert not any(change.moved for change in merged.compare(whole).metrics.values())
    assert exported(merged, "jsonl", texts=True) == exported(whole, "jsonl", texts=True)
    again = again_by(merged, tmp_path / "again", threshold=0.7)
    expected = again_by(whole, tmp_path / "expected", threshold=0.7)
    assert results(again) == results(expected)


def test_the_run_with_data_after_joining_asks_no_question(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "merged", tmp_path / "merged")
    engine = Engine()
    run = judged(rows(100), tmp_path / "merged", engine, cluster_by="topic")
    assert not engine.asked
    assert results(run) == results(Run.open(folder / "whole"))


def test_joined_shards_of_a_part_equal_the_part(tmp_path: Path) -> None:
    whole = judged(rows(40), tmp_path / "whole", sample=15, seed=2)
    merged = joined(sharded(rows(40), tmp_path, 2, sample=15, seed=2), tmp_path / "merged")
    assert results(merged) == results(whole)
    assert str(merged.part) == str(whole.part) == "15 of 40 samples, drawn with seed 2"


def test_rescored_shards_are_shards(tmp_path: Path) -> None:
    whole = judged(rows(30), tmp_path / "whole")
    again = again_by(whole, tmp_path / "again", threshold=0.8)
    shards = [
        again_by(shard, tmp_path / f"again-{shard.name}", threshold=0.8)
        for shard in sharded(rows(30), tmp_path, 3)
    ]
    merged = joined(shards, tmp_path / "merged")
    assert results(merged) == results(again)
    answers = merged.manifest.environment.as_json["answers"]
    assert len(answers["reused"]) == 3
    assert answers["asked"] + sum(answers["reused"].values()) == len(stored(whole)["request"])


def test_a_killed_shard_resumes(tmp_path: Path) -> None:
    whole = judged(rows(60), tmp_path / "whole")
    shards = sharded(rows(60), tmp_path, 2)
    shutil.rmtree(shards[1])
    with pytest.raises(Stopped):
        judged(rows(60), shards[1], Engine(most=20), shard="2/2")
    with pytest.raises(RunDirectoryError, match="2-of-2 is not finished"):
        joined(shards, tmp_path / "merged")
    judged(rows(60), shards[1], shard="2/2")
    assert results(joined(shards, tmp_path / "merged")) == results(whole)


@pytest.mark.parametrize(
    "file",
    ["manifest.json", "run.sqlite", "run.sqlite-wal", "scores.jsonl.part", "resume.json"],
)
def test_killed_joining_can_be_repeated(folder: Path, tmp_path: Path, file: str) -> None:
    shards = shards_in(folder)
    out = tmp_path / "whole"
    program = (
        "import sys; from tests.judging.test_shards import *;"
        " joined(sys.argv[2:], Path(sys.argv[1]))"
    )
    root = Path(__file__).parents[2]
    merging = subprocess.Popen(
        [sys.executable, "-c", program, str(out), *map(str, shards)], cwd=root
    )
    while merging.poll() is None and not (out / file).exists():
        time.sleep(0.0005)
    merging.kill()
    if merging.wait():
        with pytest.raises(RunDirectoryError, match="is not finished"):
            Run.open(out)
    assert results(joined(shards, out)) == results(joined(shards, tmp_path / "undisturbed"))


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ([1, 2], "missing shards: 1/3"),
        ([0, 1, 1, 2], "shard 2/3 appears twice"),
        ([], "no data were named"),
    ],
)
def test_missing_and_duplicate_shards_are_named(
    folder: Path, chosen: list[int], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        joined([shards_in(folder)[number] for number in chosen], folder / "never")
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"threshold": 0.6}, "threshold: 0.5 there, 0.6 here"),
        ({"data": rows(101)}, "data.rows: 100 there, 101 here"),
        ({"cluster_by": None}, "cluster_by: topic there, None here"),
        ({"max_failed": 3}, "max_failed: None there, 3 here"),
        ({"shard": "3/4"}, "shards: 3 there, 4 here"),
        ({"shard": None}, "not a shard"),
    ],
)
def test_shards_of_different_runs_are_refused(
    folder: Path, tmp_path: Path, how: dict[str, Any], problem: str
) -> None:
    other = judged(
        out=tmp_path / "other",
        **{"data": rows(100), "shard": "3/3", "cluster_by": "topic", **how},
    )
    with pytest.raises(InputError, match=problem):
        joined([*shards_in(folder)[:2], other], tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "UPDATE sample SET content = replace(content, 'Another', 'Others')",
            "differ from the 100 that were judged",
        ),
        ("DELETE FROM sample WHERE position > 90", "disagree .*position"),
        ("UPDATE sample SET position = position + 1", "disagree .*position"),
        ("UPDATE sample SET position = 7", "disagree .*position"),
        ("UPDATE sample SET position = 1000 - position", "disagree .*position"),
        ("UPDATE answer SET p_yes = 2", "invalid content"),
    ],
)
def test_a_shard_changed_by_hand_is_refused(
    folder: Path, tmp_path: Path, statement: str, problem: str
) -> None:
    shutil.copytree(folder / "3-of-3", tmp_path / "3-of-3")
    in_store(tmp_path / "3-of-3", statement)
    with pytest.raises(RunDirectoryError, match=problem):
        joined([*shards_in(folder)[:2], tmp_path / "3-of-3"], tmp_path / "merged")


def test_joining_changes_no_directory_of_another_run(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="belongs to another run"):
        joined(shards_in(folder), folder / "2-of-3")
    other = judged(rows(5), tmp_path / "other")
    before = results(other)
    with pytest.raises(RunDirectoryError, match="belongs to another run"):
        joined(shards_in(folder), other.directory)
    assert results(other) == before
