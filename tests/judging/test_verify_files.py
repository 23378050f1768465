"""Files of a run that contradict each other, found without a judge."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from localjudge import InputError, Run, ScriptedEngine
from tests.analysis.conftest import label
from tests.conftest import ScriptedRun
from tests.run_directory.conftest import edited, in_store
from tests.test_typing import Halves

ROWS = [
    {
        "id": "a",
        "reference": "One. Two.",
        "retrieved_contexts": ["A context."],
        "user_input": "Why?",
        "team": "red",
    },
    {
        "id": "b",
        "reference": "Three. Four.",
        "retrieved_contexts": ["Another."],
        "user_input": "How?",
        "team": "blue",
    },
    {"id": "c", "reference": "Five.", "retrieved_contexts": [], "user_input": "When?"},
    {"id": "d", "reference": None, "retrieved_contexts": ["Last."], "user_input": "Who?"},
]
SCRIPT: dict[str, float | str] = {
    "One.": 0.9,
    "Two.": 0.3,
    "Three.": 0.6,
    "Four.": "it does not fit",
}


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    """context_recall: a 1/2, b failed, c 0/1 without a question, d undefined. With labels."""
    run = scripted_run(
        "run", ROWS, SCRIPT, metrics=["context_recall", "context_relevancy"], max_failed=1
    )
    run = label(run, lambda _: 1)
    assert run.verify(engine=ScriptedEngine(SCRIPT, default=1.0))
    return run


def with_checksums(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    """Make changes and adapt the checksums, as someone who wants to hide them would."""

    def change(directory: Path) -> None:
        for edit in changes:
            edit(directory)
        manifest = json.loads((directory / "manifest.json").read_text())
        for name in manifest["environment"]["files"]:
            manifest["environment"]["files"][name] = hashlib.sha256(
                (directory / name).read_bytes()
            ).hexdigest()
        (directory / "manifest.json").write_text(json.dumps(manifest))

    return change


A_SCORE = edited("scores.jsonl", '"score": 0.5, "numerator": 1', '"score": 1.0, "numerator": 2')
A_VERDICT = edited("verdicts.jsonl", '"p_yes": 0.3, "label": 0', '"p_yes": 0.8, "label": 1')
CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a checksum": (A_SCORE, "scores.jsonl was changed: its sha256 differs from manifest.json"),
    "a score": (
        with_checksums(A_SCORE),
        "scores.jsonl does not follow from the stored answers (row 1)",
    ),
    "a mean": (
        with_checksums(edited("summary.json", '"mean": 0.25', '"mean": 0.75')),
        "summary.json does not follow from the stored answers (metrics.context_recall.mean)",
    ),
    "a verdict and its score": (
        with_checksums(A_SCORE, A_VERDICT),
        "verdicts.jsonl does not follow from the stored answers (row 2)",
    ),
    "a text": (
        lambda directory: in_store(
            directory, "UPDATE sample SET content = replace(content, 'Last', 'Lost')"
        ),
        "the stored data was changed: run.sqlite",
    ),
    "a column": (
        lambda directory: in_store(
            directory, "UPDATE sample SET extras = replace(extras, 'red', 'blue')"
        ),
        "the stored data was changed: run.sqlite",
    ),
    "the columns of two samples": (
        lambda directory: in_store(
            directory,
            "UPDATE sample SET extras = CASE id WHEN 'a' THEN '{\"team\": \"blue\"}' "
            "ELSE '{\"team\": \"red\"}' END WHERE id IN ('a', 'b')",
        ),
        "the stored data was changed: run.sqlite",
    ),
    "an id beside the sample": (
        lambda directory: in_store(directory, "UPDATE sample SET id = 'x' WHERE id = 'd'"),
        "the stored data was changed: run.sqlite",
    ),
    "an answer": (
        lambda directory: in_store(directory, "UPDATE answer SET p_yes = 0.95 WHERE p_yes = 0.9"),
        "verdicts.jsonl does not follow from the stored answers (row 1)",
    ),
    "a label": (
        edited("labels.jsonl", '"human": 1', '"human": 0'),
        "labels.jsonl was changed (differs from the ",
    ),
    "the store": (lambda directory: (directory / "run.sqlite").write_bytes(b""), "run.sqlite "),
}


def test_an_unchanged_run_has_no_alterations(run: Run, tmp_path: Path) -> None:
    assert run.certificate(tmp_path / "page.html").problems == ()


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_alterations_are_found_without_the_judge(
    run: Run, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    change(run.directory)
    problems = Run.open(run.directory, check=False).certificate(tmp_path / "page.html").problems
    assert any(problem.startswith(said) for problem in problems), problems
    assert str(run.directory) not in "".join(problems)


def test_a_metric_that_is_not_installed_is_an_error(
    scripted_run: ScriptedRun, tmp_path: Path
) -> None:
    """It cannot be computed, but was not altered."""
    run = scripted_run("run", [{"response": "One."}], SCRIPT, metrics=[Halves()])
    with pytest.raises(InputError, match="the metric halves of the run is not installed"):
        run.certificate(tmp_path / "page.html")
