"""A part first: scored as data of its own, said to be a part, and not asked again when the whole follows."""

import io
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.errors import InputError
from localjudge.report.tables import summary_view
from localjudge.report.terminal import Lines, terminal

ROWS: list[dict[str, Any]] = [
    {"id": str(number), "retrieved_contexts": ["It rains."], "reference": f"One {number}.", "topic": str(number % 2)}
    for number in range(10)
]


def judged(out: Path | None = None, engine: ScriptedEngine | None = None, **options: Any) -> Run:
    engine = engine or ScriptedEngine({}, default=0.8)
    return evaluate(ROWS, metrics=["context_recall"], out=out, engine=engine, **options)


def ids(run: Run) -> list[str]:
    return [row.sample_id for row in run.scores]


def test_the_whole_asks_only_the_rest(tmp_path: Path) -> None:
    part = judged(tmp_path / "part", sample=4, seed=7)
    engine = ScriptedEngine({}, default=0.8)
    whole = judged(tmp_path / "whole", engine, reuse=part.directory)
    assert (len(part.scores), len(whole.scores), len(engine.asked)) == (4, 10, 6)
    assert set(ids(part)) < set(ids(whole))


def test_a_part_is_other_data_with_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [judged(), judged(limit=3), judged(limit=4), judged(sample=3), judged(limit=10)]
    assert runs[0].directory == runs[4].directory
    assert len({run.directory for run in runs}) == 4
    assert len({run.summary.signature.partition("|")[0] for run in runs}) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 3}, "a part of the data: the first 3 of 10 samples"),
        ({"sample": 3, "seed": 5}, "a part of the data: 3 of 10 samples, drawn by seed 5"),
    ],
)
def test_it_says_that_it_is_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], said: str
) -> None:
    """Before anything is judged, under its table, and of a run that was rescored."""
    stream = io.StringIO()
    run = judged(tmp_path / "part", progress=Lines(stream), **options)
    assert stream.getvalue().startswith(f"{said}; ")
    assert f"all samples, without asking about these again: reuse={str(tmp_path / 'part')!r}\n" in stream.getvalue()
    again = run.rescore(threshold=0.9, out=tmp_path / "again", engine=ScriptedEngine({}, default=0.8))
    for one in (run, again):
        terminal().print(summary_view(one))
        assert f"{said} " in capsys.readouterr().out.replace("\n", " \n")


def test_the_whole_does_not_say_so(tmp_path: Path) -> None:
    assert judged(tmp_path / "run").part is None
    assert judged(tmp_path / "run", limit=99).part is None


def test_groups_are_those_of_the_part(tmp_path: Path) -> None:
    run = judged(tmp_path / "part", limit=3, cluster_by="topic")
    assert run.cluster_of is not None
    assert [run.cluster_of[name] for name in "012"] == ["0", "1", "0"]
    assert len(run.cluster_of) == 3


def test_both_ways_to_choose_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="limit and sample cannot both be given"):
        judged(tmp_path / "part", limit=3, sample=3)
