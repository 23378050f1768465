import io
import json
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine
from localjudge.report.terminal import Lines

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "question": "Why?",
        "contexts": ["Because."],
        "ground_truth": "One. Two.",
        "sometimes": "s",
    },
    {"id": "b", "question": "How?", "contexts": ["So."], "ground_truth": "One. Three."},
    {"id": "c", "question": "When?", "contexts": [], "ground_truth": "Never."},
    {"id": "d", "question": "Who?", "contexts": ["Me."], "ground_truth": None},
]
SCRIPT = {"One.": 0.9, "Two.": 0.2, "Three.": 0.7}


def engine(script: dict[str, float | str] | None = None) -> ScriptedEngine:
    return ScriptedEngine(script or SCRIPT, default=0.4)


def run(out: Path, rows: list[dict[str, Any]] = ROWS, **options: Any) -> Run:
    options = {"metrics": ["context_recall"], "engine": engine(), **options}
    return localjudge.evaluate(rows, out=out, **options)


def written(directory: Path) -> dict[str, bytes]:
    return {
        name: (directory / name).read_bytes()
        for name in ("scores.jsonl", "verdicts.jsonl", "summary.json")
    }


def test_scores_of_a_small_run(tmp_path: Path) -> None:
    """a: 1/2 (0.9 and 0.2); b: 2/2; c: no context, 0/1; d: undefined. Mean (0.5 + 1 + 0) / 3."""
    finished = run(tmp_path)
    assert [(row.sample_id, row.score, row.detail) for row in finished.scores] == [
        ("a", 0.5, None),
        ("b", 1.0, None),
        ("c", 0.0, "no context text"),
        ("d", None, "reference is null"),
    ]
    summary = finished.summary.metrics["context_recall"]
    assert (summary.mean, summary.scored, summary.undefined, summary.failed) == (0.5, 3, 1, 0)


def test_verdict_offsets_slice_the_given_text(tmp_path: Path) -> None:
    finished = run(tmp_path)
    references = {row["id"]: row["ground_truth"] for row in ROWS}
    for verdict in finished.verdicts:
        assert references[verdict.sample_id][verdict.start : verdict.end] == verdict.text


def test_repeating_a_call_asks_no_question_and_changes_no_file(tmp_path: Path) -> None:
    run(tmp_path)
    before = written(tmp_path)
    second = engine()
    run(tmp_path, engine=second)
    assert (second.asked, written(tmp_path)) == ((), before)
    assert len(Run.open(tmp_path).manifest.environment.sessions) == 2


def test_a_directory_of_another_run_is_refused_with_what_differs(tmp_path: Path) -> None:
    run(tmp_path)
    before = written(tmp_path)
    with pytest.raises(
        RunDirectoryError,
        match=r"belongs to another run .*\n  threshold: 0\.5 there, 0\.6 here",
    ):
        run(tmp_path, threshold=0.6)
    assert written(tmp_path) == before


def test_the_default_directory_depends_on_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my answers.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    scripted = engine()
    first = localjudge.evaluate("my answers.jsonl", engine=scripted)
    again = localjudge.evaluate(["my answers.jsonl"], engine=scripted)
    other = localjudge.evaluate("my answers.jsonl", engine=scripted, threshold=0.6)
    assert first.directory == again.directory != other.directory
    assert first.directory.parent == Path("runs")
    assert first.directory.name.startswith("my-answers-")


def test_the_default_directory_is_not_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a repository with a link `runs`, the texts went to the target of the link."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("runs").symlink_to("../outside")
    with pytest.raises(InputError, match=r"runs is a link: .* would be written to .*/outside"):
        localjudge.evaluate(ROWS, metrics=["context_recall"], engine=engine())
    assert list((tmp_path / "outside").iterdir()) == []
    assert run(Path("runs/named")).summary.samples == 4


def test_a_directory_in_use_is_refused_before_the_judge_is_opened(tmp_path: Path) -> None:
    """The judge does not exist; a large one could take minutes to load."""
    how: dict[str, Any] = {"metrics": ["context_recall"], "out": tmp_path / "run"}

    def run_again(_request: object) -> float:
        with pytest.raises(RunDirectoryError, match="by another process"):
            localjudge.evaluate(ROWS, judge="missing.gguf", **how)
        return 0.5

    asking = ScriptedEngine(run_again)
    assert localjudge.evaluate(ROWS, engine=asking, **how).summary.samples == 4
    assert asking.asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["faithfulness"]}, "faithfulness needs response, retrieved_contexts"),
        ({"metrics": []}, "no metric was named"),
        ({"threshold": 1.5}, "threshold .*1, got 1.5"),
        ({"cluster_by": "nothing"}, "no column"),
        ({"cluster_by": "sometimes"}, "no value .*'sometimes'"),
        ({"segmenter": "xx_none"}, "xx_none"),
    ],
)
def test_invalid_settings_are_refused_before_judging(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_skipped_rows_are_counted_and_named(tmp_path: Path) -> None:
    stream = io.StringIO()
    rows = [*ROWS, {"id": 5, "question": ["no"], "ground_truth": 7}]
    finished = run(tmp_path, rows, skip_bad_rows=True, progress=Lines(stream))
    assert (finished.summary.samples, finished.summary.skipped_rows) == (4, 1)
    assert "1 row skipped" in stream.getvalue()


def test_rows_and_files_give_the_same_numbers_and_signature(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)))
    from_rows = run(tmp_path / "1")
    from_file = localjudge.evaluate(
        file, metrics=["context_recall"], engine=engine(), out=tmp_path / "2"
    )
    assert from_rows.summary == from_file.summary
    assert written(tmp_path / "1") == written(tmp_path / "2")
