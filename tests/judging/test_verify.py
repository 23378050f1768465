import hashlib
import json
import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine
from localjudge.progress import Progress
from localjudge.run_directory.store_reader import RequestKeys
from localjudge.types import VerdictRequest
from tests.conftest import OneJudge, ScriptedRun

ROWS = [
    {
        "id": "a",
        "reference": "One. Two.",
        "retrieved_contexts": ["A context."],
        "user_input": "Why?",
    },
    {"id": "b", "reference": "Three.", "retrieved_contexts": ["Another."], "user_input": "How?"},
    {"id": "c", "reference": "Four.", "retrieved_contexts": [], "user_input": "When?"},
]
SCRIPT = {"One.": 0.9, "Two.": 0.3, "Three.": 0.6}


class Another(ScriptedEngine):
    """An engine with the identity of another, so that only answers differ."""

    def __init__(
        self, script: dict[str, float | str], like: ScriptedEngine, **changes: Any
    ) -> None:
        super().__init__(script, default=1.0)
        self._like = like
        self._changes = changes

    @property
    def identity(self) -> dict[str, Any]:
        """Return the other engine's identity with changes."""
        return {**self._like.identity, **self._changes}


def same(**changes: Any) -> Another:
    return moved({}, **changes)


def moved(script: Mapping[str, float | str], **changes: Any) -> Another:
    return Another({**SCRIPT, **script}, OneJudge(SCRIPT, default=1.0), **changes)


class Notes(Progress):
    """Record the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Record a note."""
        self.notes.append(text)


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    """Three samples: 3 statements with contexts, 2 sentences of contexts, 1 statement without."""
    return scripted_run("run", ROWS, SCRIPT, metrics=["context_recall", "context_relevancy"])


def files(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.directory.iterdir()}


def test_the_same_judge_gives_the_same_bits(run: Run) -> None:
    """5 of 6 verdicts were asked; "Four." has no context."""
    check = run.verify(engine=same())
    assert (check.result, check.stored_requests, check.asked_again, check.identical) == (
        "bit-identical",
        5,
        5,
        5,
    )
    assert (check.verdicts, check.verdicts_moved, check.largest_move, check.rows) == (5, 0, 0.0, ())
    assert (check.judge_changes, check.data_changes, check.files, check.altered_requests) == (
        (),
        (),
        {},
        0,
    )


def test_small_probability_changes_keep_the_verdicts(run: Run) -> None:
    """0.9 -> 0.8 and 0.3 -> 0.31, without crossing 0.5."""
    check = run.verify(engine=moved({"One.": 0.8, "Two.": 0.31}))
    assert (check.result, check.identical, check.verdicts_moved) == ("same verdicts", 3, 0)
    assert [(row.p_before, row.p_after) for row in check.rows] == [(0.9, 0.8), (0.3, 0.31)]
    assert check.largest_move == pytest.approx(0.1)


def test_a_flipped_verdict_is_listed_first(run: Run) -> None:
    """0.6 -> 0.4 crosses the threshold; 0.9 -> 0.6 is larger and does not."""
    check = run.verify(engine=moved({"One.": 0.6, "Three.": 0.4}))
    assert (check.result, check.verdicts_moved) == ("different", 1)
    assert [(row.text, row.before, row.after) for row in check.rows] == [
        ("Three.", 1, 0),
        ("One.", 1, 1),
    ]


def test_a_unit_judged_in_windows_moves_only_if_its_best_window_does(
    scripted_run: ScriptedRun, tmp_path: Path
) -> None:
    """Windows 0.2 and 0.8: the first may become 0.7, and the verdict stays 0.8."""
    rows = [{"id": "a", "reference": "One.", "retrieved_contexts": ["a" * 3000, "b" * 3000]}]
    run = localjudge.evaluate(
        rows, out=tmp_path / "run", engine=ScriptedEngine(_windows, capacity=4000)
    )
    again: Any = ScriptedEngine(_windows, capacity=4000)
    answer_as_before = again._answer

    def answer(request: VerdictRequest) -> Any:
        """Answer the first window differently."""
        answer = answer_as_before(request)
        return answer.model_copy(update={"p_yes": 0.7}) if answer.p_yes == 0.2 else answer

    again._answer = answer
    check = run.verify(engine=again)
    assert (check.result, check.asked_again, check.identical) == ("same verdicts", 2, 1)
    assert [(row.p_before, row.p_after, row.moved) for row in check.rows] == [(0.8, 0.8, False)]


def _windows(request: VerdictRequest) -> float:
    return 0.8 if "bbb" in repr(request.path) else 0.2


def test_requests_are_drawn_from_the_sorted_keys(run: Run) -> None:
    """A seed's draw depends only on the stored keys, so it is stable across versions."""
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as store:
        keys = [key for (key,) in store.execute("SELECT key FROM request ORDER BY key")]
    engine = same()
    run.verify(engine=engine, sample=3, seed=4)
    of = RequestKeys(run.manifest.judge.engine.as_json)
    assert {of.keyed(request).key for request in engine.asked} == set(
        random.Random(4).sample(keys, 3)
    )
    assert run.verify(engine=same(), sample=1000).asked_again == 5


def test_verify_changes_no_run_file_and_stores_its_result(run: Run) -> None:
    before = files(run)
    run.verify(engine=moved({"One.": 0.1}))
    assert {
        name: content for name, content in files(run).items() if name != "verification.json"
    } == before
    with pytest.raises(InputError, match="name its judge"):
        Run.open(run.directory).verify()


def test_a_verification_is_stored_with_the_checksum_of_the_manifest(run: Run) -> None:
    file = run.directory / "verification.json"
    assert not file.exists()
    run.verify(engine=same(), sample=2)
    drawn = json.loads(file.read_text())
    assert (drawn["result"], drawn["asked_again"], drawn["stored"]) == ("bit-identical", 2, 5)
    assert datetime.fromisoformat(drawn["when"]).tzinfo == UTC
    assert file.stat().st_mode & 0o777 == 0o600
    manifest = (run.directory / "manifest.json").read_bytes()
    assert drawn["manifest_sha256"] == hashlib.sha256(manifest).hexdigest()
    run.verify(engine=moved({"One.": 0.1}))
    whole = json.loads(file.read_text())
    assert (whole["result"], whole["asked_again"]) == ("different", 5)


def test_a_read_only_run_can_be_verified(run: Run) -> None:
    (run.directory / "verification.json").mkdir()
    progress = Notes()
    assert run.verify(engine=same(), progress=progress).result == "bit-identical"
    assert [
        note for note in progress.notes if note.startswith("verification.json cannot be stored: ")
    ]


def test_an_invalid_verification_file_is_refused(run: Run) -> None:
    (run.directory / "verification.json").write_text('{"result": "perfect"}')
    with pytest.raises(RunDirectoryError, match=r"verification\.json cannot be read"):
        run.report()


def test_the_ingredient_that_changed_is_named(run: Run) -> None:
    check = run.verify(engine=same(n_ctx=4096))
    assert [(change.ingredient, change.before, change.after) for change in check.judge_changes] == [
        ("engine.n_ctx", None, 4096)
    ]
    assert (check.result, check.other_machine) == ("bit-identical", False)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "place"),
    [
        ("scores.jsonl", '"score": 0.5', '"score": 0.9', "row 1"),
        ("verdicts.jsonl", '"label": 0', '"label": 1', "row 2, row 6"),
        ("summary.json", '"mean": 0.5', '"mean": 0.9', "metrics.context_recall.mean"),
        ("summary.json", '"caution": null', '"caution": "fit for decisions"', "judge.caution"),
        ("summary.json", '"name": "scripted"', '"name": "gpt-5"', "judge.name"),
        ("summary.json", '"skipped_rows": 0', '"skipped_rows": 7', "skipped_rows"),
        ("summary.json", '"windowed": 0', '"windowed": 7', "verdicts.windowed"),
        ("summary.json", '"samples": 3', '"samples":  3', "formatting"),
    ],
)
def test_an_edited_value_is_named(run: Run, name: str, old: str, new: str, place: str) -> None:
    _edit(run.directory / name, old, new)
    check = Run.open(run.directory, check=False).verify(engine=same())
    assert (check.result, check.files, check.identical) == (
        "different",
        {name: tuple(place.split(", "))},
        5,
    )


ALL = ["scores.jsonl", "verdicts.jsonl", "summary.json"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE answer SET p_yes = 0.95 WHERE p_yes = 0.3", {"moved": 1, "files": ALL}),
        # not the content of their keys any more: two statements against the context, and its own
        # sentence
        ("UPDATE node SET text = replace(text, 'A context.', 'A kontext.')", {"altered": 3}),
        (
            "UPDATE sample SET content = replace(content, 'Three.', 'Thrice.')",
            {"data": ["sha256"], "files": ALL},
        ),
        ("DELETE FROM answer WHERE p_yes = 0.3", {"stored": 4, "files": ALL}),
    ],
    ids=["answer", "question", "data", "answer gone"],
)
def test_an_edited_store_is_detected(run: Run, statement: str, expected: dict[str, Any]) -> None:
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as store, store:
        store.execute(statement)
    check = run.verify(engine=same())
    seen = {
        "moved": check.verdicts_moved,
        "altered": check.altered_requests,
        "data": [change.ingredient for change in check.data_changes],
        "stored": check.stored_requests,
        "files": list(check.files),
    }
    assert (check.result, {name: seen[name] for name in expected}) == ("different", expected)


def test_two_samples_at_one_position_are_refused(run: Run, tmp_path: Path) -> None:
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as store, store:
        store.execute("UPDATE sample SET position = 1 WHERE position = 0")
    again = partial(localjudge.evaluate, reuse=run, threshold=0.4, out=tmp_path / "again")
    for use in (run.verify, again):
        with pytest.raises(RunDirectoryError, match="two samples at position 1"):
            use(engine=same())


def test_an_edited_manifest_is_detected(run: Run) -> None:
    _edit(
        run.directory / "manifest.json",
        '"threshold": 0.5,\n    "min',
        '"threshold": 0.6,\n    "min',
    )
    check = Run.open(run.directory, check=False).verify(engine=same())
    assert [change.ingredient for change in check.judge_changes] == ["threshold"]
    assert (check.result, check.files) == (
        "different",
        {"summary.json": ("signature", "threshold")},
    )


@pytest.mark.parametrize("name", ["scores.jsonl", "verdicts.jsonl"])
def test_a_missing_result_file_is_named(run: Run, name: str) -> None:
    (run.directory / name).unlink()
    assert run.verify(engine=moved({"One.": 0.1})).files == {name: ("it cannot be read",)}


@pytest.mark.parametrize("options", [{"cluster_by": "topic"}, {"reasons": "after"}], ids=str)
def test_verify_covers_clusters_failures_and_reasons(
    scripted_run: ScriptedRun, options: dict[str, Any]
) -> None:
    rows = [{**row, "topic": number % 2} for number, row in enumerate(ROWS)]
    script: dict[str, float | str] = {**SCRIPT, "Two.": "too long"}
    run = scripted_run("run", rows, script, **options)
    engine = Another(script, OneJudge(script, default=1.0))
    assert run.verify(engine=engine).result == "bit-identical"
