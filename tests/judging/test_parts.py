"""A part of the data, by limit, sample or shard, is separate data; the whole run reuses its
answers.
"""

import hashlib
import io
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_summary

from localjudge import InputError, Run, ScriptedEngine, evaluate
from localjudge.report.terminal import Lines

ROWS: list[dict[str, Any]] = [
    {
        "id": str(number),
        "retrieved_contexts": ["It rains."],
        "reference": f"One {number}.",
        "topic": str(number % 2),
    }
    for number in range(20)
]


def judge(
    out: Path | None = None,
    engine: ScriptedEngine | None = None,
    rows: Any = ROWS,
    **options: Any,
) -> Run:
    engine = engine or ScriptedEngine({}, default=0.8)
    return evaluate(rows, metrics=["context_recall"], out=out, engine=engine, **options)


def ids(run: Run) -> list[str]:
    return [row.sample_id for row in run.scores]


def test_the_whole_run_asks_only_the_remaining_questions(tmp_path: Path) -> None:
    part = judge(tmp_path / "part", sample=4, seed=7)
    engine = ScriptedEngine({}, default=0.8)
    whole = judge(tmp_path / "whole", engine, reuse=part.directory)
    assert (len(part.scores), len(whole.scores), len(engine.asked)) == (4, 20, 16)
    assert set(ids(part)) < set(ids(whole))


def test_a_part_has_its_own_signature_and_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [judge(), judge(limit=20), judge(limit=3), judge(limit=4), judge(sample=3)]
    assert runs[0].directory == runs[1].directory
    assert len({run.directory for run in runs}) == 4
    assert len({run.summary.signature.partition("|")[0] for run in runs}) == 1
    names = [judge(rows=ROWS[:2], shard=f"{number}/9").directory.name for number in range(1, 10)]
    assert len(set(names)) == 9
    assert len({name.partition("-shard-")[0] for name in names}) == 1
    assert names[3].endswith("-shard-4-of-9")
    assert judge(rows=ROWS[:2], shard="4/9", cluster_by="topic").directory.name not in names


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"limit": 3}, "the first 3 of 20 samples"),
        ({"sample": 3, "seed": 5}, "3 of 20 samples, drawn with seed 5"),
    ],
)
def test_a_part_is_announced_as_a_part(tmp_path: Path, options: dict[str, Any], part: str) -> None:
    stream = io.StringIO()
    run = judge(tmp_path / "part", progress=Lines(stream), cluster_by="topic", **options)
    assert stream.getvalue().startswith(f"part of the data: {part}; ")
    assert f": reuse={str(tmp_path / 'part')!r}\n" in stream.getvalue()
    assert run.cluster_of == {name: str(int(name) % 2) for name in ids(run)}
    assert f"part of the data: {part} " in printed_summary(run)
    assert judge(tmp_path / "run", limit=99).part is None


def test_the_shard_of_an_id_never_changes(tmp_path: Path) -> None:
    """Sha256 of "shard|" and the id, as a number, modulo the count: the content never changes."""
    names = [*map(str, range(30)), "a", "ä", "danube"]
    rows = [{**ROWS[0], "id": name} for name in names]
    for number in (1, 2, 3):
        expected = []
        for name in names:
            digest = int(hashlib.sha256(f"shard|{name}".encode()).hexdigest(), 16)
            if digest % 3 + 1 == number:
                expected.append(name)
        shard = judge(tmp_path / str(number), rows=rows, shard=f"{number}/3")
        assert ids(shard) == expected


def test_added_and_removed_rows_do_not_move_others_between_shards(tmp_path: Path) -> None:
    shards = [ids(judge(tmp_path / str(number), shard=f"{number}/3")) for number in (1, 2, 3)]
    assert sorted(chain.from_iterable(shards), key=int) == [row["id"] for row in ROWS]
    assert all(shard == sorted(shard, key=int) for shard in shards)
    after = ids(judge(tmp_path / "after", rows=[*reversed(ROWS[5:]), *ROWS[:3]], shard="2/3"))
    assert set(after) == set(shards[1]) - {"3", "4"}


def test_a_shard_divides_the_selected_samples(tmp_path: Path) -> None:
    """The part is selected first: the shards of the first eight samples contain exactly these."""
    runs = [judge(tmp_path / str(number), shard=f"{number}/2", limit=8) for number in (1, 2)]
    assert sorted(ids(runs[0]) + ids(runs[1]), key=int) == [str(number) for number in range(8)]
    assert str(runs[0].part) == f"{len(ids(runs[0]))} of 20 samples, shard 1/2 of the first 8"
    drawn = judge(tmp_path / "drawn", shard="1/1", sample=8, seed=3)
    assert str(drawn.part) == "8 of 20 samples, shard 1/1 of 8 drawn with seed 3"


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "-1/4", "1/4/4", "", "1.0/4", "²/4"])
def test_an_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="shard must be I/N with I from 1 to N"):
        judge(shard=text)


def test_an_empty_shard_is_a_run(tmp_path: Path) -> None:
    """With more shards than rows some are empty, and a job array must not fail."""
    shards = [
        judge(tmp_path / str(one), rows=ROWS[:3], shard=f"{one}/4", cluster_by="topic")
        for one in range(1, 5)
    ]
    assert sum(run.summary.samples for run in shards) == 3
    run = next(run for run in shards if run.summary.samples == 0)
    again = Run.open(run.directory)
    assert (again.summary.samples, again["context_recall"].mean) == (0, None)
    assert again.verify(engine=ScriptedEngine({}, default=0.8)).result == "bit-identical"


def test_a_shard_can_be_resumed_and_scored_again(tmp_path: Path) -> None:
    run = judge(tmp_path / "run", shard="1/2")
    engine = ScriptedEngine({}, default=0.8)
    judge(tmp_path / "run", engine, shard="1/2")
    with pytest.raises(InputError, match="belongs to another run"):
        judge(tmp_path / "run", engine, shard="2/2")
    again = evaluate(reuse=run, threshold=0.9, out=tmp_path / "again", engine=engine)
    assert (engine.asked, again.part) == ((), run.part)
    assert again.manifest.environment.shard_of == run.manifest.environment.shard_of
    assert again.verify(engine=engine).result == "bit-identical"
