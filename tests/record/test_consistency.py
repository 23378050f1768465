"""Files of a run that contradict each other: said in one line, by whatever would show, compare or decide on them."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, RunDirectoryError, ScriptedEngine
from localjudge.cli.main import main
from localjudge.metrics import catalog
from localjudge.record.evaluation import Evaluation
from localjudge.record.manifest import signature
from localjudge.record.result_rows import ScoreRow
from localjudge.record.summary import Totals
from localjudge.report.export import exported
from localjudge.types import Failed, Outcome, Scored, Undefined

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Why?",
        "retrieved_contexts": ["One. Two.", "Three."],
        "reference": "Four. Five.",
        "response": "Six.",
        "reference_contexts": ["Three."],
        "topic": "x",
    },
    {
        "id": "b",
        "user_input": "How?",
        "retrieved_contexts": [],
        "reference": "Seven.",
        "response": None,
        "reference_contexts": ["x"],
        "topic": "x",
    },
    {
        "id": "c",
        "user_input": "Who?",
        "retrieved_contexts": ["Eight.", "Nine."],
        "reference": "Ten.",
        "response": "Eleven. Twelve.",
        "reference_contexts": ["Eight."],
        "topic": "y",
    },
]
SCRIPT: dict[str, float | str] = {"Four.": 0.9, "Three.": 0.8, "Nine.": 0.7, "Twelve.": "it does not fit"}
"""context_recall: a 1/2, b 0/1 without a context, c 0/1. faithfulness: a 0/1, b undefined, c failed."""


METRICS = [*catalog.our_names()[:10]]
"""Five that are judged, five of documents."""


def made(out: Path, **options: Any) -> Run:
    chosen = {"metrics": METRICS, **options}
    return localjudge.evaluate(ROWS, out=out, engine=ScriptedEngine(SCRIPT, default=0.2), **chosen)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every metric that the data has columns for: scored, undefined and failed."""
    return made(tmp_path_factory.mktemp("sound") / "run").directory


def changed(directory: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the object in a file."""
    value = json.loads((directory / name).read_text(encoding="utf-8"))
    change(value)
    (directory / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def changed_row(directory: Path, name: str, metric: str, sample: str, **values: Any) -> None:
    """Change the first row of a metric and a sample."""
    rows = [json.loads(line) for line in (directory / name).read_text(encoding="utf-8").splitlines()]
    row = next(row for row in rows if (row["metric"], row["sample_id"]) == (metric, sample))
    row |= values
    (directory / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def in_summary(metric: str, **values: Any) -> Callable[[Path], None]:
    return lambda directory: changed(
        directory, "summary.json", lambda summary: summary["metrics"][metric].update(values)
    )


def in_score(metric: str, sample: str, **values: Any) -> Callable[[Path], None]:
    return lambda directory: changed_row(directory, "scores.jsonl", metric, sample, **values)


def in_verdict(metric: str, sample: str, **values: Any) -> Callable[[Path], None]:
    return lambda directory: changed_row(directory, "verdicts.jsonl", metric, sample, **values)


def without_last_row(name: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        lines = (directory / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (directory / name).write_text("".join(lines[:-1]), encoding="utf-8")

    return change


def with_rows_exchanged(directory: Path) -> None:
    lines = (directory / "scores.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (directory / "scores.jsonl").write_text("".join([lines[1], lines[0], *lines[2:]]), encoding="utf-8")


def with_row_of_nobody(directory: Path) -> None:
    text = (directory / "verdicts.jsonl").read_text(encoding="utf-8")
    row = json.loads(text.splitlines()[-1]) | {"sample_id": "z"}
    (directory / "verdicts.jsonl").write_text(f"{text}{json.dumps(row)}\n", encoding="utf-8")


def in_manifest(part: str, **values: Any) -> Callable[[Path], None]:
    return lambda directory: changed(directory, "manifest.json", lambda manifest: manifest[part].update(values))


NO_SCORE: dict[str, Any] = {"score": None, "numerator": None, "denominator": None}

CONTRADICTIONS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a mean": (in_summary("context_recall", mean=0.9), "context_recall: mean 0.9 in summary.json, 0.16666666666666666"),
    "a mean of nothing": (in_summary("faithfulness", mean=None), "faithfulness: mean None in summary.json, 0.0"),
    "a count": (in_summary("faithfulness", failed=0), "faithfulness: failed 0 in summary.json, 1 by scores.jsonl"),
    "undefined ones": (in_summary("faithfulness", undefined=7), "undefined 7 in summary.json, 1 by scores.jsonl"),
    "bounds": (in_summary("faithfulness", bounds=[0.5, 1.0]), "faithfulness: lower bound 0.5 in summary.json, 0.0"),
    "an interval": (in_summary("context_recall", ci95=[0.1, 0.2]), "context_recall: interval 0.1 to 0.2 in summary"),
    "groups": (in_summary("context_recall", clusters=9), "context_recall: 9 groups in summary.json, 3 by its samples"),
    "no judge": (
        lambda directory: changed(directory, "summary.json", lambda summary: summary.pop("judge")),
        "summary.json does not say who judged",
    ),
    "a threshold": (
        lambda directory: changed(directory, "summary.json", lambda summary: summary.update(threshold=0.6)),
        "threshold: 0.6 in summary.json, 0.5 in manifest.json",
    ),
    "a signature": (
        lambda directory: changed(
            directory, "summary.json", lambda summary: summary.update(signature="judge:1|data:2")
        ),
        "signature: judge:1|data:2 in summary.json",
    ),
    "a judge": (
        lambda directory: changed(directory, "summary.json", lambda summary: summary["judge"].update(sha256="0" * 64)),
        f"judge: sha256 {'0' * 64} in summary.json, None in manifest.json",
    ),
    "a number of samples": (in_manifest("data", rows=2), "number of samples: 3 in summary.json, 2 in manifest.json"),
    "an ingredient": (in_manifest("judge", language="de"), "the signature in manifest.json is not that of its parts"),
    "a row that is gone": (without_last_row("scores.jsonl"), "scores.jsonl has 29 rows for 3 samples and 10 metrics"),
    "rows in another order": (with_rows_exchanged, "a, context_relevancy stands where the score of a, context_recall"),
    "a sample twice": (in_score("context_recall", "b", sample_id="a"), "scores.jsonl has a sample twice"),
    "a score": (in_score("context_recall", "a", score=0.9), "a, context_recall: 1/2 is not 0.9"),
    "a division by 0": (in_score("context_recall", "a", denominator=0), "a, context_recall: it is divided by 0"),
    "an undefined score": (in_score("faithfulness", "b", score=1.0), "b, faithfulness: it is undefined, and has a"),
    "a scored nothing": (in_score("context_recall", "a", score=None), "a, context_recall: it is scored, and has no"),
    "a label": (in_verdict("context_recall", "a", label=0), "statement 0 has label 0, probability 0.9, at threshold"),
    "a probability": (in_verdict("context_recall", "a", p_yes=0.4), "statement 0 has label 1, probability 0.4"),
    "a label from nowhere": (in_verdict("context_recall", "b", label=1), "b, context_recall: statement 0 has label 1"),
    "an error with a label": (in_verdict("context_recall", "a", error="none"), "statement 0 has a label and an error"),
    "neither": (in_verdict("context_recall", "a", label=None, p_yes=None), "statement 0 has no label, and no error"),
    "a text": (in_verdict("context_recall", "a", text="Four hundred."), "statement 0 has 13 characters, from 0 to 5"),
    "a verdict that is gone": (
        without_last_row("verdicts.jsonl"),
        "c, context_precision: it is 0.5, its verdicts give",
    ),
    "a verdict of another": (
        in_verdict("context_recall", "a", sample_id="z"),
        "a, context_recall: it is scored without",
    ),
    "a verdict of nobody": (
        with_row_of_nobody,
        "verdicts.jsonl has z, context_precision where scores.jsonl has no score",
    ),
    "a lucky numerator": (
        in_score("context_recall", "a", numerator=2, denominator=4),
        "a, context_recall: its verdicts give 1.0/2.0",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_said_in_one_line(directory: Path, name: str) -> None:
    change, message = CONTRADICTIONS[name]
    change(directory)
    with pytest.raises(RunDirectoryError) as caught:
        Run.open(directory)
    said = caught.value.message
    assert said.startswith(f"the files in {directory} contradict each other: ")
    assert message in said
    assert "\n" not in said


SCORES: dict[str, tuple[Callable[[Path], None], str]] = {
    "hidden as undefined": (
        lambda directory: changed_row(
            directory, "scores.jsonl", "context_recall", "c", status="undefined", detail="?", **NO_SCORE
        ),
        "it is undefined, its verdicts give 0",
    ),
    "hidden as failed": (
        lambda directory: changed_row(
            directory, "scores.jsonl", "context_recall", "c", status="failed", detail="?", **NO_SCORE
        ),
        "it is failed, its verdicts give 0",
    ),
    "scored in spite of an error": (
        lambda directory: changed_row(
            directory, "scores.jsonl", "faithfulness", "c", status="scored", score=0.5, numerator=1, denominator=2
        ),
        "it is scored, and 1 of its units have no verdict",
    ),
    "scored without a verdict": (
        lambda directory: changed_row(
            directory, "scores.jsonl", "faithfulness", "b", status="scored", score=1.0, numerator=1, denominator=1
        ),
        "it is scored without a verdict",
    ),
    "another average precision": (in_score("context_precision", "a", score=0.25), "it is 0.25, its verdicts give 0.5"),
}


@pytest.mark.parametrize("name", SCORES)
def test_a_score_that_its_verdicts_do_not_give_is_found_though_the_summary_agrees(directory: Path, name: str) -> None:
    """The summary is written anew from the changed scores, as somebody would who wants another mean."""
    change, message = SCORES[name]
    change(directory)
    _summarized_again(directory)
    with pytest.raises(RunDirectoryError) as caught:
        Run.open(directory)
    assert message in caught.value.message


def _summarized_again(directory: Path) -> None:
    run = Run.open(directory, check=False)
    found = [Evaluation(row.sample_id, row.metric, _outcome(row)) for row in run.scores]
    totals = Totals(run.summary.metrics, run.summary)
    totals.add(found)
    metrics = {name: metric.model_dump() for name, metric in totals.metrics.items()}
    changed(directory, "summary.json", lambda summary: summary.update(metrics=metrics))


def _outcome(row: ScoreRow) -> Outcome:
    match row.status:
        case "scored":
            return Scored(value=row.score or 0.0)
        case "undefined":
            return Undefined(reason=row.detail or "")
        case "failed":
            return Failed(reason=row.detail or "")


MATRIX = ["matrix_recall", "matrix_recall@1", "matrix_precision"]


@pytest.mark.parametrize("metric", MATRIX)
def test_a_cell_of_the_matrix_that_was_turned_is_found(tmp_path: Path, metric: str) -> None:
    """One statement and two chunks, neither of which supports it: with the first doing so, every metric is another."""
    localjudge.evaluate(ROWS[2:], out=tmp_path, engine=ScriptedEngine({}, default=0.2), metrics=[metric])
    changed_row(tmp_path, "verdicts.jsonl", metric, "c", label=1, p_yes=0.9)
    with pytest.raises(RunDirectoryError, match=f"c, {metric}: it is .*, its verdicts give"):
        Run.open(tmp_path)


@pytest.mark.parametrize("options", [{}, {"cluster_by": "topic"}, {"protocol": "joint"}, {"reasons": "after"}])
def test_a_run_of_every_kind_contradicts_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    run = made(tmp_path, metrics=[name.replace("@k", "@2") for name in catalog.our_names()], **options)
    again = Run.open(tmp_path)
    assert (again.summary, again.scores, again.verdicts) == (run.summary, run.scores, run.verdicts)


def test_intervals_by_another_numpy_may_differ_by_a_tenth_of_their_width(directory: Path) -> None:
    """Not by more; and by nothing at all where the versions are the same (the manifest says which drew them)."""
    low, high = Run.open(directory).summary.metrics["context_recall"].ci95 or (0.0, 0.0)

    def with_interval(by: float) -> None:
        limits = [low, high + by * (high - low)]
        changed(directory, "summary.json", lambda summary: summary["metrics"]["context_recall"].update(ci95=limits))

    with_interval(0.01)
    with pytest.raises(RunDirectoryError, match="context_recall: interval"):
        Run.open(directory)
    _with_numpy(directory, "0.1")
    assert Run.open(directory).summary.metrics["context_recall"].ci95 != (low, high)
    with_interval(0.2)
    with pytest.raises(RunDirectoryError, match="context_recall: interval"):
        Run.open(directory)


def _with_numpy(directory: Path, version: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["judge"]["versions"]["numpy"] = version
        manifest["signature"] = signature(manifest["judge"], manifest["data"])

    changed(directory, "manifest.json", change)
    name = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["signature"]
    changed(directory, "summary.json", lambda summary: summary.update(signature=name))


def test_a_metric_whose_formula_is_another_today_is_not_counted_again(directory: Path) -> None:
    """A run of an earlier version of the metric still opens: its own formula gave its scores."""
    in_score("context_precision", "a", score=0.25)(directory)
    _summarized_again(directory)

    def change(manifest: dict[str, Any]) -> None:
        manifest["judge"]["metrics"]["context_precision"]["version"] = 0

    changed(directory, "manifest.json", change)
    _with_numpy(directory, json.loads((directory / "manifest.json").read_text())["judge"]["versions"]["numpy"])
    assert Run.open(directory).scores[4].score == 0.25


def test_verify_opens_what_contradicts_itself_and_names_the_file(directory: Path) -> None:
    in_summary("context_recall", mean=0.9)(directory)
    found = localjudge.verify(Run.open(directory, check=False), engine=ScriptedEngine(SCRIPT, default=0.2))
    assert (found.result, found.files) == ("different", {"summary.json": ("metrics.context_recall.mean",)})


@pytest.mark.parametrize(
    "command",
    [
        ["show", "RUN"],
        ["show", "RUN", "a"],
        ["show", "RUN", "--json"],
        ["compare", "RUN", "SOUND"],
        ["compare", "SOUND", "RUN"],
        ["export", "RUN", "--as", "csv"],
        ["run", "--demo", "--baseline", "RUN", "--gate", "context_recall.delta>=0", "--out", "NEW"],
    ],
)
def test_no_command_uses_a_summary_that_its_scores_contradict(
    sound: Path, directory: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Exit code 1, nothing on standard output, nothing judged."""
    in_summary("context_recall", mean=0.9)(directory)
    places = {"RUN": directory, "SOUND": sound, "NEW": tmp_path / "new"}
    with pytest.raises(SystemExit) as ended:
        main([str(places.get(word, word)) for word in command])
    output, errors = capfd.readouterr()
    assert (ended.value.code, output) == (1, "")
    assert errors.startswith(f"localjudge: the files in {directory} contradict each other: context_recall: mean 0.9")
    assert not (tmp_path / "new").exists()


def test_a_score_of_a_sample_that_is_not_stored_is_not_exported(directory: Path) -> None:
    """The texts of another run under the scores of this one."""
    with closing(sqlite3.connect(directory / "run.sqlite")) as store, store:
        store.execute("DELETE FROM sample WHERE id = 'c'")
    for read in (
        lambda: exported(Run.open(directory), "ragas"),
        lambda: localjudge.compare(*[Run.open(directory)] * 2),
    ):
        with pytest.raises(RunDirectoryError, match=r"run\.sqlite lacks the sample c, which scores\.jsonl has a score"):
            read()


def test_groups_of_some_samples_only_are_refused(tmp_path: Path) -> None:
    made(tmp_path, cluster_by="topic")
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as store, store:
        store.execute("UPDATE sample SET cluster = NULL WHERE id = 'c'")
    with pytest.raises(RunDirectoryError, match="gives a group to some samples only"):
        Run.open(tmp_path)
