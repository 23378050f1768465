"""Answers of other runs are reused exactly where they are valid."""

import gc
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine, evaluate

FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
SCRIPT: dict[str, float | str] = {"Two 1.": 0.4, "Two 2.": "it does not fit"}


def engine(script: dict[str, float | str] | None = None) -> ScriptedEngine:
    if script is None:
        script = SCRIPT
    return ScriptedEngine(script, default=0.8)


def rows(count: int = 3) -> list[dict[str, Any]]:
    """Two questions per sample for context recall, one for faithfulness."""
    return [
        {
            "id": str(number),
            "retrieved_contexts": [f"Context {number}."],
            "reference": f"One {number}. Two {number}.",
            "response": f"Answer {number}.",
        }
        for number in range(count)
    ]


def judged(out: Path, using: ScriptedEngine, data: Any = None, **options: Any) -> Run:
    options = {"metrics": ["context_recall"], **options}
    if data is None:
        data = rows()
    return evaluate(data, out=out, engine=using, **options)


def results(run: Run) -> dict[str, bytes]:
    return {name: (run.directory / name).read_bytes() for name in FILES}


def answers(run: Run) -> Any:
    return run.manifest.environment.as_json["answers"]


@pytest.fixture
def original(tmp_path: Path) -> Run:
    """Six answers, one of them an error."""
    return judged(tmp_path / "first", engine())


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"threshold": 0.3}, 0),
        ({"min_valid_mass": 0.5}, 0),
        ({"metrics": ["context_recall", "faithfulness"]}, 3),
        ({"data": rows(4)}, 2),
        ({"data": rows(4)[::-1]}, 2),
        ({"data": rows(2)}, 0),
    ],
    ids=["threshold", "mass", "metric", "row", "order", "fewer"],
)
def test_reuse_asks_only_new_questions_and_gives_identical_files(
    tmp_path: Path, original: Run, options: dict[str, Any], asked: int
) -> None:
    """The error is asked again, for `Two 2.` of the third sample; two rows have no such unit."""
    errors = 0 if len(options.get("data", rows())) == 2 else 1
    using = engine()
    reusing = judged(tmp_path / "reusing", using, reuse=original.directory, **options)
    alone = judged(tmp_path / "alone", engine(), **options)
    assert len(using.asked) == asked + errors
    assert results(reusing) == results(alone)
    assert reusing.summary.signature == alone.summary.signature
    reused = 4 if errors == 0 else 5
    assert answers(reusing) == {
        "asked": asked + errors,
        "reused": {str(original.directory): reused},
    }
    assert answers(alone)["reused"] == {}


def test_a_run_with_reused_answers_is_self_contained(tmp_path: Path, original: Run) -> None:
    """Its store has the reused answers and their origin; `verify` asks all of them."""
    second = judged(tmp_path / "second", engine(), threshold=0.3, reuse=[str(original.directory)])
    shutil.rmtree(original.directory)
    using = engine()
    check = second.verify(engine=using)
    assert (check.result, len(using.asked)) == ("bit-identical", 6)
    with closing(sqlite3.connect(second.directory / "run.sqlite")) as store:
        sources = store.execute(
            "SELECT source, count(*) FROM answer JOIN reused USING (request) GROUP BY 1"
        ).fetchall()
    assert sources == [(str(original.directory), 5)]


def test_the_origin_of_answers_survives_an_interruption(tmp_path: Path, original: Run) -> None:
    """Stopped after five copied answers and resumed without --reuse, the run still lists them."""

    def stop(_request: Any) -> Any:
        raise KeyboardInterrupt

    stopping: Any = engine()
    stopping._answer = stop
    with pytest.raises(KeyboardInterrupt):
        judged(tmp_path / "second", stopping, threshold=0.3, reuse=original.directory)
    second = judged(tmp_path / "second", engine(), threshold=0.3)
    assert answers(second) == {"asked": 1, "reused": {str(original.directory): 5}}


@pytest.mark.parametrize(
    ("answered", "reuses", "origins"),
    [
        (2, True, [("reused", 3, 6), ("stored", 2, 6)]),
        (5, True, [("stored", 5, 6)]),
        (2, False, [("stored", 2, 6)]),
        (0, True, [("reused", 5, 6)]),
    ],
)
def test_answers_from_before_a_command_that_reuses_others_are_counted(
    tmp_path: Path, original: Run, answered: int, reuses: bool, origins: list[tuple[str, int, int]]
) -> None:
    """Of six questions, the first command answers some. The second one reuses what it lacks.

    The answer to "Two 2.", the last question, is an error, which is asked again: 6 - 2 - 1 = 3.
    """
    stopping: Any = engine()
    answer = stopping._answer

    def stop(request: Any) -> Any:
        if len(stopping.asked) > answered:
            raise KeyboardInterrupt
        return answer(request)

    stopping._answer = stop
    with pytest.raises(KeyboardInterrupt):
        judged(tmp_path / "second", stopping)
    reuse: dict[str, Any] = {}
    if reuses:
        reuse["reuse"] = original.directory
    second = judged(tmp_path / "second", engine(), **reuse)
    assert [(origin.kind, origin.count, origin.total) for origin in second.origins] == origins


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        (
            "engine",
            '"script_sha256": "',
            '"script_sha256": "\\u001b[31m',
            r"  engine\.script_sha256: \\x1b\[31m",
        ),
        ("judge", '"reasons": "none"', '"reasons": "before"', r"  judge\.reasons: before there"),
        ("none", "", "", "contains no run"),
    ],
)
def test_answers_of_another_judge_are_refused(
    tmp_path: Path, original: Run, name: str, old: str, new: str, problem: str
) -> None:
    """Everything that affects an answer must be equal, even if no key covers it."""
    file = original.directory / "manifest.json"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    reused = original.directory
    if name == "none":
        reused = tmp_path
    with pytest.raises(InputError, match=problem):
        judged(
            tmp_path / "second",
            engine(),
            reuse=reused,
        )
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON answer BEGIN SELECT 1; END;"
            " UPDATE answer SET p_yes = 2",
            "less than or",
        ),
        ("UPDATE answer SET valid_mass = 9e999", "finite number"),
    ],
)
def test_an_untrusted_store_is_checked_before_reuse(
    tmp_path: Path, original: Run, statement: str, said: str
) -> None:
    with closing(sqlite3.connect(original.directory / "run.sqlite")) as store:
        store.executescript(statement)
    with pytest.raises(RunDirectoryError, match=said):
        judged(tmp_path / "second", engine(), reuse=original.directory)


def test_a_run_without_data_keeps_settings_groups_and_skipped_rows(tmp_path: Path) -> None:
    data = [{**row, "topic": "x" if row["id"] == "0" else "y"} for row in rows()] + [
        {"id": 5, "topic": "y", "reference": [[7]]}
    ]
    options = {"cluster_by": "topic", "skip_bad_rows": True, "max_failed": 2, "min_valid_mass": 0.2}
    original = judged(tmp_path / "first", engine({}), data, **options)
    again = evaluate(reuse=original, out=tmp_path / "again", engine=engine({}))
    assert results(again) == results(original)
    assert again.summary.metrics["context_recall"].clusters == 2
    assert (again.summary.skipped_rows, again.max_failed) == (1, 2)
    settings = [run.manifest.environment.settings.as_json for run in (original, again)]
    assert settings[1] == {**settings[0], "reuse": [str(original.directory)]}


def test_reuse_accepts_runs_and_directories(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", engine())
    for number, reuse in enumerate((run, [run], str(run.directory), [run.directory])):
        again = judged(tmp_path / str(number), engine(), reuse=reuse)
        assert again.manifest.environment.as_json["answers"]["reused"] == {str(run.directory): 5}
    with pytest.raises(InputError, match=r"reuse .*got 3"):
        judged(tmp_path / "wrong", engine(), reuse=3)


@pytest.mark.filterwarnings("ignore")
def test_runs_close_all_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of the data (a second table), and a second run with the answers of the first.

    Python 3.13 warns about open connections.
    """
    opened: list[sqlite3.Connection] = []
    connect: Any = sqlite3.connect

    def recorded(*place: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*place, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    run = judged(tmp_path / "a", engine(), sample=2)
    judged(tmp_path / "b", engine(), sample=2, reuse=tmp_path / "a")
    run.verify(engine=engine())
    assert len(run.samples) == 2
    gc.collect()
    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_another_file_of_the_same_name_is_not_replaced_by_stored_samples(tmp_path: Path) -> None:
    """A mistyped folder gave the numbers of the earlier data."""
    old = tmp_path / "old" / "data.jsonl"
    old.parent.mkdir()
    old.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    first = judged(tmp_path / "first", engine(), data=old)
    with pytest.raises(InputError, match="omit the data file to score them"):
        judged(
            tmp_path / "second",
            engine(),
            data=tmp_path / "new" / "data.jsonl",
            reuse=str(first.directory),
        )
    old.unlink()
    again = judged(tmp_path / "third", engine(), data=old, reuse=str(first.directory))
    assert results(again) == results(first)
    assert any("the data files are gone" in note for note in again.notes)
