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

from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine, evaluate, merge
from localjudge.analysis.compare import compare
from localjudge.engine.scripted import unit_text
from localjudge.run.verify import verify_run as verify
from localjudge.types import NoAnswer, VerdictRequest
from tests.record.conftest import Stopped, in_store
from tests.report.whole_files import exported

pytestmark = pytest.mark.engine

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
METRICS = ["context_recall", "faithfulness", "document_recall_single_hit"]


class Engine(ScriptedEngine):
    """Answer by the text of the unit, fail on some, and stop after `most` answers."""

    def __init__(self, most: int = 1_000_000, other: float = 0.0) -> None:
        def answer(request: VerdictRequest) -> float | NoAnswer:
            nonlocal most
            most -= 1
            if most < 0:
                raise Stopped
            number = sum(map(ord, unit_text(request)))
            return NoAnswer(error="a logit is not a number") if number % 13 == 0 else abs(number % 97 / 96 - other)

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


def sharded(data: Any, folder: Path, count: int, engine: Callable[[], Any] = Engine, **options: Any) -> list[Path]:
    return [
        judged(data, folder / f"{number}-of-{count}", engine(), shard=f"{number}/{count}", **options).directory
        for number in range(1, count + 1)
    ]


def results(run: Run) -> dict[str, bytes]:
    return {name: (run.directory / name).read_bytes() for name in FILES}


def stored(run: Run) -> dict[str, set[tuple[Any, ...]]]:
    queries = {
        "sample": "SELECT * FROM sample",
        "verdict": "SELECT * FROM verdict",
        "node": "SELECT sha256, text, pieces FROM node",
        "request": "SELECT key, entry, content FROM request JOIN shape ON shape.id = shape",
        "unit": "SELECT sample_id, metric, position, window, key FROM unit JOIN request ON id = request",
        "reused": "SELECT key, source FROM reused JOIN request ON id = request",
    }
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as connection:
        return {name: set(connection.execute(query)) for name, query in queries.items()}


texts = st.text(st.sampled_from("ab. \n"), max_size=12)
contexts = {name: st.lists(texts, max_size=3) for name in ("retrieved_contexts", "reference_contexts")}
samples = st.fixed_dictionaries({"reference": texts, "response": texts, **contexts})


@settings(max_examples=10)
@given(st.lists(samples, min_size=1, max_size=25), st.integers(1, 5), st.randoms(use_true_random=False), st.booleans())
def test_merged_shards_of_any_data_equal_the_whole_run(data: list[Any], count: int, random: Any, grouped: bool) -> None:
    data = [{"id": f"s{number}", "topic": str(number % 3), **row} for number, row in enumerate(data)]
    options: dict[str, Any] = {"cluster_by": "topic"} if grouped else {}
    with TemporaryDirectory() as folder:
        place = Path(folder)
        whole = judged(data, place / "whole", **options)
        shards = sharded(data, place, count, **options)
        random.shuffle(shards)
        merged = merge(shards, out=place / "merged")
        assert results(merged) == results(whole)
        assert stored(merged) == stored(whole)
        assert merged.manifest.data == whole.manifest.data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("merge")
    judged(rows(100), place / "whole", cluster_by="topic")
    merge(sharded(rows(100), place, 3, cluster_by="topic"), out=place / "merged")
    return place


def shards_in(folder: Path) -> list[Path]:
    return [folder / f"{number}-of-3" for number in (1, 2, 3)]


def test_a_merged_run_equals_the_whole_run(folder: Path, tmp_path: Path) -> None:
    whole, merged = Run.open(folder / "whole"), Run.open(folder / "merged")
    assert results(merged) == results(whole)
    assert b"a logit is not a number" in results(whole)["verdicts.jsonl"]
    assert len(merged.manifest.environment.sessions) == 3
    assert merged.manifest.environment.answers == whole.manifest.environment.answers
    assert (merged.part, merged.summary.signature) == (None, whole.summary.signature)
    checked = verify(merged, engine=Engine())
    assert (checked.result, checked.stored_requests) == ("bit-identical", len(stored(whole)["request"]))
    assert checked.model_copy(update={"run": ""}) == verify(whole, engine=Engine()).model_copy(update={"run": ""})
    assert not any(change.moved for change in compare(whole, merged).metrics.values())
    assert exported(merged, "jsonl", texts=True) == exported(whole, "jsonl", texts=True)
    again = merged.rescore(threshold=0.7, out=tmp_path / "again", engine=Engine())
    expected = whole.rescore(threshold=0.7, out=tmp_path / "expected", engine=Engine())
    assert results(again) == results(expected)


def test_the_full_run_after_a_merge_asks_no_question(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "merged", tmp_path / "merged")
    engine = Engine()
    run = judged(rows(100), tmp_path / "merged", engine, cluster_by="topic")
    assert engine.asked == ()
    assert results(run) == results(Run.open(folder / "whole"))


def test_merged_shards_of_a_part_equal_the_part(tmp_path: Path) -> None:
    whole = judged(rows(40), tmp_path / "whole", sample=15, seed=2)
    merged = merge(sharded(rows(40), tmp_path, 2, sample=15, seed=2), out=tmp_path / "merged")
    assert results(merged) == results(whole)
    assert str(merged.part) == str(whole.part) == "15 of 40 samples, drawn with seed 2"


def test_rescored_shards_are_shards(tmp_path: Path) -> None:
    whole = judged(rows(30), tmp_path / "whole")
    again = whole.rescore(threshold=0.8, out=tmp_path / "again", engine=Engine())
    shards = [
        Run.open(shard).rescore(threshold=0.8, out=tmp_path / f"again-{shard.name}", engine=Engine())
        for shard in sharded(rows(30), tmp_path, 3)
    ]
    merged = merge(shards, out=tmp_path / "merged")
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
        merge(shards, out=tmp_path / "merged")
    judged(rows(60), shards[1], shard="2/2")
    assert results(merge(shards, out=tmp_path / "merged")) == results(whole)


@pytest.mark.parametrize("file", ["manifest.json", "run.sqlite", "run.sqlite-wal", "scores.jsonl.part", "resume.json"])
def test_a_killed_merge_can_be_repeated(folder: Path, tmp_path: Path, file: str) -> None:
    shards, out = shards_in(folder), tmp_path / "whole"
    program = "import sys, localjudge; localjudge.merge(sys.argv[2:], out=sys.argv[1])"
    merging = subprocess.Popen([sys.executable, "-c", program, str(out), *map(str, shards)])
    while merging.poll() is None and not (out / file).exists():
        time.sleep(0.0005)
    merging.kill()
    if merging.wait():
        with pytest.raises(RunDirectoryError, match="is not finished"):
            Run.open(out)
    assert results(merge(shards, out=out)) == results(merge(shards, out=tmp_path / "undisturbed"))


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [([1], "missing shards: 1/3, 3/3"), ([0, 1, 1, 2], "shard 2/3 appears twice"), ([], "no shard")],
)
def test_missing_and_duplicate_shards_are_named(folder: Path, chosen: list[int], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        merge([shards_in(folder)[number] for number in chosen], out=folder / "never")
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"threshold": 0.6}, "threshold: 0.5 there, 0.6 here"),
        ({"data": rows(101)}, "data.rows: 100 there, 101 here"),
        ({"cluster_by": None}, "cluster_by: topic there, None here"),
        ({"max_failed": 3}, "max_failed: 0 there, 3 here"),
        ({"shard": "3/4"}, "shards: 3 there, 4 here"),
        ({"shard": None}, "is not a shard of a run"),
    ],
)
def test_shards_of_different_runs_are_refused(folder: Path, tmp_path: Path, how: dict[str, Any], problem: str) -> None:
    other = judged(out=tmp_path / "other", **{"data": rows(100), "shard": "3/3", "cluster_by": "topic", **how})
    with pytest.raises(InputError, match=problem):
        merge([*shards_in(folder)[:2], other], out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE sample SET content = replace(content, 'Another', 'Others')", "differ from the 100"),
        ("DELETE FROM sample WHERE position > 90", "differ from the 100"),
        ("UPDATE sample SET position = position + 1", "disagree on the sample at position"),
        ("UPDATE sample SET position = 7", "has two samples at position 7"),
        ("UPDATE sample SET position = 1000 - position", "are not in the order of its samples"),
        ("UPDATE answer SET p_yes = 0.123", "has a different answer than another shard"),
        ("UPDATE unit SET request = 99999", "has invalid content"),
        ("DELETE FROM request", "has invalid content"),
    ],
)
def test_a_shard_changed_by_hand_is_refused(folder: Path, tmp_path: Path, statement: str, problem: str) -> None:
    shutil.copytree(folder / "3-of-3", tmp_path / "3-of-3")
    in_store(tmp_path / "3-of-3", statement)
    with pytest.raises(RunDirectoryError, match=problem):
        merge([*shards_in(folder)[:2], tmp_path / "3-of-3"], out=tmp_path / "merged")


def test_a_merge_changes_no_directory_of_another_run(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is one of the shards"):
        merge(shards_in(folder), out=folder / "2-of-3")
    other = judged(rows(5), tmp_path / "other")
    before = results(other)
    with pytest.raises(RunDirectoryError, match="belongs to another run"):
        merge(shards_in(folder), out=other.directory)
    assert results(other) == before
