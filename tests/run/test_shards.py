"""Shards: parts of the data by the samples' ids, which processes judge apart and `merge` makes one run."""

import hashlib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import InputError, Run, ScriptedEngine, evaluate
from localjudge.dataset.samples import shard_number
from localjudge.run.settings import RunSettings
from localjudge.run.verify import verify_run as verify

ROWS: list[dict[str, Any]] = [
    {"id": str(number), "retrieved_contexts": ["It rains."], "reference": f"One {number}.", "topic": str(number % 2)}
    for number in range(20)
]


def judged(rows: list[dict[str, Any]], out: Path | None = None, **options: Any) -> Run:
    return evaluate(rows, metrics=["context_recall"], out=out, engine=ScriptedEngine({}, default=0.8), **options)


def ids(run: Run) -> list[str]:
    return [row.sample_id for row in run.scores]


def test_the_shards_of_known_ids() -> None:
    """Sha256 of "shard|" and the id, as one number, modulo the count: what a shard holds never changes."""
    for sample_id in ("a", "b", "ä", "danube"):
        expected = int(hashlib.sha256(f"shard|{sample_id}".encode()).hexdigest(), 16) % 7 + 1
        assert shard_number(sample_id, 7) == expected


@given(st.text(max_size=8), st.integers(1, 40))
def test_a_sample_is_in_exactly_one_shard(sample_id: str, count: int) -> None:
    assert 1 <= shard_number(sample_id, count) <= count


def test_shards_are_the_data_in_its_order(tmp_path: Path) -> None:
    shards = [ids(judged(ROWS, tmp_path / str(one), shard=f"{one}/3")) for one in (1, 2, 3)]
    assert sorted(chain.from_iterable(shards), key=int) == [row["id"] for row in ROWS]
    assert all(shard == sorted(shard, key=int) for shard in shards)


def test_rows_that_come_and_go_move_no_other(tmp_path: Path) -> None:
    before = ids(judged(ROWS, tmp_path / "before", shard="2/3"))
    after = ids(judged([*reversed(ROWS[5:]), *ROWS[:3]], tmp_path / "after", shard="2/3"))
    assert set(after) == set(before) - {"3", "4"}


def test_a_shard_of_a_part(tmp_path: Path) -> None:
    """The part is chosen first: the shards of the first eight are these eight."""
    runs = [judged(ROWS, tmp_path / str(one), shard=f"{one}/2", limit=8) for one in (1, 2)]
    assert sorted(ids(runs[0]) + ids(runs[1]), key=int) == [str(number) for number in range(8)]
    assert str(runs[0].part) == f"{len(ids(runs[0]))} of 20 samples, shard 1/2 of the first 8"
    drawn = judged(ROWS, tmp_path / "drawn", shard="1/1", sample=8, seed=3)
    assert str(drawn.part) == "8 of 20 samples, shard 1/1 of 8 drawn by seed 3"


def test_each_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that no sample falls into; and the shards of one run begin alike."""
    monkeypatch.chdir(tmp_path)
    names = [judged(ROWS[:2], shard=f"{one}/9").directory.name for one in range(1, 10)]
    assert len(set(names)) == 9
    assert len({name.partition("-shard-")[0] for name in names}) == 1
    assert names[3].endswith("-shard-4-of-9")
    assert judged(ROWS[:2], shard="4/9", cluster_by="topic").directory.name not in names


@pytest.mark.parametrize("given", ["0/4", "5/4", "1", "1/0", "-1/4", "1/4/4", "a/b", "", "1.0/4", "²/4"])
def test_what_is_no_shard(given: str) -> None:
    with pytest.raises(InputError, match="shard must be I/N with I from 1 to N"):
        RunSettings(shard=given)


def test_an_empty_shard_is_a_run(tmp_path: Path) -> None:
    """Of many shards of few rows some are empty: an array of jobs must not fail for it."""
    empty = next(one for one in range(1, 10) if all(shard_number(row["id"], 9) != one for row in ROWS[:3]))
    run = judged(ROWS[:3], tmp_path / "run", shard=f"{empty}/9", cluster_by="topic")
    again = Run.open(run.directory)
    assert (again.summary.samples, again["context_recall"].mean) == (0, None)
    assert verify(again, engine=ScriptedEngine({}, default=0.8)).result == "bit-identical"


def test_a_shard_goes_on_and_can_be_rescored(tmp_path: Path) -> None:
    run = judged(ROWS, tmp_path / "run", shard="1/2")
    engine = ScriptedEngine({}, default=0.8)
    evaluate(ROWS, metrics=["context_recall"], out=tmp_path / "run", engine=engine, shard="1/2")
    again = run.rescore(threshold=0.9, out=tmp_path / "again", engine=engine)
    assert engine.asked == ()
    assert again.part == run.part
    assert again.manifest.environment["shard_of"] == run.manifest.environment["shard_of"]
    assert verify(again, engine=engine).result == "bit-identical"


def test_another_shard_is_another_run(tmp_path: Path) -> None:
    judged(ROWS, tmp_path / "run", shard="1/2")
    with pytest.raises(InputError, match="belongs to another run"):
        judged(ROWS, tmp_path / "run", shard="2/2")
