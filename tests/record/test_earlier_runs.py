"""Run directories that an earlier version left: opened and verified as what they are, without what they lack."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.errors import RunDirectoryError
from localjudge.record.manifest import signature
from localjudge.record.store import STORE_VERSION
from tests.conftest import ScriptedRun

ROWS: list[dict[str, Any]] = [
    {"id": "a", "retrieved_contexts": ["It opened in 1936."], "reference": "One. Two."},
    {"id": "b", "retrieved_contexts": ["It opened in 1936."], "reference": "Three."},
]


def rewrite(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    change(value)
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.fixture
def earlier(scripted_run: ScriptedRun) -> localjudge.Run:
    """A run whose manifest calls the part that moves no number `beside`, and whose store is of the first version."""
    directory = scripted_run("run", ROWS, {"Two.": 0.2}, min_legal_mass=0).directory

    def without_bound(manifest: dict[str, Any]) -> None:
        manifest["beside"] = manifest.pop("environment")
        for name in ("extras_sha256", "answers", "samples_read"):
            del manifest["beside"][name]
        del manifest["beside"]["settings"]["min_legal_mass"]

    with closing(sqlite3.connect(directory / "run.sqlite")) as store:
        store.executescript("DROP TABLE reused; DROP TABLE extra; PRAGMA user_version = 1;")
    rewrite(directory / "manifest.json", without_bound)
    return localjudge.Run.open(directory)


def test_it_is_opened(earlier: localjudge.Run) -> None:
    assert earlier.summary.metrics["context_recall"].mean == 0.75
    assert [verdict.p_yes for verdict in earlier.verdicts] == [1.0, 0.2, 1.0]
    assert earlier.judge.name == "scripted"


def test_it_is_verified_against_the_files_of_its_time(earlier: localjudge.Run) -> None:
    engine = localjudge.ScriptedEngine({"Two.": 0.2}, default=1.0)
    found = localjudge.verify(earlier, engine=engine)
    assert (found.result, found.files, found.judge_changes) == ("bit-identical", {}, ())


def test_it_is_gone_on_with_and_its_manifest_written_as_manifests_are_now(earlier: localjudge.Run) -> None:
    """Nothing is asked again: its session and the new one stand in the `environment`, and nothing in `beside`."""
    engine = localjudge.ScriptedEngine({"Two.": 0.2}, default=1.0)
    localjudge.evaluate(ROWS, out=earlier.directory, engine=engine, min_legal_mass=0)
    assert not engine.asked
    manifest = json.loads((earlier.directory / "manifest.json").read_text(encoding="utf-8"))
    assert manifest.keys() == {"schema_version", "signature", "judge", "data", "environment"}
    assert len(manifest["environment"]["sessions"]) == 2
    with closing(sqlite3.connect(earlier.directory / "run.sqlite")) as store:
        assert store.execute("PRAGMA user_version").fetchone() == (STORE_VERSION,)
    assert localjudge.verify(earlier.directory, engine=engine).files == {}


def test_its_answers_are_reused(earlier: localjudge.Run, tmp_path: Path) -> None:
    engine = localjudge.ScriptedEngine({"Two.": 0.2}, default=1.0)
    localjudge.evaluate(ROWS, out=tmp_path / "again", engine=engine, threshold=0.1, reuse=earlier.directory)
    assert not engine.asked


def test_a_store_of_then_that_holds_something_else_is_not_made_one_of_now(earlier: localjudge.Run) -> None:
    with closing(sqlite3.connect(earlier.directory / "run.sqlite")) as store:
        store.execute("CREATE TABLE another (id INTEGER)")
    with pytest.raises(RunDirectoryError, match="another is not as localjudge creates it"):
        localjudge.evaluate(
            ROWS, out=earlier.directory, engine=localjudge.ScriptedEngine({"Two.": 0.2}, default=1.0), min_legal_mass=0
        )


@pytest.mark.parametrize("compare_by", ["id", "content"])
def test_documents_are_compared_by_what_its_settings_said(tmp_path: Path, compare_by: str) -> None:
    """Names of metrics said nothing of it. By id 1 of 2 documents is found, by content another one: 1 / 2 and 0 / 2."""
    row = {
        "retrieved_contexts": [{"id": "a", "text": "Old words."}],
        "reference_contexts": [{"id": "a", "text": "New words."}, {"id": "b", "text": "More."}],
    }
    name = "document_recall_multi_hit"
    engine = localjudge.ScriptedEngine({})
    run = localjudge.evaluate([row], metrics=[f"{name}(compare_by={compare_by})"], engine=engine, out=tmp_path / "run")
    assert run.scores[0].score == (0.5 if compare_by == "id" else 0.0)

    def without_option(manifest: dict[str, Any]) -> None:
        (definition,) = manifest["judge"]["metrics"].values()
        manifest["judge"]["metrics"] = {name: definition}
        manifest["environment"]["settings"]["compare_by"] = compare_by
        manifest["signature"] = signature(manifest["judge"], manifest["data"])

    rewrite(run.directory / "manifest.json", without_option)
    for file in ("scores.jsonl", "summary.json"):
        text = (run.directory / file).read_text(encoding="utf-8")
        text = text.replace(f"{name}(compare_by=id)", name)
        text = text.replace(
            run.summary.signature, json.loads((run.directory / "manifest.json").read_text())["signature"]
        )
        (run.directory / file).write_text(text, encoding="utf-8")
    found = localjudge.verify(run.directory, engine=engine)
    assert (found.result, found.files, found.judge_changes) == ("bit-identical", {}, ())


def test_a_setting_of_then_that_is_no_text_says_nothing(scripted_run: ScriptedRun) -> None:
    """Somebody wrote a list into the manifest: the metrics compare what their names say."""
    row = {"retrieved_contexts": ["a"], "reference_contexts": ["a"]}
    run = scripted_run("run", [row], {}, metrics=["document_mrr"])
    rewrite(
        run.directory / "manifest.json", lambda manifest: manifest["environment"]["settings"].update(compare_by=["id"])
    )
    assert localjudge.verify(run.directory, engine=localjudge.ScriptedEngine({}, default=1.0)).result == "bit-identical"
