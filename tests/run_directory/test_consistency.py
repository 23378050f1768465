import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, RunDirectoryError, ScriptedEngine
from tests.report.whole_files import exported
from tests.run_directory.conftest import Stopped, edited, in_store, signature

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "retrieved_contexts": ["One. Two.", "Three."],
        "reference": "Four. Five.",
        "topic": "x",
    },
    {"id": "b", "retrieved_contexts": [], "reference": "Seven.", "topic": "x"},
    {"id": "c", "retrieved_contexts": ["Eight."], "reference": "Ten.", "topic": "y"},
]
SCRIPT = {"Four.": 0.9}
"""context_recall: a 1/2, b 0/1 without a context, c 0/1."""
CHANGED = "was changed: its sha256 differs from manifest.json"


def made(out: Path, **options: Any) -> Run:
    engine = ScriptedEngine(SCRIPT, default=0.2)
    return localjudge.evaluate(ROWS, out=out, engine=engine, metrics=["context_recall"], **options)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "run").directory


def in_manifest(
    change: Callable[[dict[str, Any]], Any], *, signed: bool = True
) -> Callable[[Path], None]:

    def write(directory: Path) -> None:
        manifest, summary = (
            json.loads((directory / f"{name}.json").read_text()) for name in ("manifest", "summary")
        )
        change(manifest)
        if signed:
            manifest["signature"] = summary["signature"] = signature(manifest)
        for name, value in (("manifest", manifest), ("summary", summary)):
            (directory / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")

    return write


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a mean": (edited("summary.json", '"mean": ', '"mean": 0.5, "x": '), f"summary.json {CHANGED}"),
    "a score": (edited("scores.jsonl", '"score": 0.5', '"score": 0.9'), f"scores.jsonl {CHANGED}"),
    "a verdict": (
        edited("verdicts.jsonl", '"label": 1', '"label": 0'),
        f"verdicts.jsonl {CHANGED}",
    ),
    "threshold": (
        edited("summary.json", '"threshold": 0.5', '"threshold": 0.4'),
        "threshold: 0.4, but 0.5 in",
    ),
    "signature": (edited("summary.json", '"judge:', '"judge:0'), "signature: judge:0"),
    "card": (
        edited("summary.json", '"sha256": null', '"sha256": "00"'),
        "sha256 of the judge: 00, but None in",
    ),
    "a part of the manifest": (
        in_manifest(lambda values: values["judge"]["engine"].update(engine="x"), signed=False),
        "signature of its parts",
    ),
    "samples": (
        in_manifest(lambda values: values["data"].update(rows=4)),
        "number of samples: 3, but 4 in",
    ),
    "metrics": (
        in_manifest(lambda values: values["judge"].update(metrics={})),
        "metrics: ['context_recall'], but",
    ),
    "no checksums": (
        in_manifest(lambda values: values["environment"].pop("files")),
        f"summary.json {CHANGED}",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_is_named_in_one_line(directory: Path, name: str) -> None:
    change, message = CHANGES[name]
    change(directory)
    with pytest.raises(RunDirectoryError) as caught:
        Run.open(directory)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert "localjudge verify" in (caught.value.hint or "")


def test_a_finished_run_stays_readable_while_it_is_repeated(tmp_path: Path) -> None:
    summaries: list[Any] = []

    def answer(_request: object) -> float:
        if summaries:
            raise Stopped
        return 0.2

    def run() -> Run:
        return localjudge.evaluate(
            ROWS, out=tmp_path, engine=ScriptedEngine(answer), metrics=["context_recall"]
        )

    summaries.append(run().summary)
    (tmp_path / "run.sqlite").unlink()
    with pytest.raises(Stopped):
        run()
    assert [Run.open(tmp_path).summary] == summaries


@pytest.mark.parametrize(
    "read", [lambda run: exported(run, "jsonl", texts=True), lambda run: run.compare(run)]
)
def test_a_score_without_its_stored_sample_is_refused(
    directory: Path, read: Callable[[Run], object]
) -> None:
    in_store(directory, "DELETE FROM sample WHERE id = 'c'")
    with pytest.raises(RunDirectoryError):
        read(Run.open(directory))


def test_a_misspelt_run_directory_gets_suggestions(directory: Path) -> None:
    with pytest.raises(RunDirectoryError, match="contains no run") as caught:
        Run.open(directory.with_name(f"{directory.name}n"))
    assert caught.value.hint == f"did you mean {directory}?"
